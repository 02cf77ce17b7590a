// DNS monitors in the public wire form.
import * as z from 'zod'
import { assertionsSchema, COMPARISONS, type SourceRules } from './assertion.ts'
import { monitorSchema, responseTimes } from './monitor.ts'

export const DNS_SOURCES = {
  RESPONSE_CODE: { comparisons: COMPARISONS, property: 'none' },
  RESPONSE_TIME: { comparisons: COMPARISONS, property: 'none', numeric: true },
  TEXT_ANSWER: { comparisons: COMPARISONS, property: 'regex' },
  JSON_ANSWER: { comparisons: COMPARISONS, property: 'json-path' },
} as const satisfies SourceRules

/** Types of records by name: those of the wire, then ours. */
export const DNS_RECORD_TYPES = [
  ...(['A', 'AAAA', 'CNAME', 'MX', 'NS', 'TXT', 'SOA', 'HTTPS'] as const),
  ...(['SRV', 'CAA', 'PTR'] as const),
] as const

/** One of them, or any other by its number, as RFC 3597 writes it. */
const recordType = z
  .string()
  .regex(
    new RegExp(`^(?:${DNS_RECORD_TYPES.join('|')}|TYPE(?:0|[1-9]\\d{0,4}))$`),
    `must be one of ${DNS_RECORD_TYPES.join(', ')}, or TYPE and a number, like TYPE257`,
  )

const DNS_PORT = 53

/** The request of a DNS monitor. NOERROR is asked for, unless an assertion on RESPONSE_CODE says else. */
export const DnsRequest = z
  .strictObject({
    query: z.string().min(1).max(100),
    recordType,
    /** Name or address of the server to ask; the system's own without it. */
    nameServer: z.string().min(1).max(100).nullable().optional(),
    port: z.int().min(1).max(65_535).default(DNS_PORT),
    protocol: z.enum(['UDP', 'TCP']).default('UDP'),
    assertions: assertionsSchema(DNS_SOURCES),
  })
  .superRefine(({ nameServer, port }, context) => {
    if (port === DNS_PORT || (nameServer ?? undefined) !== undefined) return
    const message = 'is the port of a nameServer, which is missing'
    context.addIssue({ code: 'custom', path: ['port'], message })
  })
export type DnsRequest = z.infer<typeof DnsRequest>

export const DnsMonitor = monitorSchema('DNS', {
  request: DnsRequest,
  ...responseTimes(500, 1000, 5000),
})
export type DnsMonitor = z.infer<typeof DnsMonitor>
