// Numbers of Linux' socket interface that are the same on x64 and arm64, glibc and musl.
import type { Family } from '../dial.ts'

export const AF_INET = 2
export const AF_INET6 = 10

/** Types of sockets; non-blocking, and not inherited by child processes. */
export const SOCKET_TYPES = { stream: 1, datagram: 2, raw: 3 } as const
export const SOCK_NONBLOCK = 0o4000
export const SOCK_CLOEXEC = 0o2000000

/** IANA's protocol numbers. */
export const PROTOCOLS = { icmp: 1, tcp: 6, udp: 17, icmp6: 58, sctp: 132 } as const

/** An option of a socket: its level and its name. */
export type SocketOption = readonly [level: number, name: number]

const SOL_IP = 0
const SOL_SOCKET = 1
const SOL_IPV6 = 41

/** Options by what they do; socket(7), ip(7), ipv6(7), raw(7). */
export const OPTION = {
  error: [SOL_SOCKET, 4],
  receiveBuffer: [SOL_SOCKET, 8],
  receiveBufferForce: [SOL_SOCKET, 33],
  attachFilter: [SOL_SOCKET, 26],
  /** Receipts carry the kernel's clock (SO_TIMESTAMPNS). */
  timestamps: [SOL_SOCKET, 35],
  /** Time stamps of sent packets, too; see TIMESTAMPING (SO_TIMESTAMPING). */
  timestamping: [SOL_SOCKET, 37],
  /** Nine numbers about the socket's memory; the last counts dropped packets (SO_MEMINFO). */
  memoryInfo: [SOL_SOCKET, 55],
  ttl: { IPv4: [SOL_IP, 2], IPv6: [SOL_IPV6, 16] },
  /** One of PATH_MTU. */
  pathMtu: { IPv4: [SOL_IP, 10], IPv6: [SOL_IPV6, 23] },
  /** Errors go to the error queue, with their sender. */
  errors: { IPv4: [SOL_IP, 11], IPv6: [SOL_IPV6, 25] },
  receiveTtl: { IPv4: [SOL_IP, 12], IPv6: [SOL_IPV6, 51] },
  only6: [SOL_IPV6, 26],
  dontFragment6: [SOL_IPV6, 62],
  /** Whether the kernel gives packets a flow label of its own choice. */
  autoFlowLabel6: [SOL_IPV6, 70],
  /** Many numbers about a connection; tcp(7), struct tcp_info. */
  tcpInfo: [PROTOCOLS.tcp, 11],
} as const satisfies Record<string, SocketOption | Record<Family, SocketOption>>

/** What the kernel does about the path's MTU (IP_MTU_DISCOVER, IPV6_MTU_DISCOVER). */
export const PATH_MTU = {
  /** Never sets "don't fragment". */
  dont: 0,
  /** Sets it, and fragments packets above the known MTU itself. */
  want: 1,
  /** Sets it, and refuses packets above the known MTU. */
  always: 2,
  /** Sets it, and ignores the known MTU. */
  probe: 3,
} as const

/** Flags of SO_TIMESTAMPING: software time stamps of packets sent and received, without their bytes. */
export const TIMESTAMPING = (1 << 1) | (1 << 3) | (1 << 4) | (1 << 11)

export const MSG_DONTWAIT = 0x40
export const MSG_ERRQUEUE = 0x2000

export const POLL = { in: 1, out: 4, error: 8, hangUp: 16, invalid: 32 } as const

/** Origin of an error (SO_EE_ORIGIN_…). */
export const ERROR_ORIGIN = { local: 1, icmp: 2, icmp6: 3, timestamp: 4 } as const

/** Control messages that come with packets: level and type as one number. */
export const CONTROL = {
  timestamp: (SOL_SOCKET << 8) | 35,
  timestamping: (SOL_SOCKET << 8) | 37,
  ttl4: (SOL_IP << 8) | 2,
  error4: (SOL_IP << 8) | 11,
  ttl6: (SOL_IPV6 << 8) | 52,
  error6: (SOL_IPV6 << 8) | 25,
} as const
