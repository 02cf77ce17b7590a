// Bindings of the C library's socket calls, created at first use, for kernel features that Node does not offer (ICMP
// sockets, kernel time stamps, error queues). The same binding serves glibc and musl, x64 and arm64.
import type Koffi from 'koffi'
import type { KoffiFunc } from 'koffi'
import { getSystemErrorName } from 'node:util'

/** Memory that the kernel may write to: it never moves. */
export interface NativeMemory {
  readonly address: bigint
  readonly bytes: Buffer
  readonly view: DataView
}

type Pointer = bigint | Uint8Array

/** System calls, as their manual pages have them; -1 means that `errno()` has the error. */
export interface Libc {
  socket(domain: number, type: number, protocol: number): number
  close(fd: number): number
  bind(fd: number, address: Pointer, length: number): number
  connect(fd: number, address: Pointer, length: number): number
  getsockname(fd: number, address: Pointer, length: Pointer): number
  setsockopt(fd: number, level: number, name: number, value: Pointer, length: number): number
  getsockopt(fd: number, level: number, name: number, value: Pointer, length: Pointer): number
  send(fd: number, bytes: Pointer, length: number, flags: number): number
  sendto(
    fd: number,
    bytes: Pointer,
    length: number,
    flags: number,
    address: Pointer,
    addressLength: number,
  ): number
  recvmsg(fd: number, message: Pointer, flags: number): number
  clock_gettime(clock: number, time: Pointer): number
  if_nametoindex(name: string): number
  eventfd(value: number, flags: number): number
  read(fd: number, bytes: Pointer, length: number): number
  write(fd: number, bytes: Pointer, length: number): number
  /** Waits in a thread of Node's pool. */
  poll: KoffiFunc<(fds: bigint, count: number, timeoutMs: number) => number>
  /** The error of the last failed call. */
  errno(): number
  /** Allocates zeroed memory; it must not be used after `free`. */
  allocate(bytes: number): NativeMemory
  free(memory: NativeMemory): void
}

/** A system call that failed, in the form of Node's own errors. */
export class SystemCallError extends Error {
  readonly code: string
  readonly errno: number
  readonly syscall: string

  constructor(syscall: string, errno: number) {
    const code = errorName(errno)
    super(`${syscall} ${code}`)
    this.name = 'SystemCallError'
    this.code = code
    this.errno = errno
    this.syscall = syscall
  }
}

/** The C library cannot be called: the system is not Linux, or koffi has no binary for it. */
export class LibcUnavailable extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'LibcUnavailable'
  }
}

/** `EACCES` for 13. */
export function errorName(errno: number): string {
  return errno > 0 ? getSystemErrorName(-errno) : 'UNKNOWN'
}

let loading: Promise<Libc> | undefined

/** Binds the C library once. Rejects with LibcUnavailable where it is not supported. */
export function loadLibc(): Promise<Libc> {
  loading ??= load()
  return loading
}

async function load(): Promise<Libc> {
  if (process.platform !== 'linux') {
    throw new LibcUnavailable(`it needs Linux, and this is ${process.platform}`)
  }
  try {
    const { default: koffi } = await import('koffi')
    return bindLibc(koffi)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new LibcUnavailable(`the C library could not be bound: ${why}`, { cause: error })
  }
}

function bindLibc(koffi: typeof Koffi): Libc {
  // Without a name: the library of this process itself, glibc or musl.
  const self = koffi.load(null)
  const bound = (prototype: string) => self.func(prototype)
  const blocks = new Map<bigint, unknown>()
  return {
    socket: bound('int socket(int, int, int)'),
    close: bound('int close(int)'),
    bind: bound('int bind(int, void *, uint32_t)'),
    connect: bound('int connect(int, void *, uint32_t)'),
    getsockname: bound('int getsockname(int, void *, void *)'),
    setsockopt: bound('int setsockopt(int, int, int, void *, uint32_t)'),
    getsockopt: bound('int getsockopt(int, int, int, void *, void *)'),
    send: bound('long send(int, void *, unsigned long, int)'),
    sendto: bound('long sendto(int, void *, unsigned long, int, void *, uint32_t)'),
    recvmsg: bound('long recvmsg(int, void *, int)'),
    clock_gettime: bound('int clock_gettime(int, void *)'),
    if_nametoindex: bound('unsigned int if_nametoindex(const char *)'),
    eventfd: bound('int eventfd(unsigned int, int)'),
    read: bound('long read(int, void *, unsigned long)'),
    write: bound('long write(int, void *, unsigned long)'),
    poll: bound('int poll(void *, unsigned long, int)'),
    errno: () => koffi.errno(),
    allocate(length) {
      const block: unknown = koffi.alloc('uint8_t', length)
      const address = koffi.address(block)
      const whole = koffi.view(block, length)
      const bytes = Buffer.from(whole)
      bytes.fill(0)
      blocks.set(address, block)
      return { address, bytes, view: new DataView(whole) }
    },
    free({ address }) {
      const block = blocks.get(address)
      if (block === undefined) return
      blocks.delete(address)
      koffi.free(block)
    },
  }
}
