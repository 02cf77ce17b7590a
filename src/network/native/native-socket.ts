// A native socket, with error queue, TTLs and kernel time stamps, which Node's sockets do not have. It never blocks:
// wait for it with readiness.ts. Never share a descriptor with Node: Node ends the whole process when it finds an
// error queue.
import type { Family } from '../dial.ts'
import { readControl, readTimespec, type ControlFacts } from './control-messages.ts'
import {
  ADDRESS_BYTES_MAX,
  readAddress,
  socketAddress,
  type SocketAddress,
} from './socket-address.ts'
import {
  AF_INET,
  AF_INET6,
  MSG_DONTWAIT,
  MSG_ERRQUEUE,
  OPTION,
  PROTOCOLS,
  SOCKET_TYPES,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  type SocketOption,
} from './socket-options.ts'
import { addressOf, checked, EAGAIN, EINPROGRESS, errno, libcFunction } from './syscalls.ts'
import { SystemCallError } from './system-call-error.ts'

export { watch } from './readiness.ts'

const socket = libcFunction('int socket(int, int, int)')
const close = libcFunction('int close(int)')
const bind = libcFunction('int bind(int, void *, uint32_t)')
const connect = libcFunction('int connect(int, void *, uint32_t)')
const getsockname = libcFunction('int getsockname(int, void *, void *)')
const setsockopt = libcFunction('int setsockopt(int, int, int, void *, uint32_t)')
const getsockopt = libcFunction('int getsockopt(int, int, int, void *, void *)')
const send = libcFunction('long send(int, void *, unsigned long, int)')
const sendto = libcFunction('long sendto(int, void *, unsigned long, int, void *, uint32_t)')
const recvmsg = libcFunction('long recvmsg(int, void *, int)')
const clock_gettime = libcFunction('int clock_gettime(int, void *)')
const if_nametoindex = libcFunction('unsigned int if_nametoindex(const char *)')

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
}

/** Opens a socket. Throws a SystemCallError where the kernel refuses. */
export function open(kind: SocketKind): NativeSocket {
  return new NativeSocket(kind)
}

/** The kernel's form of a literal, its zone looked up. Throws a TypeError if it is not a literal. */
export function address(literal: string, port: number): SocketAddress {
  return socketAddress(literal, port, (name) => if_nametoindex(name))
}

/** The kernel's clock, to compare `kernelMs` with. Milliseconds; it jumps when the clock is set. */
export function clockMs(): number {
  clock_gettime(0, TIME)
  return readTimespec(inbox, AT.time, EPOCH_SECONDS)
}

const PACKET_BYTES_MAX = 65_536
const CONTROL_BYTES = 512

/** Places in the inbox: msghdr, iovec, timespec, address, control messages, packet. */
const AT = { header: 0, vector: 64, time: 96, name: 128, control: 192, packet: 1024 } as const

/** The only receive buffer: packets are processed one after the other. */
const inbox = Buffer.alloc(AT.packet + PACKET_BYTES_MAX)
const START = addressOf(inbox)
const HEADER = START + BigInt(AT.header)
const TIME = START + BigInt(AT.time)
const CONTROL = inbox.subarray(AT.control, AT.control + CONTROL_BYTES)
const EPOCH_SECONDS = Math.floor(Date.now() / 1000)
for (const [at, value] of [
  [AT.header, START + BigInt(AT.name)],
  [AT.header + 16, START + BigInt(AT.vector)],
  [AT.header + 24, 1n],
  [AT.header + 32, START + BigInt(AT.control)],
  [AT.vector, START + BigInt(AT.packet)],
  [AT.vector + 8, BigInt(PACKET_BYTES_MAX)],
] as const) {
  inbox.writeBigUInt64LE(value, at)
}

/** Receives into the inbox: the length of the packet, or minus the number of the error. */
function receive(fd: number, flags: number): number {
  inbox.writeUInt32LE(ADDRESS_BYTES_MAX, AT.header + 8)
  inbox.writeUInt32LE(CONTROL_BYTES, AT.header + 40)
  // An error without an address must not show that of the previous packet.
  inbox.writeUInt16LE(0, AT.name)
  const length: number = recvmsg(fd, HEADER, flags | MSG_DONTWAIT)
  return length >= 0 ? length : -errno()
}

/** The packet in the inbox. */
function received(length: number): Received {
  const packet = readControl(CONTROL, inbox.readUInt32LE(AT.header + 40), EPOCH_SECONDS) as Received
  packet.bytes = inbox.subarray(AT.packet, AT.packet + length)
  packet.from = readAddress(inbox, AT.name) ?? ''
  return packet
}

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
  #open = true

  constructor({ family, type, protocol }: SocketKind) {
    this.family = family
    const domain = family === 'IPv6' ? AF_INET6 : AF_INET
    const flags = SOCKET_TYPES[type] | SOCK_NONBLOCK | SOCK_CLOEXEC
    this.fd = checked('socket', socket(domain, flags, PROTOCOLS[protocol]))
  }

  /** Throws a SystemCallError where the kernel refuses. */
  setOption(option: SocketOption, value: number): void {
    const bytes = Buffer.alloc(4)
    bytes.writeInt32LE(value)
    this.#setOption(option, bytes)
  }

  /** Drops packets that the program, instructions of bpf(4), returns 0 for. */
  attachFilter(program: Buffer): void {
    // Header and program are one buffer, so that both live until the kernel has copied them.
    const bytes = Buffer.concat([Buffer.alloc(16), program])
    bytes.writeUInt16LE(program.length / 8, 0)
    bytes.writeBigUInt64LE(addressOf(bytes) + 16n, 8)
    this.#setOption(OPTION.attachFilter, bytes.subarray(0, 16))
  }

  #setOption([level, name]: SocketOption, value: Buffer): void {
    checked('setsockopt', setsockopt(this.fd, level, name, value, value.length))
  }

  /** The numbers that an option consists of; those in its first `bytesMax` bytes. */
  getOption([level, name]: SocketOption, bytesMax = 64): number[] {
    const value = Buffer.alloc(bytesMax)
    const length = Buffer.alloc(4)
    length.writeUInt32LE(value.length)
    checked('getsockopt', getsockopt(this.fd, level, name, value, length))
    const count = Math.floor(length.readUInt32LE() / 4)
    return Array.from({ length: count }, (_, at) => value.readInt32LE(4 * at))
  }

  bind({ bytes }: SocketAddress): void {
    checked('bind', bind(this.fd, bytes, bytes.length))
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
    return this.localPort()
  }

  /** Begins to connect; true when that is done at once. Throws a SystemCallError where it is refused. */
  connect({ bytes }: SocketAddress): boolean {
    if (connect(this.fd, bytes, bytes.length) === 0) return true
    if (errno() === EINPROGRESS) return false
    throw new SystemCallError('connect', errno())
  }

  /**
   * Dissolves the connection, or the attempt, and keeps the port; an open connection is reset. After that the socket
   * can connect again.
   */
  disconnect(): void {
    // The kernel reports ECONNRESET for the aborted attempt.
    connect(this.fd, NOWHERE, NOWHERE.length)
    this.getOption(OPTION.error)
  }

  /** The port that the kernel has given it. */
  localPort(): number {
    const bytes = Buffer.alloc(ADDRESS_BYTES_MAX)
    const length = Buffer.alloc(4)
    length.writeUInt32LE(bytes.length)
    checked('getsockname', getsockname(this.fd, bytes, length))
    return bytes.readUInt16BE(2)
  }

  /**
   * Sends a packet: to the address, or where the socket is connected to. Returns 0, or the number of the error, which
   * may belong to an earlier packet: with more than one destination, empty the error queue and try again.
   */
  send(packet: Uint8Array, to?: SocketAddress): number {
    const { length } = packet
    const sent =
      to === undefined
        ? send(this.fd, packet, length, MSG_DONTWAIT)
        : sendto(this.fd, packet, length, MSG_DONTWAIT, to.bytes, to.bytes.length)
    return sent < 0 ? errno() : 0
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
      const length = receive(this.fd, flags)
      if (length >= 0) return received(length)
      if (length === -EAGAIN) return undefined
      // The error of an earlier packet, reported once: its entry in the error queue has the details.
    }
    return undefined
  }

  /** Closes it; the second time does nothing. Close its watch first. */
  close(): void {
    if (!this.#open) return
    this.#open = false
    close(this.fd)
  }
}
