// gRPC monitors in the public wire form: a call of a method, or the standard health check.
import * as z from 'zod'
import {
  assertionsSchema,
  COMPARISONS,
  NUMERIC,
  type SourceRules,
} from '../../contract/assertion.ts'
import { grpcMethodName, metadataProblem } from '../../contract/grpc-text.ts'
import { hostName } from '../../contract/schema/host-name.ts'
import { monitorSchema, Pair, responseTimes } from '../../contract/monitor.ts'
import { TlsSettings } from '../../contract/tls.ts'
import { defineType } from '../../contract/type/definition.ts'
import { ADDRESS_METRICS, TLS_METRICS } from '../../contract/type/metrics.ts'
import { aboutAgent, aboutTarget, type FailureTable } from '../../contract/failure.ts'

/** States of grpc.health.v1 by the number that assertions compare with. */
export const GRPC_HEALTH_STATES = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'] as const

/** Limits of GRPC monitors alone. */
export const GRPC_LIMITS = {
  /** One message of a gRPC answer, unpacked. */
  grpcMessageBytesMax: 4_194_304,
  /** Messages of a streamed gRPC answer. */
  grpcMessagesMax: 1000,
  /** Values in one message of a gRPC answer. */
  grpcValuesMax: 200_000,
  /** Files of types that server reflection may name for one service. */
  grpcDescriptorFilesMax: 500,
  /** Bytes of these files. */
  grpcDescriptorBytesMax: 1_048_576,
} as const

const GRPC_SOURCES = {
  RESPONSE_TIME: { delay: 'stretched', comparisons: NUMERIC, property: 'none', numeric: true },
  GRPC_STATUS_CODE: { comparisons: NUMERIC, property: 'none', numeric: true, range: [0, 16] },
  GRPC_HEALTHCHECK_STATUS: {
    comparisons: ['EQUALS', 'NOT_EQUALS'],
    property: 'none',
    targets: GRPC_HEALTH_STATES.map((_, number) => String(number)),
  },
  GRPC_RESPONSE: { comparisons: COMPARISONS, property: 'json-path' },
  TEXT_BODY: { comparisons: COMPARISONS, property: 'regex' },
  GRPC_METADATA: { comparisons: COMPARISONS, property: 'metadata' },
} as const satisfies SourceRules

const largeText = z.string().max(1_048_576)

const grpcFields = z.strictObject({
  mode: z.enum(['BEHAVIOR', 'HEALTH']).default('BEHAVIOR'),
  tls: z.boolean().default(true),
  metadata: z.array(Pair).max(200).default([]),
  /** Source of the types of a method; REFLECTION by default. Not with HEALTH. */
  serviceDefinition: z.enum(['REFLECTION', 'PROTO_FILE']).optional(),
  /** `package.Service/Method`. Not with HEALTH. */
  method: z.string().max(1024).optional(),
  /** Text of the .proto file, with PROTO_FILE. */
  protoContent: largeText.optional(),
  /** The request as JSON. */
  message: largeText.optional(),
  /** With HEALTH: the service to ask for; empty for the server as a whole. */
  service: z.string().max(1024).optional(),
  /**
   * Ours: with a server-streaming method, the number of messages after which the call is cancelled and
   * counts as OK.
   */
  messagesMax: z.int().min(1).max(GRPC_LIMITS.grpcMessagesMax).optional(),
})
type GrpcFields = z.infer<typeof grpcFields>

const GrpcConfig = grpcFields.superRefine((config, context) => {
  for (const [path, message] of [...modeProblems(config), ...textProblems(config)]) {
    context.addIssue({ code: 'custom', path, message })
  }
})

/** Place and error text. */
type Problem = [path: (string | number)[], message: string]

/** Fields that the mode needs and does not have, or has and does not know. */
function* modeProblems(config: GrpcFields): Generator<Problem> {
  const { mode, serviceDefinition, method = '', protoContent = '', service = '' } = config
  if (mode === 'HEALTH') {
    if (config.messagesMax !== undefined) yield [['messagesMax'], 'belongs to mode BEHAVIOR']
    if (method !== '') yield [['method'], 'belongs to mode BEHAVIOR; HEALTH calls its own method']
    if (serviceDefinition !== undefined) {
      yield [['serviceDefinition'], 'belongs to mode BEHAVIOR; HEALTH needs no definition']
    }
    return
  }
  if (method === '') yield [['method'], 'is missing; mode BEHAVIOR calls a method']
  if (service !== '') yield [['service'], 'belongs to mode HEALTH; name the service in method']
  if (serviceDefinition === 'PROTO_FILE' && protoContent.trim() === '') {
    yield [['protoContent'], 'is missing; PROTO_FILE needs the text of the .proto file here']
  }
}

/** Texts that cannot be sent. Values of variables are known at the run only. */
function* textProblems({ method = '', message = '', metadata }: GrpcFields): Generator<Problem> {
  const isKnown = (text: string) => !text.includes('{{')
  if (method !== '' && isKnown(method) && grpcMethodName(method) === undefined) {
    yield [['method'], 'is not a method name; write package.Service/Method']
  }
  if (isKnown(message) && !isJson(message)) yield [['message'], 'is not JSON']
  for (const [index, { key, value }] of metadata.entries()) {
    if (!isKnown(key)) continue
    const problem = metadataProblem(key.toLowerCase(), isKnown(value) ? value : '')
    if (problem !== undefined) yield [['metadata', index], problem]
  }
}

/** Blanks alone stand for an empty request. The parser's own message would quote the text, which may hold a secret. */
function isJson(text: string): boolean {
  if (text.trim() === '') return true
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** The request of a gRPC monitor. */
export const GrpcRequest = z
  .strictObject({
    /** The host alone. */
    url: hostName,
    port: z.int().min(1).max(65_535),
    ipFamily: z.enum(['IPv4', 'IPv6']).default('IPv4'),
    /** Continues when the certificate does not verify. */
    skipSSL: z.boolean().default(false),
    /** Deadline of the call, seconds. */
    timeout: z.int().min(1).max(180).default(60),
    grpcConfig: GrpcConfig,
    assertions: assertionsSchema(GRPC_SOURCES),
    /** Ours: how to speak TLS. */
    tls: TlsSettings.optional(),
    /** Ours: the `:authority` of the call, instead of host and port. */
    authority: z
      .string()
      .min(1)
      .max(2048)
      .regex(/^[\x21-\x7e]+$/, 'must be host:port, without blanks')
      .optional(),
  })
  .superRefine((request, context) => {
    if (request.tls === undefined || request.grpcConfig.tls) return
    const message = 'has no effect: grpcConfig.tls is false'
    context.addIssue({ code: 'custom', path: ['tls'], message })
  })
export type GrpcRequest = z.infer<typeof GrpcRequest>

export const GrpcMonitor = monitorSchema('GRPC', {
  request: GrpcRequest,
  ...responseTimes(10_000, 20_000, 180_000),
})
export type GrpcMonitor = z.infer<typeof GrpcMonitor>

export const GRPC_FAILURES = {
  GRPC_STATUS: aboutTarget('the call ended with a status other than OK'),
  GRPC_NOT_SERVING: aboutTarget('the health status is not SERVING'),
  GRPC_SERVICE_NOT_FOUND: aboutTarget('the health service does not know the service (NOT_FOUND)'),
  GRPC_HTTP_STATUS: aboutTarget(
    'a proxy or web server answered with an HTTP status instead of gRPC',
  ),
  GRPC_NOT_SPOKEN: aboutTarget('the content type of the answer is not gRPC'),
  GRPC_MALFORMED: aboutTarget('the answer is not valid gRPC'),
  GRPC_UNDECODABLE: aboutTarget(
    'the answer does not match its grpc-encoding, or has one that was not offered',
  ),
  GRPC_MESSAGE_TOO_LARGE: aboutTarget('a message of the answer is larger than the limit'),
  GRPC_STREAM_TOO_LARGE: aboutTarget('the answer has more messages or bytes than the limits'),
  GRPC_REFLECTION_UNAVAILABLE: aboutTarget('the server offers no server reflection'),
  GRPC_SCHEMA_INVALID: aboutTarget('the types from server reflection cannot be used'),
  GRPC_METHOD_NOT_FOUND: aboutTarget('the server has no such service or method'),
  GRPC_METHOD_UNDEFINED: aboutAgent('the proto text has no such service or method'),
  GRPC_METHOD_UNSUPPORTED: aboutAgent(
    'the method takes a stream of requests, which monitors do not send',
  ),
  GRPC_PROTO_INVALID: aboutAgent('the proto text does not parse, or misses types'),
  GRPC_MESSAGE_INVALID: aboutAgent(
    'the request is not JSON, or does not fit the type of the method',
  ),
} as const satisfies FailureTable

/** A failure code of GRPC monitors alone. */
export type GrpcCode = keyof typeof GRPC_FAILURES

/** A derived status is less specific than the failure. */
function summary(observed: Readonly<Record<string, unknown>>): string[] {
  const { status, statusOrigin, healthStatus } = observed
  if (typeof healthStatus === 'string') return [healthStatus]
  return typeof status === 'string' && statusOrigin === 'server' ? [status] : []
}

export const grpcDefinition = defineType({
  checkType: 'GRPC',
  path: 'grpc',
  schema: GrpcMonitor,
  example: { request: { url: 'example.com', port: 443, grpcConfig: { method: 'a.B/C' } } },
  sources: GRPC_SOURCES,
  failures: GRPC_FAILURES,
  metrics: {
    ...ADDRESS_METRICS,
    ...TLS_METRICS,
    probe_grpc_duration_seconds: 'Time of each phase of a gRPC check.',
    probe_grpc_healthcheck_response: 'Whether the health status was this one.',
    probe_grpc_ssl: 'Whether the gRPC check spoke TLS.',
    probe_grpc_status_code: 'Status code of the gRPC call; 14 when the server was not reached.',
  },
  limits: GRPC_LIMITS,
  summary,
  analytics: {
    paths: ['grpc-checks', 'grpc-monitors'],
    time: { name: 'total', label: 'Total time' },
  },
})
