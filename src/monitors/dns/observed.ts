// Facts of a DNS query as results show them, and the order of its answer.
import { DNS_LIMITS, type DnsRequest } from './definition.ts'
import type { Family } from '../../network/dial.ts'
import type { DnsMessage } from '../../network/dns/message.ts'
import type { DnsServer, UdpTally } from '../../network/dns/udp.ts'
import { familyOf } from '../../network/ip-address.ts'
import type { PeerFacts } from '../../network/tls/facts.ts'
import type { ConnectionPhases } from '../probe.ts'

/** The observation of a DNS monitor. */
export interface DnsObserved {
  query: string
  recordType: string
  /** The queried server, or the last of the system's servers. */
  address?: string
  family?: Family
  port: number
  /** Protocol of the answer; TCP also after a truncated answer over UDP. */
  protocol: DnsRequest['protocol']
  /** The answer over UDP was truncated, and requested again over TCP. */
  truncated?: true
  /** The server does not support EDNS, and was asked again without it. */
  withoutEdns?: true
  /** Datagrams of UDP. */
  udp?: UdpTally
  responseCode?: string
  /** Number of records of each section. */
  counts?: { answers: number; authorities: number; additionals: number }
  /** Of the answer. */
  bytes?: number
  /** The document of JSON_ANSWER; of a large one the beginning, and `leftOut`. */
  response?: DnsMessage & { leftOut?: number }
  /** Milliseconds. */
  phases: ConnectionPhases & {
    /** Over UDP, until the truncated answer. */
    truncatedMs?: number
    /** From the query to the whole answer. */
    requestMs?: number
    totalMs: number
  }
  tls?: PeerFacts
}

/** Records the current server of the query. */
export function noteServer(observed: DnsObserved, { address, port }: DnsServer): void {
  observed.address = address
  observed.family = familyOf(address)
  observed.port = port
}

/** Records the answer. */
export function noteAnswer(observed: DnsObserved, message: DnsMessage, bytes: number): void {
  const { Status, Answer, Authority, Additional } = message
  observed.responseCode = Status
  observed.counts = {
    answers: Answer.length,
    authorities: Authority.length,
    additionals: Additional.length,
  }
  observed.bytes = bytes
  observed.response = shownMessage(message)
}

const SECTIONS = ['Answer', 'Authority', 'Additional'] as const

/** The message for a result: of a large one the beginning, and the number of omitted records. */
function shownMessage(message: DnsMessage): DnsMessage & { leftOut?: number } {
  let left = DNS_LIMITS.dnsShownCharactersMax
  let leftOut = 0
  const shown = { ...message }
  for (const section of SECTIONS) {
    shown[section] = message[section].filter(({ name, data, fields }) => {
      // The fields repeat the data.
      left -= name.length + data.length * (fields === undefined ? 1 : 2) + 40
      return left >= 0
    })
    leftOut += message[section].length - shown[section].length
  }
  return leftOut === 0 ? message : { ...shown, leftOut }
}

let collator: Intl.Collator | undefined

/**
 * The message with the records of each set of its answer sorted by their data, numbers by their value: many
 * servers rotate them. The order of the sets stays, so that a chain of aliases can be followed.
 */
export function inNaturalOrder(message: DnsMessage): DnsMessage {
  if (message.Answer.length < 2) return message
  collator ??= new Intl.Collator('en', { numeric: true })
  const { compare } = collator
  const sets = Map.groupBy(
    message.Answer,
    (record) => `${record.type} ${record.class ?? ''} ${record.name.toLowerCase()}`,
  )
  const Answer = [...sets.values()].flatMap((set) =>
    set.toSorted((a, b) => compare(a.data, b.data)),
  )
  return { ...message, Answer }
}
