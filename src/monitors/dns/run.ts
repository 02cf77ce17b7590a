// A DNS query on its way: its facts so far, as results show them.
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
  /** Looking up the name of the server. */
  dnsMs?: number
  connectMs?: number
  proxyMs?: number
  tlsMs?: number
  /** Over UDP, until the answer came that was cut off. */
  truncatedMs?: number
  /** From the query to the whole answer. */
  requestMs?: number
  totalMs: number
}

/** The observation of a DNS monitor. */
export interface DnsObserved {
  query: string
  recordType: string
  /** The server that was asked, or the last one of the system's. */
  address?: string
  family?: Family
  port: number
  /** Over which the answer came; TCP also where UDP brought one that was cut off. */
  protocol: DnsProtocol
  /** The answer over UDP was cut off, and asked for again over TCP. */
  truncated?: true
  /** The server did not know EDNS, and was asked again without it. */
  withoutEdns?: true
  /** Datagrams of UDP. */
  udp?: UdpTally
  responseCode?: string
  counts?: SectionCounts
  /** Of the answer. */
  bytes?: number
  /** The document that JSON_ANSWER looks into; of a large one the beginning, and `leftOut`. */
  response?: DnsMessage & { leftOut?: number }
  phases: DnsPhases
  tls?: PeerFacts
}

/** A query on its way. */
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

/** Notes whom the query goes to now. */
export function noteServer(observed: DnsObserved, { address, port }: DnsServer): void {
  observed.address = address
  observed.family = familyOf(address)
  observed.port = port
}
