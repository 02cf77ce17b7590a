// Plan of a DNS monitor, computed once for all its runs.
import type { Assertion } from '../../contract/assertion.ts'
import { DNS_PORTS } from '../../contract/dns/ports.ts'
import { dnsQueryName, type DnsMonitor, type DnsRequest } from './definition.ts'
import { encodeDnsName } from '../../contract/dns/name.ts'
import { dnsTypeName, dnsTypeNumber } from '../../contract/dns/record-type.ts'
import type { TlsSettings } from '../../contract/tls.ts'
import type { Family } from '../../network/dial.ts'
import { DNS_CLASSES } from '../../network/dns/codes.ts'
import { encodeQuery, type DnsQuestion } from '../../network/dns/message.ts'

/** Transport to a server. */
export type DnsProtocol = DnsRequest['protocol']

/** A definition, ready to be run. */
export interface DnsPlan {
  /** The queries, each with id 0. The one without EDNS is for servers that do not know it. */
  query: Buffer
  plainQuery: Buffer | undefined
  /** The type by its name, where it has one. */
  recordType: string
  /** Undefined for the system's servers. */
  nameServer: string | undefined
  port: number
  family: Family
  protocol: DnsProtocol
  /** UDP attempts for each server; undefined for the system's settings. */
  attempts: number | undefined
  tls: TlsSettings | undefined
  skipSSL: boolean
  dohPath: string
  assertions: readonly Assertion[]
  /** Any response code is accepted: an assertion checks it. */
  assertsCode: boolean
  maxResponseTime: number
}

/** Common plan of all attempts of a monitor. */
export function makeDnsPlan({ request, maxResponseTime }: DnsMonitor): DnsPlan {
  const name = encodeDnsName(dnsQueryName(request))
  // The schema has refused such a name.
  if (typeof name === 'string') throw new Error(`the query ${name}`)
  const type = dnsTypeNumber(request.recordType)
  const question: DnsQuestion = {
    name,
    type,
    class: DNS_CLASSES[request.recordClass],
    recursionDesired: request.recursionDesired,
    checkingDisabled: request.checkingDisabled,
    dnssecOk: request.dnssecOk,
    ednsBytes: request.ednsBytes,
    nsid: request.nsid,
  }
  // A definition that uses EDNS must not get an answer without it.
  const canDoWithout = request.ednsBytes > 0 && !request.dnssecOk && !request.nsid
  return {
    query: encodeQuery(question),
    plainQuery: canDoWithout ? encodeQuery({ ...question, ednsBytes: 0 }) : undefined,
    recordType: dnsTypeName(type),
    nameServer: request.nameServer ?? undefined,
    port: request.port ?? DNS_PORTS[request.protocol],
    family: request.ipFamily,
    protocol: request.protocol,
    attempts: request.attempts,
    tls: request.tls,
    skipSSL: request.skipSSL,
    dohPath: request.dohPath,
    assertions: request.assertions,
    assertsCode: request.assertions.some(({ source }) => source === 'RESPONSE_CODE'),
    maxResponseTime,
  }
}
