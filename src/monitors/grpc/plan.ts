// Plan of a gRPC monitor, computed once for all its runs.
import type { OutgoingHttpHeaders } from 'node:http2'
import type { Assertion } from '../../contract/assertion.ts'
import type { Failure } from '../../contract/failure.ts'
import { failure } from '../../contract/failure.ts'
import type { GrpcMonitor, GrpcRequest } from './definition.ts'
import { grpcMethodName, type MethodName } from '../../contract/grpc-text.ts'
import type { TlsSettings } from '../../contract/tls.ts'
import { VERSION } from '../../contract/versions.ts'
import { placeOf } from '../../network/connect-errors.ts'
import type { Family } from '../../network/dial.ts'
import { ACCEPTED_ENCODINGS } from './frames.ts'
import { headersOf } from './metadata.ts'

/** Source of the types of a method. */
export type Definition = 'REFLECTION' | 'PROTO_FILE'

/** A definition, ready to be run. */
export interface Plan {
  host: string
  port: number
  family: Family
  /** Speak TLS. */
  tls: boolean
  tlsSettings: TlsSettings | undefined
  skipSSL: boolean
  /** All headers of a call except path and timeout. */
  headers: OutgoingHttpHeaders
  /** Timeout of an attempt. Milliseconds. */
  deadlineMs: number
  /** With mode HEALTH: the service to ask for. */
  health: string | undefined
  /** With mode BEHAVIOR. */
  method: MethodName | undefined
  definition: Definition
  protoContent: string
  /** The request as JSON. */
  message: string
  /** Types that the request puts into an Any. */
  anyTypes: readonly string[]
  messagesMax: number | undefined
  assertions: readonly Assertion[]
  /** Whether an assertion says what the status, and the state of health, should be. */
  assertsStatus: boolean
  assertsHealth: boolean
}

/** Plan of a definition, or the failure that prevents its run. */
export type Prepared = { plan: Plan } | { failure: Failure }

/** Deadline of an attempt: that of the call, or the failing response time. Milliseconds. */
export function deadlineMsOf(monitor: GrpcMonitor): number {
  return Math.min(monitor.request.timeout * 1000, monitor.maxResponseTime)
}

/** Common plan of all attempts of a monitor, or the failure that prevents them. */
export function prepareGrpc(monitor: GrpcMonitor): Prepared {
  const { request } = monitor
  const { grpcConfig: config, assertions } = request
  const metadata = headersOf(config.metadata)
  if ('failure' in metadata) return metadata
  const method = config.mode === 'HEALTH' ? undefined : methodName(config.method ?? '')
  if (method !== undefined && 'code' in method) return { failure: method }
  const asserts = (source: string) => assertions.some((one) => one.source === source)
  const plan: Plan = {
    host: request.url,
    port: request.port,
    family: request.ipFamily,
    tls: config.tls,
    tlsSettings: request.tls,
    skipSSL: request.skipSSL,
    headers: { ...baseHeaders(request), ...metadata.headers },
    deadlineMs: deadlineMsOf(monitor),
    health: config.mode === 'HEALTH' ? (config.service ?? '') : undefined,
    method,
    definition: config.serviceDefinition ?? 'REFLECTION',
    protoContent: config.protoContent ?? '',
    message: config.message ?? '',
    anyTypes: anyTypesOf(config.message ?? ''),
    messagesMax: config.messagesMax,
    assertions,
    assertsStatus: asserts('GRPC_STATUS_CODE'),
    assertsHealth: asserts('GRPC_HEALTHCHECK_STATUS'),
  }
  return { plan }
}

function baseHeaders(request: GrpcRequest): OutgoingHttpHeaders {
  return {
    ':method': 'POST',
    ':scheme': request.grpcConfig.tls ? 'https' : 'http',
    ':authority': request.authority ?? placeOf(request.url, request.port),
    te: 'trailers',
    'content-type': 'application/grpc',
    'user-agent': `Vedette/${VERSION}`,
    'grpc-accept-encoding': ACCEPTED_ENCODINGS,
  }
}

/** Types of a request, at most. */
const ANY_TYPES_MAX = 16

function anyTypesOf(message: string): string[] {
  const found = new Set<string>()
  // Split at the slash afterwards: a pattern with it would be quadratic on long texts.
  for (const [, typeUrl = ''] of message.matchAll(/"@type"\s*:\s*"([^"]*)"/g)) {
    const name = typeUrl.slice(typeUrl.lastIndexOf('/') + 1)
    if (/^[\w.]+$/.test(name)) found.add(name)
    if (found.size === ANY_TYPES_MAX) break
  }
  return [...found]
}

function methodName(text: string): MethodName | Failure {
  const name = grpcMethodName(text)
  if (name !== undefined) return name
  const message = `${JSON.stringify(text)} is no method; write package.Service/Method`
  return failure('SETTINGS_INVALID', message, { method: text })
}
