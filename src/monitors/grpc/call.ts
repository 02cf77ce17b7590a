// HTTP/2 connection of one check, on an established socket, and its calls: sends headers and messages, and collects the
// answer within its bounds. The answer is evaluated afterwards; errors of the connection become failure codes.
import { GRPC_LIMITS, type GrpcCode } from './definition.ts'
import type {
  ClientHttp2Stream,
  IncomingHttpHeaders,
  IncomingHttpStatusHeader,
  OutgoingHttpHeaders,
} from 'node:http2'
import type { Socket } from 'node:net'
import { failure, type Failure } from '../../contract/failure.ts'
import type { Progress } from '../../network/dial.ts'
import { Http2Connection } from '../../network/http/http2-connection.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'
import { framed, MessageReader, type PackedMessage } from './frames.ts'

/** Headers of one section; the bound of Node's own. */
const HEADERS_MAX = 128

/** The connection of one check. Calls are made on its session, one after the other. */
export class Link extends Http2Connection {
  /** Ends the check. */
  readonly signal: AbortSignal

  constructor(socket: Socket, peer: string, signal: AbortSignal) {
    super(socket, peer, HEADERS_MAX)
    this.signal = signal
  }
}

/** Parameters of a call. */
export interface CallOrder {
  headers: OutgoingHttpHeaders
  message: Uint8Array
  /** Number of messages after which the call is cancelled and counts as OK. */
  enough?: number | undefined
}

/** Outcome of a call. */
export interface Answer {
  headers?: IncomingHttpHeaders & IncomingHttpStatusHeader
  trailers?: IncomingHttpHeaders
  messages: PackedMessage[]
  /** Bytes of the messages as received. */
  bytes: number
  /** Whether the call was cancelled after enough messages. */
  cutShort: boolean
  /** From sending until the first headers, and from then until the end. */
  firstByteMs?: number
  downloadMs?: number
  /** Why the answer is incomplete. */
  failed?: Failure
  /** Ends the accounting for the memory of the messages. */
  release: () => void
}

const GRPC_CONTENT = /^application\/grpc(?:[+;]|$)/i

/** Whether the headers begin an answer of gRPC. */
export function isGrpc(headers: IncomingHttpHeaders): boolean {
  return GRPC_CONTENT.test(headers['content-type'] ?? '')
}

/** Makes a call. Problems are in `failed`; rejects only with the signal's reason. */
export function call(link: Link, order: CallOrder, progress: Progress): Promise<Answer> {
  const { session, signal } = link
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const reader = new MessageReader()
    const release = () => reader.release()
    const answer: Answer = { messages: [], bytes: 0, cutShort: false, release }
    const sentAt = performance.now()
    let headersAt: number | undefined
    let streamError: Error | undefined
    let settled = false
    const stream = session.request(order.headers, { endStream: false })
    const onAbort = () => {
      settled = true
      link.close()
      reader.release()
      reject(signal.reason as Error)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    const settle = (failed?: Failure) => {
      if (settled) return
      settled = true
      signal.removeEventListener('abort', onAbort)
      if (headersAt !== undefined) answer.downloadMs = performance.now() - headersAt
      if (failed !== undefined) answer.failed = failed
      answer.bytes = reader.bytes
      resolve(answer)
    }
    stream.on('response', (headers) => {
      headersAt = performance.now()
      answer.firstByteMs = headersAt - sentAt
      answer.headers = headers
      progress.phase = 'download'
      // An HTML page of a proxy is not read.
      if (!isGrpc(headers)) settle()
    })
    stream.on('trailers', (trailers) => (answer.trailers = trailers))
    stream.on('data', (chunk: Buffer) => {
      if (settled) return
      try {
        collect(answer, reader.push(chunk), order.enough)
        if (!answer.cutShort) return
        settle()
      } catch (error) {
        if (!(error instanceof TargetFailure)) throw error
        settle(error.failure)
      }
      stream.close(CANCEL)
    })
    stream.on('end', () => {
      if (hasStatus(answer)) settle(cutOff(reader))
    })
    stream.on('error', (error) => (streamError = error))
    stream.on('close', () => {
      const conclude = () => settle(endOf(link, stream, answer, streamError))
      // The reason why the connection ended is reported after its streams have ended.
      if (session.destroyed) setImmediate(conclude)
      else conclude()
    })
    progress.phase = 'send'
    stream.end(framed(order.message), () => {
      if (progress.phase === 'send') progress.phase = 'firstByte'
    })
  })
}

/** HTTP/2 error code for a stream that is no longer needed (RFC 9113, section 7). */
const CANCEL = 8

function collect(answer: Answer, messages: PackedMessage[], enough: number | undefined): void {
  answer.messages.push(...messages)
  const count = answer.messages.length
  if (enough !== undefined && count >= enough) {
    answer.messages.length = enough
    answer.cutShort = true
    return
  }
  const limit = GRPC_LIMITS.grpcMessagesMax
  if (count <= limit) return
  const message = `the answer has more than ${limit} messages`
  throw targetFailure<GrpcCode>('GRPC_STREAM_TOO_LARGE', message, { limit })
}

/** Whether its trailers, or headers alone, have ended the answer. */
function hasStatus({ headers, trailers }: Answer): boolean {
  return trailers !== undefined || headers?.['grpc-status'] !== undefined
}

function cutOff(reader: MessageReader): Failure | undefined {
  if (reader.isComplete) return undefined
  return failure<GrpcCode>('GRPC_MALFORMED', 'the answer ends within a message')
}

/** Why a closed stream did not end like a call. */
function endOf(
  link: Link,
  stream: ClientHttp2Stream,
  answer: Answer,
  streamError: Error | undefined,
): Failure | undefined {
  if (hasStatus(answer)) return undefined
  const whole = stream.readableEnded && streamError === undefined && (stream.rstCode ?? 0) === 0
  if (whole && answer.headers !== undefined) {
    return failure<GrpcCode>('GRPC_MALFORMED', 'the answer ends without a status')
  }
  return link.failureOf(stream, streamError)
}
