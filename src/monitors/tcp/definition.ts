// TCP monitors in the public wire form.
import * as z from 'zod'
import { assertionsSchema, TEXTUAL, type SourceRules } from '../../contract/assertion.ts'
import { monitorSchema, responseTimes } from '../../contract/monitor.ts'
import { checkedText } from '../../contract/schema/text.ts'
import { hostName } from '../../contract/schema/host-name.ts'
import { regexProblem } from '../../contract/schema/regex.ts'
import { TlsSettings } from '../../contract/tls.ts'
import { defineType } from '../../contract/type/definition.ts'
import { ADDRESS_METRICS, TLS_METRICS } from '../../contract/type/metrics.ts'
import { aboutTarget, type FailureTable } from '../../contract/failure.ts'

/** Limits of TCP monitors alone. */
export const TCP_LIMITS = {
  /** A pause of this length ends an answer for which all assertions hold. */
  tcpQuietMs: 500,
} as const

const TCP_SOURCES = {
  RESPONSE_DATA: { delay: 'cut-short', comparisons: TEXTUAL, property: 'regex' },
  RESPONSE_TIME: { delay: 'stretched', comparisons: TEXTUAL, property: 'none', numeric: true },
} as const satisfies SourceRules

/** One step of a dialogue: wait for a pattern, send a text, or change to TLS. */
const Step = z.union(
  [
    z.strictObject({ expect: checkedText(regexProblem) }),
    z.strictObject({ send: z.string().min(1).max(65_536) }),
    z.strictObject({ startTls: z.literal(true) }),
  ],
  { error: 'a step is one of {expect: <regex>}, {send: <text>}, {startTls: true}' },
)

/** The request of a TCP monitor. */
export const TcpRequest = z
  .strictObject({
    hostname: hostName.optional(),
    /** Another spelling of `hostname`. */
    url: hostName.optional(),
    port: z.int().min(1).max(65_535),
    /** Sent as soon as the connection is established. */
    data: z.string().max(1_048_576).nullable().optional(),
    /** Another spelling of `data`. */
    body: z.string().max(1_048_576).nullable().optional(),
    ipFamily: z.enum(['IPv4', 'IPv6']).default('IPv4'),
    assertions: assertionsSchema(TCP_SOURCES),
    /**
     * Ours: speak TLS, with these settings, or `true` for the defaults. From the first byte, unless the
     * dialogue says when by `startTls`.
     */
    tls: z.union([z.boolean(), TlsSettings]).default(false),
    /** Ours: continue when the certificate does not verify. */
    skipSSL: z.boolean().default(false),
    /** Ours: a scripted exchange, step by step, after `data`. */
    dialogue: z
      .array(Step)
      .max(50)
      .refine((steps) => steps.filter((step) => 'startTls' in step).length <= 1, {
        error: 'startTls may be used only once',
      })
      .default([]),
    /** Ours: probe every address that the name resolves to. */
    allAddresses: z.boolean().default(false),
  })
  .refine(({ hostname, url }) => (hostname ?? url) !== undefined, {
    path: ['hostname'],
    error: 'the host to connect to is missing',
  })
export type TcpRequest = z.infer<typeof TcpRequest>

export const TcpMonitor = monitorSchema('TCP', {
  request: TcpRequest,
  ...responseTimes(3000, 5000),
})
export type TcpMonitor = z.infer<typeof TcpMonitor>

const FAILURES = {
  TCP_EXPECT: aboutTarget('the target did not send what was expected', true),
} as const satisfies FailureTable

/** A failure code of TCP monitors alone. */
export type TcpCode = keyof typeof FAILURES

export const tcpDefinition = defineType({
  checkType: 'TCP',
  path: 'tcp',
  schema: TcpMonitor,
  example: { request: { hostname: 'example.com', port: 22 } },
  sources: TCP_SOURCES,
  failures: FAILURES,
  metrics: {
    ...ADDRESS_METRICS,
    ...TLS_METRICS,
    probe_tcp_duration_seconds: 'Time of each phase of a TCP check.',
    probe_failed_due_to_regex: 'Whether the target sent something other than was expected.',
  },
  limits: TCP_LIMITS,
  analytics: {
    paths: ['tcp-checks', 'tcp-monitors'],
    time: { name: 'total', label: 'Total time' },
    unmeasured: ['dns', 'connection', 'data'],
  },
})
