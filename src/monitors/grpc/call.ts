// HTTP/2 connection of one check, on an established socket, and its calls: sends headers and messages, and collects the
// answer within its bounds. The answer is evaluated afterwards; errors of the connection become failure codes.
import { GRPC_LIMITS, type GrpcCode } from './definition.ts'
import {
  connect,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
} from 'node:http2'
import type { Socket } from 'node:net'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import { connectionFailure } from '../../network/connect-errors.ts'
import type { Progress } from '../../network/dial.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'
import { framed, MessageReader, type PackedMessage } from './frames.ts'

/** Shown bytes of a GOAWAY's text. */
const DEBUG_BYTES_MAX = 200

/** Flow-control window; the default would halve the throughput of slow connections. */
const WINDOW_BYTES = 1_048_576

const SETTINGS = {
  enablePush: false,
  initialWindowSize: WINDOW_BYTES,
  maxHeaderListSize: LIMITS.headerBytesMax,
}

/** Headers of one section; the bound of Node's own. */
const HEADERS_MAX = 128

/** The connection. Calls are made on `session`, one after the other. */
export class Link {
  readonly session: ClientHttp2Session
  /** The peer, for messages. */
  readonly peer: string
  /** Ends the check. */
  readonly signal: AbortSignal
  readonly #socket: Socket
  #goAway: Failure | undefined
  #error: NodeJS.ErrnoException | undefined
  #hasSettings = false
  /** The peer closed the connection. */
  #ended = false

  /** Opens the connection without waiting; the first call is sent with the preface. */
  constructor(socket: Socket, peer: string, signal: AbortSignal) {
    this.peer = peer
    this.#socket = socket
    this.signal = signal
    this.session = connect('http://vedette', {
      createConnection: () => socket,
      settings: SETTINGS,
      maxHeaderListPairs: HEADERS_MAX,
      // Pushes are switched off; nothing else could be reserved.
      maxReservedRemoteStreams: 0,
    })
    const onError = (error: NodeJS.ErrnoException) => (this.#error ??= error)
    // Only the socket reports a TLS alert after the handshake.
    socket.on('error', onError)
    this.session.on('error', onError)
    socket.once('end', () => (this.#ended = true))
    this.session.once('remoteSettings', () => (this.#hasSettings = true))
    this.session.on('goaway', (code, lastStreamId, data) => {
      const debug = data?.toString('utf8', 0, DEBUG_BYTES_MAX) ?? ''
      const errorCode = http2ErrorName(code)
      const suffix = debug === '' ? '' : `, "${debug}"`
      const message = `${peer} shut the connection down instead of answering (GOAWAY ${errorCode}${suffix})`
      const details = { where: peer, errorCode, lastStreamId, debug }
      this.#goAway = failure<GrpcCode>('HTTP2_GOAWAY', message, details)
    })
  }

  /** Closes the connection. */
  close(): void {
    this.session.destroy()
    this.#socket.destroy()
  }

  /** Failure of a stream that ended early. */
  failureOf(stream: ClientHttp2Stream, streamError: Error | undefined): Failure {
    const where = this.peer
    const error = this.#error
    if (error !== undefined && isOfSocket(error)) return connectionFailure(error, where)
    if (!this.#hasSettings && (error !== undefined || this.#socket.bytesRead > 0)) {
      const message = `${where} does not speak HTTP/2, which gRPC needs`
      return failure<GrpcCode>('HTTP2_NOT_SPOKEN', message, { where })
    }
    if (this.#goAway !== undefined) return this.#goAway
    if (this.#ended) {
      const message = `${where} closed the connection before it had answered`
      return failure('CONNECTION_CLOSED', message, { where })
    }
    // The library ends a connection on which the peer violates the protocol, usually without an error.
    if (error !== undefined || this.session.destroyed) {
      const suffix = error === undefined ? '' : `: ${error.message}`
      const message = `${where} broke the rules of HTTP/2${suffix}`
      return failure<GrpcCode>('HTTP2_PROTOCOL', message, { where })
    }
    const code = stream.rstCode ?? 0
    const errorCode = http2ErrorName(code)
    const why = streamError === undefined || code > 0 ? errorCode : streamError.message
    const message = `${where} reset the call: ${why}`
    return failure<GrpcCode>('HTTP2_STREAM_RESET', message, { where, errorCode })
  }
}

/** Errors of the operating system and of TLS, rather than of HTTP/2. */
function isOfSocket({ code = '' }: NodeJS.ErrnoException): boolean {
  return !code.startsWith('ERR_HTTP2')
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

/** Error codes of HTTP/2 (RFC 9113, section 7); the place is the number. */
const HTTP2_ERRORS = [
  'NO_ERROR',
  'PROTOCOL_ERROR',
  'INTERNAL_ERROR',
  'FLOW_CONTROL_ERROR',
  'SETTINGS_TIMEOUT',
  'STREAM_CLOSED',
  'FRAME_SIZE_ERROR',
  'REFUSED_STREAM',
  'CANCEL',
  'COMPRESSION_ERROR',
  'CONNECT_ERROR',
  'ENHANCE_YOUR_CALM',
  'INADEQUATE_SECURITY',
  'HTTP_1_1_REQUIRED',
] as const

function http2ErrorName(code: number): string {
  return HTTP2_ERRORS[code] ?? `error ${code}`
}
