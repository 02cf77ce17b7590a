// Bindings of the C library's socket calls, created at first use, for kernel features that Node does not offer (ICMP
// sockets, kernel time stamps, error queues). The same binding serves glibc and musl, x64 and arm64.
import type Koffi from 'koffi'
import type { KoffiFunc } from 'koffi'
import { getSystemErrorName } from 'node:util'

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

/** System calls, as their manual pages have them; -1 means that `errno()` has the error. */
export type Libc = ReturnType<typeof bindLibc>

/** Of memory that does not move: that of a buffer. */
type Pointer = bigint | Uint8Array
type Call<P extends unknown[]> = (...parameters: P) => number

function bindLibc(koffi: typeof Koffi) {
  // Without a name: the library of this process itself, glibc or musl.
  const self = koffi.load(null)
  const bound = <P extends unknown[]>(prototype: string): KoffiFunc<Call<P>> => self.func(prototype)
  return {
    socket: bound<[domain: number, type: number, protocol: number]>('int socket(int, int, int)'),
    close: bound<[fd: number]>('int close(int)'),
    bind: bound<[fd: number, address: Pointer, length: number]>('int bind(int, void *, uint32_t)'),
    connect: bound<[fd: number, address: Pointer, length: number]>(
      'int connect(int, void *, uint32_t)',
    ),
    getsockname: bound<[fd: number, address: Pointer, length: Pointer]>(
      'int getsockname(int, void *, void *)',
    ),
    setsockopt: bound<[fd: number, level: number, name: number, value: Pointer, length: number]>(
      'int setsockopt(int, int, int, void *, uint32_t)',
    ),
    getsockopt: bound<[fd: number, level: number, name: number, value: Pointer, length: Pointer]>(
      'int getsockopt(int, int, int, void *, void *)',
    ),
    send: bound<[fd: number, bytes: Pointer, length: number, flags: number]>(
      'long send(int, void *, unsigned long, int)',
    ),
    sendto: bound<
      [fd: number, bytes: Pointer, length: number, flags: number, to: Pointer, toLength: number]
    >('long sendto(int, void *, unsigned long, int, void *, uint32_t)'),
    recvmsg: bound<[fd: number, message: Pointer, flags: number]>('long recvmsg(int, void *, int)'),
    clock_gettime: bound<[clock: number, time: Pointer]>('int clock_gettime(int, void *)'),
    if_nametoindex: bound<[name: string]>('unsigned int if_nametoindex(const char *)'),
    eventfd: bound<[value: number, flags: number]>('int eventfd(unsigned int, int)'),
    read: bound<[fd: number, bytes: Pointer, length: number]>(
      'long read(int, void *, unsigned long)',
    ),
    write: bound<[fd: number, bytes: Pointer, length: number]>(
      'long write(int, void *, unsigned long)',
    ),
    /** `poll.async` waits in a thread of Node's pool. */
    poll: bound<[fds: Pointer, count: number, timeoutMs: number]>(
      'int poll(void *, unsigned long, int)',
    ),
    errno: (): number => koffi.errno(),
    /** The address of a buffer, which must stay referenced. */
    addressOf: (bytes: Buffer): bigint => koffi.address(bytes),
  }
}
