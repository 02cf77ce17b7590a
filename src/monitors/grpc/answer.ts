// Evaluation of the answer to a call: its status, from the server or, where the server gave none, by the
// mappings of gRPC's documents (grpc/doc/http-grpc-status-mapping.md, PROTOCOL-HTTP2.md); and its messages,
// decompressed, decoded by their types, and converted to JSON.
import type { DescMessage, FileRegistry } from '@bufbuild/protobuf'
import type { IncomingHttpHeaders } from 'node:http2'
import { setImmediate as turn } from 'node:timers/promises'
import { aboutIn, excerpt, failure, type Failure, FAILURES } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import { targetFailure } from '../../network/target-failure.ts'
import { isGrpc, type Answer } from './call.ts'
import { GRPC_FAILURES, GRPC_HEALTH_STATES, type GrpcCode } from './definition.ts'
import { unpacked } from './frames.ts'
import { Decoder, malformedMessage } from './protobuf/decode.ts'
import { readFields, readUntrusted, textField } from './protobuf/wire.ts'

/** The status codes by name, in the order of their numbers. */
export const STATUS = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const

const STATUS_NAMES = Object.keys(STATUS)

/** The name of a status code; an undefined one counts as UNKNOWN. */
export function statusName(code: number): string {
  return STATUS_NAMES[code] ?? 'UNKNOWN'
}

/** How a call ended. */
export interface Ending {
  code: number
  /** Percent-decoded; empty when there was none. */
  message: string
  /** Whether the status is the server's, or derived by the client. */
  origin: 'server' | 'client'
  /** Why this is no valid gRPC answer. */
  failed?: Failure
}

/** Determines how a call ended. */
export function endingOf(answer: Answer): Ending {
  const { headers, trailers, failed, cutShort } = answer
  const last = trailers?.['grpc-status'] === undefined ? headers : trailers
  const status = last?.['grpc-status']
  const httpStatus = headers?.[':status'] ?? 0
  if (headers !== undefined && (!isGrpc(headers) || (status === undefined && httpStatus !== 200))) {
    return endingOfHttp(httpStatus, headers)
  }
  if (failed !== undefined) return derived(statusOfFailure(failed) ?? STATUS.UNKNOWN, failed)
  if (cutShort) return { code: STATUS.OK, message: '', origin: 'client' }
  if (status === undefined) return malformed('the answer ends without a status', STATUS.INTERNAL)
  const text = String(status)
  if (!/^\d{1,9}$/.test(text)) {
    const problem = `the status of the answer is not a number: ${excerpt(text, 50)}`
    return malformed(problem, STATUS.UNKNOWN)
  }
  const message = decodedMessage(String(last?.['grpc-message'] ?? ''))
  return { code: Number(text), message, origin: 'server' }
}

/** An ending without a status of the server. */
function derived(code: number, failed: Failure): Ending {
  return { code, message: '', origin: 'client', failed }
}

function malformed(message: string, code: number): Ending {
  return derived(code, failure<GrpcCode>('GRPC_MALFORMED', message))
}

function endingOfHttp(httpStatus: number, headers: IncomingHttpHeaders): Ending {
  const contentType = excerpt(headers['content-type'] ?? '', 100)
  const server = excerpt(String(headers['server'] ?? ''), 100)
  const who = server === '' ? 'the answer' : `the answer by ${server}`
  const [code, message]: [GrpcCode, string] =
    httpStatus === 200
      ? ['GRPC_NOT_SPOKEN', `${who} is not gRPC: its content type is ${contentType || 'missing'}`]
      : ['GRPC_HTTP_STATUS', `${who} is the HTTP status ${httpStatus} instead of gRPC`]
  const details = { httpStatus, contentType, server }
  return derived(BY_HTTP[httpStatus] ?? STATUS.UNKNOWN, failure<GrpcCode>(code, message, details))
}

const ALL_FAILURES = { ...FAILURES, ...GRPC_FAILURES }

const CONCLUDED: Partial<Record<string, number>> = {
  CONNECTION_CLOSED: STATUS.UNAVAILABLE,
  CONNECTION_RESET: STATUS.UNAVAILABLE,
  HTTP2_GOAWAY: STATUS.UNAVAILABLE,
  HTTP2_NOT_SPOKEN: STATUS.UNAVAILABLE,
  GRPC_MALFORMED: STATUS.INTERNAL,
  GRPC_UNDECODABLE: STATUS.INTERNAL,
  GRPC_MESSAGE_TOO_LARGE: STATUS.RESOURCE_EXHAUSTED,
  GRPC_STREAM_TOO_LARGE: STATUS.RESOURCE_EXHAUSTED,
  HTTP_HEADERS_TOO_LARGE: STATUS.INTERNAL,
  HTTP2_PROTOCOL: STATUS.INTERNAL,
}

/**
 * The gRPC status code of a failure of the call or its connection; undefined for a failure of the agent.
 */
export function statusOfFailure(failed: Failure): number | undefined {
  const { code, details } = failed
  if (aboutIn(ALL_FAILURES, failed) === 'agent') return undefined
  if (code.startsWith('TIMEOUT_')) return STATUS.DEADLINE_EXCEEDED
  if (code === 'HTTP2_STREAM_RESET') {
    return BY_HTTP2[String(details?.['errorCode'])] ?? STATUS.INTERNAL
  }
  if (/^(DNS|CONNECT|TLS)_/.test(code)) return STATUS.UNAVAILABLE
  return CONCLUDED[code]
}

/** The status of a plain HTTP answer. */
const BY_HTTP: Readonly<Record<number, number>> = {
  400: STATUS.INTERNAL,
  401: STATUS.UNAUTHENTICATED,
  403: STATUS.PERMISSION_DENIED,
  404: STATUS.UNIMPLEMENTED,
  429: STATUS.UNAVAILABLE,
  502: STATUS.UNAVAILABLE,
  503: STATUS.UNAVAILABLE,
  504: STATUS.UNAVAILABLE,
}

/** The status of a stream that was reset with this error. */
const BY_HTTP2: Readonly<Record<string, number>> = {
  REFUSED_STREAM: STATUS.UNAVAILABLE,
  CANCEL: STATUS.CANCELLED,
  ENHANCE_YOUR_CALM: STATUS.RESOURCE_EXHAUSTED,
  INADEQUATE_SECURITY: STATUS.PERMISSION_DENIED,
}

/** A grpc-message as text: percent-encoded UTF-8. Invalid encoding stays as received. */
function decodedMessage(value: string): string {
  if (!value.includes('%')) return value
  const bytes = value.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
  return Buffer.from(bytes, 'latin1').toString('utf8')
}

/** The messages of an answer, decompressed. Rejects with TargetFailure. */
export async function unpackAll({ headers, messages }: Answer): Promise<Buffer[]> {
  const encoding = String(headers?.['grpc-encoding'] ?? 'identity')
  const all: Buffer[] = []
  let bytes = 0
  for (const message of messages) {
    const one = await unpacked(message, encoding)
    bytes += one.length
    const limitBytes = LIMITS.unpackedBytesMax
    if (bytes > limitBytes) {
      const problem = `the answer has more than ${limitBytes} bytes, unpacked`
      throw targetFailure<GrpcCode>('GRPC_STREAM_TOO_LARGE', problem, { limitBytes })
    }
    all.push(one)
  }
  return all
}

/**
 * Throws unless the answer has the messages of a unary call: one after success, none or one after an error.
 */
export function refuseCardinality({ messages }: Answer, { code }: Ending): void {
  const count = messages.length
  if (count === 1 || (count === 0 && code !== STATUS.OK)) return
  const message = `the answer has ${count === 0 ? 'no message' : 'more than one message'}`
  throw targetFailure<GrpcCode>('GRPC_MALFORMED', message)
}

/** Longest time of reading before other work has its turn. */
const TURN_MS_MAX = 10

/**
 * Converts the messages to JSON texts; `unknown` are the types within an Any that the registry does not have. Rejects
 * with TargetFailure, or the signal's reason.
 */
export async function readMessages(
  messages: readonly Buffer[],
  type: DescMessage,
  registry: FileRegistry,
  signal: AbortSignal,
): Promise<{ texts: string[]; unknown: ReadonlySet<string> }> {
  const decoder = new Decoder(registry)
  const texts: string[] = []
  let since = performance.now()
  for (const message of messages) {
    texts.push(JSON.stringify(decoder.decode(message, type)))
    if (performance.now() - since < TURN_MS_MAX) continue
    await turn()
    signal.throwIfAborted()
    since = performance.now()
  }
  return { texts, unknown: decoder.unknown }
}

/** The path of a health check. */
export const HEALTH_PATH = '/grpc.health.v1.Health/Check'

export type HealthState = (typeof GRPC_HEALTH_STATES)[number]

/** The request for a service, empty for the whole server. */
export function healthRequest(service: string): Uint8Array {
  return service === '' ? new Uint8Array() : textField(1, service)
}

/** The state in an answer. Throws TargetFailure. */
export function healthState(bytes: Buffer): HealthState {
  const read = () => {
    let number = 0
    readFields(bytes, { 1: (reader) => (number = reader.int32()) })
    const state = GRPC_HEALTH_STATES[number]
    if (state === undefined) throw new Error(`${number} is not a health status`)
    return state
  }
  return readUntrusted(read, (why) => malformedMessage('grpc.health.v1.HealthCheckResponse', why))
}
