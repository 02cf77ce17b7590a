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
import { LIMITS } from '../../contract/versions.ts'

/** States of grpc.health.v1 by the number that assertions compare with. */
export const GRPC_HEALTH_STATES = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'] as const

export const GRPC_SOURCES = {
  RESPONSE_TIME: { comparisons: NUMERIC, property: 'none', numeric: true },
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

const GrpcConfig = z
  .strictObject({
    mode: z.enum(['BEHAVIOR', 'HEALTH']).default('BEHAVIOR'),
    tls: z.boolean().default(true),
    metadata: z.array(Pair).max(200).default([]),
    /** Where the types of a method come from; REFLECTION where it is left out. Not with HEALTH. */
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
     * Ours: with a server-streaming method, messages that are enough. The call is cancelled then, and counts
     * as OK.
     */
    messagesMax: z.int().min(1).max(LIMITS.grpcMessagesMax).optional(),
  })
  .superRefine((config, context) => {
    for (const [field, message] of modeProblems(config)) {
      context.addIssue({ code: 'custom', path: [field], message })
    }
    for (const [path, message] of textProblems(config)) {
      context.addIssue({ code: 'custom', path, message })
    }
  })

interface ModeFields {
  mode: 'BEHAVIOR' | 'HEALTH'
  serviceDefinition?: 'REFLECTION' | 'PROTO_FILE' | undefined
  method?: string | undefined
  protoContent?: string | undefined
  service?: string | undefined
  messagesMax?: number | undefined
}

/** Field → what is wrong with its being there, or not. */
function* modeProblems(config: ModeFields): Generator<[string, string]> {
  const { mode, serviceDefinition, method = '', protoContent = '', service = '' } = config
  if (mode === 'HEALTH') {
    if (config.messagesMax !== undefined) yield ['messagesMax', 'belongs to mode BEHAVIOR']
    if (method !== '') yield ['method', 'belongs to mode BEHAVIOR; HEALTH calls its own method']
    if (serviceDefinition !== undefined) {
      yield ['serviceDefinition', 'belongs to mode BEHAVIOR; HEALTH needs no definition']
    }
    return
  }
  if (method === '') yield ['method', 'is missing; mode BEHAVIOR calls a method']
  if (service !== '') yield ['service', 'belongs to mode HEALTH; name the service in method']
  if (serviceDefinition === 'PROTO_FILE' && protoContent.trim() === '') {
    yield ['protoContent', 'is missing; with PROTO_FILE it holds the text of the .proto file']
  }
}

interface TextFields {
  method?: string | undefined
  message?: string | undefined
  metadata: readonly { key: string; value: string }[]
}

/** Where and why a text cannot be sent. What a variable brings is known at the run only. */
function* textProblems(config: TextFields): Generator<[(string | number)[], string]> {
  const { method = '', message = '', metadata } = config
  const isKnown = (text: string) => !text.includes('{{')
  if (method !== '' && isKnown(method) && grpcMethodName(method) === undefined) {
    yield [['method'], 'is no method; write package.Service/Method']
  }
  const fault = isKnown(message) ? faultOfJson(message) : undefined
  if (fault !== undefined) yield [['message'], `is not JSON: ${fault}`]
  for (const [index, { key, value }] of metadata.entries()) {
    if (!isKnown(key)) continue
    const problem = metadataProblem(key.toLowerCase(), isKnown(value) ? value : '')
    if (problem !== undefined) yield [['metadata', index], problem]
  }
}

/** What keeps the text from being JSON; blanks alone stand for an empty request. */
function faultOfJson(text: string): string | undefined {
  if (text.trim() === '') return undefined
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return (error as SyntaxError).message
  }
}

/** The request of a gRPC monitor. */
export const GrpcRequest = z
  .strictObject({
    /** The host alone. */
    url: hostName,
    port: z.int().min(1).max(65_535),
    ipFamily: z.enum(['IPv4', 'IPv6']).default('IPv4'),
    /** Goes on when the certificate does not verify. */
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
    const message = 'has no effect while grpcConfig.tls is false'
    context.addIssue({ code: 'custom', path: ['tls'], message })
  })
export type GrpcRequest = z.infer<typeof GrpcRequest>

export const GrpcMonitor = monitorSchema('GRPC', {
  request: GrpcRequest,
  ...responseTimes(10_000, 20_000, 180_000),
})
export type GrpcMonitor = z.infer<typeof GrpcMonitor>
