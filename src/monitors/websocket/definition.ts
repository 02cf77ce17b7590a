// WebSocket monitors (RFC 6455) in the public wire form: a handshake, a message, a ping and a close.
import * as z from 'zod'
import {
  assertionsSchema,
  COMPARISONS,
  NUMERIC,
  TEXTUAL,
  type SourceRules,
} from '../../contract/assertion.ts'
import { aboutTarget, type FailureTable } from '../../contract/failure.ts'
import { BasicAuth, monitorSchema, Pairs, responseTimes } from '../../contract/monitor.ts'
import { checkedText } from '../../contract/schema/text.ts'
import { regexProblem } from '../../contract/schema/regex.ts'
import { TlsSettings } from '../../contract/tls.ts'
import { defineType } from '../../contract/type/definition.ts'
import { ADDRESS_METRICS, TLS_METRICS } from '../../contract/type/metrics.ts'

const WEBSOCKET_SOURCES = {
  STATUS_CODE: { comparisons: NUMERIC, property: 'none', numeric: true },
  HEADERS: { comparisons: COMPARISONS, property: 'header' },
  MESSAGE: { comparisons: TEXTUAL, property: 'regex' },
  JSON_MESSAGE: { comparisons: COMPARISONS, property: 'json-path' },
  RESPONSE_TIME: { delay: 'stretched', comparisons: NUMERIC, property: 'none', numeric: true },
  PING_TIME: { delay: 'stretched', comparisons: NUMERIC, property: 'none', numeric: true },
  CLOSE_CODE: {
    delay: 'cut-short',
    comparisons: NUMERIC,
    property: 'none',
    numeric: true,
    range: [1000, 4999],
  },
} as const satisfies SourceRules

/** Limits of WEBSOCKET monitors alone. */
export const WEBSOCKET_LIMITS = {
  /** Payload bytes read in one attempt, of all frames together. */
  webSocketBytesMax: 4_194_304,
  /** Frames read in one attempt. */
  webSocketFramesMax: 10_000,
  /** How long the target may take to answer our close. */
  webSocketCloseMsMax: 1000,
} as const

/** Error text of an invalid WebSocket address, or undefined. */
function urlProblem(text: string): string | undefined {
  if (!URL.canParse(text)) return 'not a URL; write it in full, like wss://example.com/path'
  const { protocol, hash } = new URL(text)
  if (protocol !== 'ws:' && protocol !== 'wss:') {
    return 'cannot open such addresses; use ws:// or wss://'
  }
  return hash === '' ? undefined : 'has a fragment, which WebSocket addresses cannot have'
}

/** Headers of the handshake that the monitor makes itself. */
const OWN_HEADERS = /^(connection|upgrade|host|sec-websocket-.*)$/i

/** The request of a WebSocket monitor. */
export const WebSocketRequest = z
  .strictObject({
    url: checkedText(urlProblem),
    headers: Pairs,
    basicAuth: BasicAuth,
    /** Offered in this order; the target picks one, or none. */
    subprotocols: z
      .array(z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,255}$/, 'must be a token of HTTP'))
      .max(20)
      .refine((names) => new Set(names).size === names.length, {
        error: 'lists a name twice, which RFC 6455 forbids',
      })
      .default([]),
    /** Text to send once the connection is open. */
    message: z.string().max(1_048_576).nullable().optional(),
    /** Regular expression: messages are read until one matches. */
    expect: checkedText(regexProblem).nullable().optional(),
    /** Whether a ping is sent and its answer awaited. */
    ping: z.boolean().default(true),
    ipFamily: z.enum(['IPv4', 'IPv6']).default('IPv4'),
    /** Continues when the certificate does not verify. */
    skipSSL: z.boolean().default(false),
    tls: TlsSettings.optional(),
    assertions: assertionsSchema(WEBSOCKET_SOURCES),
  })
  .superRefine(({ headers, ping, assertions }, context) => {
    for (const [index, { key }] of headers.entries()) {
      if (!OWN_HEADERS.test(key)) continue
      const fix = /protocol$/i.test(key) ? '; use subprotocols' : ''
      const message = `${key} is set by the handshake${fix}`
      context.addIssue({ code: 'custom', path: ['headers', index, 'key'], message })
    }
    if (ping) return
    for (const [index, { source }] of assertions.entries()) {
      if (source !== 'PING_TIME') continue
      const message = 'PING_TIME needs ping: true'
      context.addIssue({ code: 'custom', path: ['assertions', index, 'source'], message })
    }
  })
export type WebSocketRequest = z.infer<typeof WebSocketRequest>

export const WebSocketMonitor = monitorSchema('WEBSOCKET', {
  request: WebSocketRequest,
  ...responseTimes(3000, 5000),
})
export type WebSocketMonitor = z.infer<typeof WebSocketMonitor>

const FAILURES = {
  WEBSOCKET_REFUSED: aboutTarget('the target answered the handshake with a status other than 101'),
  WEBSOCKET_HANDSHAKE: aboutTarget(
    'the target switched to another protocol than the requested WebSocket',
  ),
  WEBSOCKET_PROTOCOL: aboutTarget('the target broke the rules of RFC 6455'),
  WEBSOCKET_TOO_LARGE: aboutTarget('the target sent more bytes or frames than the limits'),
  WEBSOCKET_EXPECT: aboutTarget('the expected message did not arrive', true),
  WEBSOCKET_PING: aboutTarget('the target did not answer the ping', true),
  WEBSOCKET_CLOSED: aboutTarget('the target closed the WebSocket before the check was done'),
} as const satisfies FailureTable

/** A failure code of WEBSOCKET monitors alone. */
export type WebSocketCode = keyof typeof FAILURES

function summary(observed: Readonly<Record<string, unknown>>): string[] {
  const { statusCode, subprotocol } = observed
  if (typeof statusCode === 'number' && statusCode !== 101) return [`HTTP ${statusCode}`]
  return typeof subprotocol === 'string' ? [subprotocol] : []
}

export const webSocketDefinition = defineType({
  checkType: 'WEBSOCKET',
  path: 'websocket',
  schema: WebSocketMonitor,
  example: { request: { url: 'wss://example.com/' } },
  sources: WEBSOCKET_SOURCES,
  failures: FAILURES,
  metrics: {
    ...ADDRESS_METRICS,
    ...TLS_METRICS,
    probe_websocket_duration_seconds: 'Time of each phase of a WebSocket check.',
    probe_websocket_status_code: 'Status code of the handshake; 0 when there was none.',
    probe_websocket_messages: 'Messages that the target sent.',
    probe_websocket_ssl: 'Whether the WebSocket check spoke TLS.',
  },
  limits: WEBSOCKET_LIMITS,
  summary,
  analytics: { paths: ['websocket-monitors'] },
})
