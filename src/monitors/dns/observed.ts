// Running DNS query: its facts so far, as results show them.
import type { Family, Progress } from '../../network/dial.ts'
import type { SectionCounts } from './answer.ts'
import type { DnsMessage } from '../../network/dns/message.ts'
import type { DnsPlan, DnsProtocol } from './plan.ts'
import type { DnsServer, UdpTally } from '../../network/dns/udp.ts'
import { familyOf } from '../../network/ip-address.ts'
import type { Context } from '../monitor.ts'
import type { NameServers, SystemServers } from '../../network/dns/name-servers.ts'
import type { PeerFacts } from '../../network/tls/facts.ts'

/** Milliseconds. */
export interface DnsPhases {
  /** Lookup of the server's name. */
  dnsMs?: number
  connectMs?: number
  proxyMs?: number
  tlsMs?: number
  /** Over UDP, until the truncated answer. */
  truncatedMs?: number
  /** From the query to the whole answer. */
  requestMs?: number
  totalMs: number
}

/** The observation of a DNS monitor. */
export interface DnsObserved {
  query: string
  recordType: string
  /** The queried server, or the last of the system's servers. */
  address?: string
  family?: Family
  port: number
  /** Protocol of the answer; TCP also after a truncated answer over UDP. */
  protocol: DnsProtocol
  /** The answer over UDP was truncated, and requested again over TCP. */
  truncated?: true
  /** The server does not support EDNS, and was asked again without it. */
  withoutEdns?: true
  /** Datagrams of UDP. */
  udp?: UdpTally
  responseCode?: string
  counts?: SectionCounts
  /** Of the answer. */
  bytes?: number
  /** The document of JSON_ANSWER; of a large one the beginning, and `leftOut`. */
  response?: DnsMessage & { leftOut?: number }
  phases: DnsPhases
  tls?: PeerFacts
}

/** A running query. */
export interface DnsRun {
  plan: DnsPlan
  context: Context
  system: SystemServers & { nameServers: NameServers }
  observed: DnsObserved
  progress: Progress
}

/** An answer and the query that it belongs to. */
export interface DnsFound {
  message: DnsMessage
  bytes: number
}

/** Records the current server of the query. */
export function noteServer(observed: DnsObserved, { address, port }: DnsServer): void {
  observed.address = address
  observed.family = familyOf(address)
  observed.port = port
}
