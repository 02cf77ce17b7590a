// Plan of a gRPC monitor, computed once for all its runs.
import type { OutgoingHttpHeaders } from 'node:http2'
import type { GrpcMonitor, GrpcRequest } from './definition.ts'
import { grpcMethodName, metadataProblem } from '../../contract/grpc-text.ts'
import { VERSION } from '../../contract/versions.ts'
import { placeOf } from '../../network/connect-errors.ts'
import { targetFailure } from '../../network/target-failure.ts'
import { ACCEPTED_ENCODINGS } from './frames.ts'

type Entry = GrpcRequest['grpcConfig']['metadata'][number]

/** A definition, ready to be run. */
export type Plan = ReturnType<typeof makePlan>

/** Deadline of an attempt: that of the call, or the failing response time. Milliseconds. */
export function deadlineMsOf(monitor: GrpcMonitor): number {
  return Math.min(monitor.request.timeout * 1000, monitor.maxResponseTime)
}

/** Common plan of all attempts of a monitor. Throws a TargetFailure (SETTINGS_INVALID). */
export function makePlan(monitor: GrpcMonitor) {
  const { request } = monitor
  const { mode, metadata, method: name = '', message = '', service = '' } = request.grpcConfig
  checkMetadata(metadata)
  const isHealth = mode === 'HEALTH'
  const method = isHealth ? undefined : grpcMethodName(name)
  if (!isHealth && method === undefined) {
    const problem = `${JSON.stringify(name)} is not a method name; write package.Service/Method`
    throw targetFailure('SETTINGS_INVALID', problem, { method: name })
  }
  return {
    endpoint: { host: request.url, port: request.port, family: request.ipFamily },
    request,
    /** All headers of a call except path and timeout. */
    headers: headersOf(request),
    deadlineMs: deadlineMsOf(monitor),
    /** With mode HEALTH: the service to ask for. */
    health: isHealth ? service : undefined,
    /** With mode BEHAVIOR. */
    method,
    /** Types that the request puts into an Any. */
    anyTypes: anyTypesOf(message),
  }
}

/** Throws for metadata that cannot be sent. Shows no value. */
function checkMetadata(metadata: readonly Entry[]): void {
  for (const { key, value } of metadata) {
    const problem = metadataProblem(key.toLowerCase(), value)
    if (problem === undefined) continue
    const message = `the metadata entry ${JSON.stringify(key)} ${problem}`
    throw targetFailure('SETTINGS_INVALID', message, { metadata: key })
  }
}

function headersOf({ grpcConfig, authority, url, port }: GrpcRequest): OutgoingHttpHeaders {
  // Without a prototype: a name may be __proto__.
  const metadata = Object.create(null) as Record<string, string[]>
  for (const { key, value } of grpcConfig.metadata) {
    const name = key.toLowerCase()
    const sent = name.endsWith('-bin') ? unpadded(value) : value.trim()
    metadata[name] = [...(metadata[name] ?? []), sent]
  }
  return {
    ':method': 'POST',
    ':scheme': grpcConfig.tls ? 'https' : 'http',
    ':authority': authority ?? placeOf(url, port),
    te: 'trailers',
    'content-type': 'application/grpc',
    'user-agent': `Vedette/${VERSION}`,
    'grpc-accept-encoding': ACCEPTED_ENCODINGS,
    ...metadata,
  }
}

/** Bytes as the protocol has them: the usual base64, without padding. */
function unpadded(value: string): string {
  return value.replaceAll('-', '+').replaceAll('_', '/').replace(/=+$/, '')
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
