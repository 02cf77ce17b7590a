// One call: its headers and messages go out, and what comes back is gathered, each part within its bounds.
// What the answer means is told from it afterwards.
import { GRPC_LIMITS, type GrpcCode } from './definition.ts'
import type {
  ClientHttp2Stream,
  IncomingHttpHeaders,
  IncomingHttpStatusHeader,
  OutgoingHttpHeaders,
} from 'node:http2'
import { failure, type Failure } from '../../contract/failure.ts'
import type { Progress } from '../../network/dial.ts'
import { framed, MessageReader, type PackedMessage } from './frames.ts'
import type { Link } from './link.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'

/** What a call is. */
export interface CallOrder {
  headers: OutgoingHttpHeaders
  message: Uint8Array
  /** Messages that are enough: the call is cancelled then, and counts as one that ended well. */
  enough?: number | undefined
}

/** What came of a call. */
export interface Answer {
  headers?: IncomingHttpHeaders & IncomingHttpStatusHeader
  trailers?: IncomingHttpHeaders
  messages: PackedMessage[]
  /** Bytes of the messages as they came. */
  bytes: number
  /** Whether the call was cancelled because it had brought enough. */
  cutShort: boolean
  /** From sending until the first headers, and from then until the end. */
  firstByteMs?: number
  downloadMs?: number
  /** Why the answer is not whole. */
  failed?: Failure
}

const GRPC_CONTENT = /^application\/grpc(?:[+;]|$)/i

/** Whether the headers begin an answer of gRPC. */
export function isGrpc(headers: IncomingHttpHeaders): boolean {
  return GRPC_CONTENT.test(headers['content-type'] ?? '')
}

/**
 * Makes a call. What goes wrong is in `failed`; rejects only with the signal's reason. The memory of the
 * messages is accounted for until `release` is called.
 */
export function call(
  link: Link,
  order: CallOrder,
  progress: Progress,
): Promise<{ answer: Answer; release: () => void }> {
  return new Promise((resolve, reject) => {
    link.wait((reason) => {
      reader.release()
      reject(reason)
    })
    const reader = new MessageReader()
    const answer: Answer = { messages: [], bytes: 0, cutShort: false }
    const sentAt = performance.now()
    let headersAt: number | undefined
    let streamError: Error | undefined
    let settled = false
    const stream = link.session.request(order.headers, { endStream: false })
    const settle = (failed?: Failure) => {
      if (settled) return
      settled = true
      link.done()
      if (headersAt !== undefined) answer.downloadMs = performance.now() - headersAt
      if (failed !== undefined) answer.failed = failed
      answer.bytes = reader.bytes
      resolve({ answer, release: () => reader.release() })
    }
    const refuse = (failed: Failure) => {
      settle(failed)
      stream.close(CANCEL)
    }
    stream.on('response', (headers) => {
      headersAt = performance.now()
      answer.firstByteMs = headersAt - sentAt
      answer.headers = headers
      progress.phase = 'download'
      // What a proxy says in HTML is not worth waiting for.
      if (!isGrpc(headers)) settle()
    })
    stream.on('trailers', (trailers) => (answer.trailers = trailers))
    stream.on('data', (chunk: Buffer) => {
      if (settled) return
      try {
        take(answer, reader.push(chunk), order.enough)
        if (answer.cutShort) {
          settle()
          stream.close(CANCEL)
        }
      } catch (error) {
        if (!(error instanceof TargetFailure)) throw error
        refuse(error.failure)
      }
    })
    stream.on('end', () => {
      if (answer.trailers !== undefined || isTrailersOnly(answer)) settle(cutOff(reader))
    })
    stream.on('error', (error) => (streamError = error))
    stream.on('close', () => {
      const conclude = () => settle(endOf(link, stream, answer, streamError))
      // Why the connection ended is told after its streams have ended.
      if (link.session.destroyed) setImmediate(conclude)
      else conclude()
    })
    progress.phase = 'send'
    stream.end(framed(order.message), () => {
      if (progress.phase === 'send') progress.phase = 'firstByte'
    })
  })
}

/** Error code of HTTP/2 for a stream that is of no use any more (RFC 9113, section 7). */
const CANCEL = 8

function take(answer: Answer, messages: PackedMessage[], enough: number | undefined): void {
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

function isTrailersOnly({ headers }: Answer): boolean {
  return headers?.['grpc-status'] !== undefined
}

function cutOff(reader: MessageReader): Failure | undefined {
  if (reader.isComplete) return undefined
  return failure<GrpcCode>('GRPC_MALFORMED', 'the answer ends within a message')
}

/** Why a stream that closed did not end as a call should. */
function endOf(
  link: Link,
  stream: ClientHttp2Stream,
  answer: Answer,
  streamError: Error | undefined,
): Failure | undefined {
  if (answer.trailers !== undefined || isTrailersOnly(answer)) return undefined
  const whole = stream.readableEnded && streamError === undefined && (stream.rstCode ?? 0) === 0
  if (whole && answer.headers !== undefined) {
    return failure<GrpcCode>('GRPC_MALFORMED', 'the answer ends without a status')
  }
  return link.failureOf(stream, streamError)
}
