// DNS monitors in the public wire form.
import * as z from 'zod'
import {
  assertionsSchema,
  COMPARISONS,
  type Assertion,
  type SourceRules,
} from '../../contract/assertion.ts'
import { encodeDnsName, reverseName } from '../../contract/dns/name.ts'
import { DNS_PORTS, dnsTypeProblem, rcodeProblem } from '../../contract/dns/parameters.ts'
import { hasNoPort } from '../../contract/schema/host-name.ts'
import { monitorSchema, responseTimes } from '../../contract/monitor.ts'
import { TlsSettings } from '../../contract/tls.ts'
import { defineType, partOf } from '../../contract/type/definition.ts'
import { counted } from '../../contract/schema/amounts.ts'
import { ADDRESS_METRICS, TLS_METRICS } from '../../contract/type/metrics.ts'
import { aboutTarget, type FailureTable } from '../../contract/failure.ts'

/** Limits of DNS monitors alone. */
export const DNS_LIMITS = {
  /** Characters of DNS records that are shown in a result. */
  dnsShownCharactersMax: 16_384,
} as const

const DNS_SOURCES = {
  RESPONSE_CODE: { comparisons: COMPARISONS, property: 'none' },
  RESPONSE_TIME: { delay: 'stretched', comparisons: COMPARISONS, property: 'none', numeric: true },
  TEXT_ANSWER: { comparisons: COMPARISONS, property: 'regex' },
  JSON_ANSWER: { comparisons: COMPARISONS, property: 'json-path' },
} as const satisfies SourceRules

/** One of DNS_RECORD_TYPES, or any other by its number, as RFC 3597 writes it. */
const recordType = z.string().superRefine((type, context) => {
  const message = dnsTypeProblem(type)
  if (message !== undefined) context.addIssue({ code: 'custom', message })
})

const QUERY_CHARACTERS_MAX = 100

/** The smallest and the largest size of datagrams that RFC 6891 knows. */
const EDNS_BYTES_MIN = 512
const EDNS_BYTES_MAX = 65_535
/** Size that is nowhere fragmented (DNS flag day 2020). */
const EDNS_BYTES = 1232

const fields = z.strictObject({
  /** An absolute name; for PTR also an address, whose name under in-addr.arpa or ip6.arpa is asked for. */
  query: z.string().min(1).max(QUERY_CHARACTERS_MAX),
  recordType,
  /** Name or address of the server to ask; the system's own without it. */
  nameServer: z.string().min(1).max(100).nullable().optional(),
  /** See DNS_PORTS. */
  port: z.int().min(1).max(65_535).optional(),
  /**
   * UDP retries over TCP if an answer is truncated. Ours: DOT (DNS over TLS, RFC 7858) and DOH (DNS over
   * HTTPS, RFC 8484).
   */
  protocol: z.enum(['UDP', 'TCP', 'DOT', 'DOH']).default('UDP'),
  assertions: assertionsSchema(DNS_SOURCES),
  /** Ours: CH for information about the server itself, like version.bind. */
  recordClass: z.enum(['IN', 'CH', 'HS']).default('IN'),
  /** Ours: the RD bit; false asks a server for its own data only. */
  recursionDesired: z.boolean().default(true),
  /** Ours: the DO bit, which asks for signatures (RFC 3225). */
  dnssecOk: z.boolean().default(false),
  /** Ours: the CD bit, which also asks a resolver for answers that do not validate (RFC 4035). */
  checkingDisabled: z.boolean().default(false),
  /** Ours: the largest datagram that is offered by EDNS; 0 asks without EDNS. */
  ednsBytes: z.int().min(0).max(EDNS_BYTES_MAX).default(EDNS_BYTES),
  /** Ours: ask the server for its identifier (RFC 5001). */
  nsid: z.boolean().default(false),
  /** Ours: UDP attempts for each server; by default `attempts` of resolv.conf, else 2. */
  attempts: z.int().min(1).max(5).optional(),
  /** Ours: which addresses of a server's name to ask. */
  ipFamily: z.enum(['IPv4', 'IPv6']).default('IPv4'),
  /** Ours: of DOT and DOH. */
  tls: TlsSettings.optional(),
  /** Ours: continue when the certificate does not verify. */
  skipSSL: z.boolean().default(false),
  /** Ours: path of the DOH query. */
  dohPath: z
    .string()
    .max(2048)
    .regex(/^\/[\u0021-\u007e]*$/, 'must be a path, like /dns-query')
    .default('/dns-query'),
})
type Fields = z.infer<typeof fields>

/** The request of a DNS monitor. NOERROR is required, unless an assertion on RESPONSE_CODE says otherwise. */
export const DnsRequest = fields
  .superRefine((request, context) => {
    for (const problem of problemsOf(request)) context.addIssue({ code: 'custom', ...problem })
  })
  .overwrite((request) => ({ ...request, port: request.port ?? DNS_PORTS[request.protocol] }))
export type DnsRequest = z.infer<typeof DnsRequest>

interface Problem {
  path: (string | number)[]
  message: string
}

function* problemsOf(request: Fields): Generator<Problem> {
  yield* rcodeProblems(request.assertions)
  const { protocol, port, ednsBytes } = request
  const nameServer = request.nameServer ?? undefined
  if (nameServer !== undefined && !isHost(nameServer)) {
    const message = 'must be a name or an address alone, without scheme, path or port'
    yield { path: ['nameServer'], message }
  }
  if (nameServer === undefined) {
    if (port !== undefined && port !== DNS_PORTS.UDP) {
      yield { path: ['port'], message: 'needs a nameServer; without one leave it out' }
    }
    if (protocol === 'DOT' || protocol === 'DOH') {
      const message = `is missing: with ${protocol} a name server must be named`
      yield { path: ['nameServer'], message }
    }
  }
  if (ednsBytes !== 0 && ednsBytes < EDNS_BYTES_MIN) {
    yield { path: ['ednsBytes'], message: `must be 0, or ${EDNS_BYTES_MIN} at least` }
  }
  if (ednsBytes === 0 && (request.dnssecOk || request.nsid)) {
    const path = [request.dnssecOk ? 'dnssecOk' : 'nsid']
    yield { path, message: 'needs EDNS, which ednsBytes 0 turns off' }
  }
  const { query } = request
  // A name with a variable is known at the run only; its length has its own check.
  if (query === '' || query.length > QUERY_CHARACTERS_MAX || query.includes('{{')) return
  const encoded = encodeDnsName(dnsQueryName(request))
  if (typeof encoded === 'string') yield { path: ['query'], message: encoded }
}

/** An unknown response code could never match. */
function* rcodeProblems(assertions: readonly Assertion[]): Generator<Problem> {
  for (const [index, { source, comparison, target, regex }] of assertions.entries()) {
    const isWhole = source === 'RESPONSE_CODE' && (regex ?? '') === '' && !target.includes('{{')
    if (!isWhole || (comparison !== 'EQUALS' && comparison !== 'NOT_EQUALS')) continue
    const message = rcodeProblem(target)
    if (message !== undefined) yield { path: ['assertions', index, 'target'], message }
  }
}

function isHost(text: string): boolean {
  return text.includes('{{') || (!/[\s/]/.test(text) && hasNoPort(text))
}

/** The query name of a request. */
export function dnsQueryName({ query, recordType: type }: Fields): string {
  return (type === 'PTR' ? reverseName(query) : undefined) ?? query
}

export const DnsMonitor = monitorSchema('DNS', {
  request: DnsRequest,
  ...responseTimes(500, 1000, 5000),
})
export type DnsMonitor = z.infer<typeof DnsMonitor>

const FAILURES = {
  DNS_RESPONSE_CODE: aboutTarget('the response code is not NOERROR'),
  DNS_MISMATCH: aboutTarget('the answer is for another question'),
  DNS_TRUNCATED: aboutTarget('the answer is cut off, over TCP as well'),
  DNS_HTTP: aboutTarget(
    'the DNS over HTTPS server answered with something other than a DNS message',
  ),
} as const satisfies FailureTable

/** A failure code of DNS monitors alone. */
export type DnsCode = keyof typeof FAILURES

function summary({ responseCode, counts }: Readonly<Record<string, unknown>>): string[] {
  if (typeof responseCode !== 'string') return []
  const answers = partOf(counts, 'answers')
  return typeof answers === 'number' ? [responseCode, counted(answers, 'answer')] : [responseCode]
}

export const dnsDefinition = defineType({
  checkType: 'DNS',
  path: 'dns',
  schema: DnsMonitor,
  example: { request: { query: 'example.com', recordType: 'A' } },
  sources: DNS_SOURCES,
  failures: FAILURES,
  metrics: {
    ...ADDRESS_METRICS,
    ...TLS_METRICS,
    probe_dns_additional_rrs: 'Records in the additional section of the answer, without EDNS.',
    probe_dns_answer_rrs: 'Records in the answer section of the answer.',
    probe_dns_authority_rrs: 'Records in the authority section of the answer.',
    probe_dns_duration_seconds: 'Time of each phase of a DNS check.',
    probe_dns_query_succeeded: 'Whether an answer came, whatever it says.',
    probe_dns_serial: 'Serial number of the zone, where a SOA record was asked for.',
  },
  limits: DNS_LIMITS,
  summary,
  analytics: { paths: ['dns', 'dns-monitors'], time: { name: 'total', label: 'Total time' } },
})
