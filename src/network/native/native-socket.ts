// A native socket, with error queue, TTLs and kernel time stamps, which Node's sockets do not have. It never blocks:
// wait for it with readiness.ts. Never share a descriptor with Node: Node ends the whole process when it finds an
// error queue.
import { readControl, readTimespec, type ControlFacts } from './control-messages.ts'
import type { Family } from '../dial.ts'
import { SystemCallError, loadLibc, type Libc } from './libc.ts'
import {
  ADDRESS_BYTES_MAX,
  readAddress,
  readPort,
  socketAddress,
  type SocketAddress,
} from './socket-address.ts'
import {
  AF_INET,
  AF_INET6,
  MSG_DONTWAIT,
  MSG_ERRQUEUE,
  MSG_TRUNC,
  OPTION,
  PROTOCOLS,
  SOCKET_TYPES,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  type SocketOption,
} from './socket-options.ts'

export interface SocketKind {
  family: Family
  type: keyof typeof SOCKET_TYPES
  protocol: keyof typeof PROTOCOLS
}

/** A packet, or an entry of the error queue. */
export interface Received extends ControlFacts {
  /** Valid until the next packet is received, by any socket. In an error, the packet that we sent. */
  bytes: Buffer
  /** The sender; in an error, the destination of our packet. Canonical, see SocketAddress. */
  from: string
  port: number
  /** The packet was longer than fits. */
  truncated: boolean
}

/** Opens sockets and reads the kernel's clock. */
export interface Native {
  /** Throws a SystemCallError where the kernel refuses. */
  open(kind: SocketKind): NativeSocket
  /** The kernel's form of a literal, its zone looked up. Throws a TypeError if it is not a literal. */
  address(literal: string, port: number): SocketAddress
  /** The kernel's clock, to compare `kernelMs` with. Milliseconds; it jumps when the clock is set. */
  clockMs(): number
  readonly libc: Libc
}

let made: Promise<Native> | undefined

/** Loads all native code at first use. Rejects with LibcUnavailable where it is not supported. */
export function loadNative(): Promise<Native> {
  made ??= loadLibc().then(createNative)
  return made
}

function createNative(libc: Libc): Native {
  const inbox = createInbox(libc)
  return {
    libc,
    open: (kind) => new NativeSocket(libc, inbox, kind),
    address: (literal, port) => socketAddress(literal, port, (name) => libc.if_nametoindex(name)),
    clockMs: () => inbox.clockMs(),
  }
}

const PACKET_BYTES_MAX = 65_536
const CONTROL_BYTES = 512

/** The only receive buffer: packets are processed one after the other. */
type Inbox = ReturnType<typeof createInbox>

/** Places in the inbox' memory: msghdr, iovec, timespec, address, control messages, packet. */
const AT = { header: 0, vector: 64, time: 96, name: 128, control: 192, packet: 1024 } as const

function createInbox(libc: Libc) {
  const bytes = Buffer.alloc(AT.packet + PACKET_BYTES_MAX)
  const start = libc.addressOf(bytes)
  const pointTo = (from: number, to: number) => bytes.writeBigUInt64LE(start + BigInt(to), from)
  pointTo(AT.header, AT.name)
  pointTo(AT.header + 16, AT.vector)
  bytes.writeBigUInt64LE(1n, AT.header + 24)
  pointTo(AT.header + 32, AT.control)
  pointTo(AT.vector, AT.packet)
  bytes.writeBigUInt64LE(BigInt(PACKET_BYTES_MAX), AT.vector + 8)
  const control = bytes.subarray(AT.control, AT.control + CONTROL_BYTES)
  const name = bytes.subarray(AT.name, AT.name + ADDRESS_BYTES_MAX)
  const epochSeconds = Math.floor(Date.now() / 1000)
  const header = start + BigInt(AT.header)
  const time = start + BigInt(AT.time)
  return {
    /** Length of the packet, or minus the number of the error. */
    receive(fd: number, flags: number): number {
      bytes.writeUInt32LE(ADDRESS_BYTES_MAX, AT.header + 8)
      bytes.writeUInt32LE(CONTROL_BYTES, AT.header + 40)
      // An error without an address must not show that of the previous packet.
      bytes.writeUInt16LE(0, AT.name)
      const length = libc.recvmsg(fd, header, flags | MSG_DONTWAIT)
      return length >= 0 ? length : -libc.errno()
    },
    /** The packet received last. */
    last(length: number): Received {
      const facts = readControl(control, bytes.readUInt32LE(AT.header + 40), epochSeconds)
      const received = facts as Received
      received.bytes = bytes.subarray(AT.packet, AT.packet + length)
      received.from = readAddress(name, 0) ?? ''
      received.port = readPort(name, 0)
      received.truncated = (bytes.readUInt32LE(AT.header + 48) & MSG_TRUNC) !== 0
      return received
    },
    clockMs(): number {
      libc.clock_gettime(0, time)
      return readTimespec(bytes, AT.time, epochSeconds)
    },
  }
}

const EAGAIN = 11
const EINPROGRESS = 115
/** An address of the family AF_UNSPEC; connect(2). */
const NOWHERE = Buffer.alloc(16)
/** Errors of earlier packets that one call may come upon before it does its own work. */
const PENDING_MAX = 8

/** Ports to try from the wanted one on; further apart than those of one trace, so that two do not overlap again. */
const PORT_STEPS = Array.from({ length: 16 }, (_, at) => 11 * at)

/** A socket of our own. */
export class NativeSocket {
  readonly fd: number
  readonly family: Family
  readonly #libc: Libc
  readonly #inbox: Inbox
  #open = true

  constructor(libc: Libc, inbox: Inbox, { family, type, protocol }: SocketKind) {
    this.#libc = libc
    this.#inbox = inbox
    this.family = family
    const domain = family === 'IPv6' ? AF_INET6 : AF_INET
    const flags = SOCKET_TYPES[type] | SOCK_NONBLOCK | SOCK_CLOEXEC
    this.fd = this.#checked('socket', libc.socket(domain, flags, PROTOCOLS[protocol]))
  }

  /** Throws a SystemCallError where the kernel refuses. */
  setOption(option: SocketOption, value: number): void {
    const bytes = Buffer.alloc(4)
    bytes.writeInt32LE(value)
    this.setOptionBytes(option, bytes)
  }

  /** Like `setOption`, for values that are more than a number. */
  setOptionBytes([level, name]: SocketOption, value: Uint8Array): void {
    const { length } = value
    this.#checked('setsockopt', this.#libc.setsockopt(this.fd, level, name, value, length))
  }

  /** The numbers that an option consists of; those in its first `bytesMax` bytes. */
  getOption([level, name]: SocketOption, bytesMax = 64): number[] {
    const value = Buffer.alloc(bytesMax)
    const length = Buffer.alloc(4)
    length.writeUInt32LE(value.length)
    this.#checked('getsockopt', this.#libc.getsockopt(this.fd, level, name, value, length))
    const count = Math.floor(length.readUInt32LE() / 4)
    return Array.from({ length: count }, (_, at) => value.readInt32LE(4 * at))
  }

  bind({ bytes }: SocketAddress): void {
    this.#checked('bind', this.#libc.bind(this.fd, bytes, bytes.length))
  }

  /**
   * Binds to the wanted port or one near it, else to one that the system chooses; returns the port. Routers with
   * several paths to a target choose one by addresses and ports: with the same port on every run it stays the same.
   */
  bindPort(wanted?: number): number {
    const anywhere = this.family === 'IPv6' ? '::' : '0.0.0.0'
    const near = wanted === undefined ? [] : PORT_STEPS.map((step) => wanted + step)
    for (const port of near) {
      try {
        this.bind(socketAddress(anywhere, port))
        return port
      } catch (error) {
        if (!(error instanceof SystemCallError) || error.code !== 'EADDRINUSE') throw error
      }
    }
    this.bind(socketAddress(anywhere, 0))
    return this.localAddress().port
  }

  /** Begins to connect; true when that is done at once. Throws a SystemCallError where it is refused. */
  connect({ bytes }: SocketAddress): boolean {
    if (this.#libc.connect(this.fd, bytes, bytes.length) === 0) return true
    if (this.#libc.errno() === EINPROGRESS) return false
    throw new SystemCallError('connect', this.#libc.errno())
  }

  /**
   * Dissolves the connection, or the attempt, and keeps the port; an open connection is reset. After that the socket
   * can connect again.
   */
  disconnect(): void {
    // The kernel reports ECONNRESET for the aborted attempt.
    this.#libc.connect(this.fd, NOWHERE, NOWHERE.length)
    this.getOption(OPTION.error)
  }

  /** The address and port that the kernel has given it. */
  localAddress(): { address: string; port: number } {
    const bytes = Buffer.alloc(ADDRESS_BYTES_MAX)
    const length = Buffer.alloc(4)
    length.writeUInt32LE(bytes.length)
    this.#checked('getsockname', this.#libc.getsockname(this.fd, bytes, length))
    return { address: readAddress(bytes, 0) ?? '', port: readPort(bytes, 0) }
  }

  /**
   * Sends a packet: to the address, or where the socket is connected to. Returns 0, or the number of the
   * error (`errorName` has its name), which may belong to an earlier packet: with
   * more than one destination, empty the error queue and try again.
   */
  send(packet: Uint8Array, to?: SocketAddress): number {
    const { length } = packet
    const sent =
      to === undefined
        ? this.#libc.send(this.fd, packet, length, MSG_DONTWAIT)
        : this.#libc.sendto(this.fd, packet, length, MSG_DONTWAIT, to.bytes, to.bytes.length)
    return sent < 0 ? this.#libc.errno() : 0
  }

  /** The next packet; undefined when none waits. */
  receive(): Received | undefined {
    return this.#receive(0)
  }

  /** The next entry of the error queue; undefined when none waits. Poll returns at once until it is empty. */
  receiveError(): Received | undefined {
    return this.#receive(MSG_ERRQUEUE)
  }

  #receive(flags: number): Received | undefined {
    if (!this.#open) return undefined
    for (let pending = 0; pending < PENDING_MAX; pending++) {
      const length = this.#inbox.receive(this.fd, flags)
      if (length >= 0) return this.#inbox.last(length)
      if (length === -EAGAIN) return undefined
      // The error of an earlier packet, reported once: its entry in the error queue has the details.
    }
    return undefined
  }

  /** Closes it; the second time does nothing. Close its watch first. */
  close(): void {
    if (!this.#open) return
    this.#open = false
    this.#libc.close(this.fd)
  }

  #checked(syscall: string, result: number): number {
    if (result < 0) throw new SystemCallError(syscall, this.#libc.errno())
    return result
  }
}
