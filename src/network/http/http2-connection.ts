// HTTP/2 connection of one check, on an open socket. It notes why it ended, for the failures of its streams.
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { excerpt, failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import { connectionFailure } from '../connect-errors.ts'

/** Shown characters of a GOAWAY's text. */
const DEBUG_CHARS_MAX = 200

/** Flow-control window; the default would halve the throughput of slow connections. */
const WINDOW_BYTES = 1_048_576

/** SETTINGS and PING frames of the peer, each of which has to be acknowledged. No honest server sends as many. */
const CONTROL_FRAMES_MAX = 10_000

/** Headers of a request; as over HTTP/1.1, the server decides what is too large. */
const SENT_HEADER_BYTES_MAX = 16_777_216

/** As over HTTP/1.1, a monitor may repeat any header. Node's types know this option for servers alone. */
const REPEATABLE = { strictSingleValueFields: false }

const SETTINGS = {
  enablePush: false,
  initialWindowSize: WINDOW_BYTES,
  maxHeaderListSize: LIMITS.headerBytesMax,
}

/** The connection. Requests are made on `session`. */
export class Http2Connection {
  readonly session: ClientHttp2Session
  /** The peer, for messages. */
  readonly peer: string
  readonly #socket: Socket
  #goAway: Failure | undefined
  #error: NodeJS.ErrnoException | undefined
  #hasSettings = false
  #controlFrames = 0
  /** The peer closed the connection. */
  #ended = false

  /** Opens the connection without waiting; the first request is sent with the preface. */
  constructor(socket: Socket, peer: string, headersMax: number) {
    this.peer = peer
    this.#socket = socket
    this.session = connect('http://vedette', {
      createConnection: () => socket,
      settings: SETTINGS,
      maxHeaderListPairs: headersMax,
      maxSendHeaderBlockLength: SENT_HEADER_BYTES_MAX,
      // Pushes are switched off; nothing else could be reserved.
      maxReservedRemoteStreams: 0,
      ...REPEATABLE,
    })
    this.session.setLocalWindowSize(WINDOW_BYTES)
    const onError = (error: NodeJS.ErrnoException) => (this.#error ??= error)
    // Only the socket reports a TLS alert after the handshake.
    socket.on('error', onError)
    this.session.on('error', onError)
    socket.once('end', () => (this.#ended = true))
    this.session.once('remoteSettings', () => (this.#hasSettings = true))
    this.session.on('remoteSettings', () => this.#countControlFrame())
    this.session.on('ping', () => this.#countControlFrame())
    this.session.on('goaway', (code, lastStreamId, data) => {
      const debug = excerpt(data?.toString() ?? '', DEBUG_CHARS_MAX)
      const errorCode = http2ErrorName(code)
      const suffix = debug === '' ? '' : `, "${debug}"`
      const message = `${peer} shut the connection down instead of answering (GOAWAY ${errorCode}${suffix})`
      const details = { where: peer, errorCode, lastStreamId, debug }
      this.#goAway = failure('HTTP2_GOAWAY', message, details)
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
      return failure('HTTP2_NOT_SPOKEN', `${where} does not speak HTTP/2`, { where })
    }
    if (this.#goAway !== undefined) return this.#goAway
    if (this.#ended) {
      const message = `${where} closed the connection before it answered`
      return failure('CONNECTION_CLOSED', message, { where })
    }
    // The library ends a connection on which the peer violates the protocol, usually without an error.
    if (error !== undefined || this.session.destroyed) {
      const suffix = error === undefined ? '' : `: ${error.message}`
      const message = `${where} violated the HTTP/2 protocol${suffix}`
      return failure('HTTP2_PROTOCOL', message, { where })
    }
    // The library does not say which side reset it: for a bad answer, ours does.
    const code = stream.rstCode ?? 0
    const errorCode = http2ErrorName(code)
    const why = streamError === undefined || code > 0 ? errorCode : streamError.message
    const message = `the stream to ${where} was reset: ${why}`
    return failure('HTTP2_STREAM_RESET', message, { where, errorCode })
  }

  #countControlFrame(): void {
    this.#controlFrames += 1
    if (this.#controlFrames <= CONTROL_FRAMES_MAX) return
    this.session.destroy(new RangeError(`more than ${CONTROL_FRAMES_MAX} SETTINGS and PING frames`))
  }
}

/** Errors of the operating system and of TLS, rather than of HTTP/2. */
function isOfSocket({ code }: NodeJS.ErrnoException): boolean {
  return code !== undefined && !code.startsWith('ERR_HTTP2')
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
