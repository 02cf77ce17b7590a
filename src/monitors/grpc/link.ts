// HTTP/2 connection for the calls of one check, on an established socket. Maps its errors to failure codes.
// Closed at the end of the check.
import type { GrpcCode } from './definition.ts'
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import { connectionFailure } from '../../network/connect-errors.ts'
import { http2ErrorName } from './status.ts'

/** Content of a GOAWAY frame. */
interface GoAway {
  code: number
  lastStreamId: number
  debug: string
}

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
  readonly #socket: Socket
  readonly #signal: AbortSignal
  readonly #onAbort = () => this.#abort()
  #goAway: GoAway | undefined
  #error: NodeJS.ErrnoException | undefined
  #hasSettings = false
  /** The peer closed the connection. */
  #ended = false
  /** Ends the running call. */
  #waiting: ((reason: Error) => void) | undefined

  constructor(socket: Socket, peer: string, signal: AbortSignal) {
    this.peer = peer
    this.#socket = socket
    this.#signal = signal
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
    this.session.on('goaway', (code: number, lastStreamId: number, data?: Buffer) => {
      const debug = data?.toString('utf8', 0, DEBUG_BYTES_MAX) ?? ''
      this.#goAway = { code, lastStreamId, debug }
    })
    signal.addEventListener('abort', this.#onAbort)
  }

  /** Registers a waiting call, which the signal ends at once. Throws the signal's reason when aborted. */
  wait(reject: (reason: Error) => void): void {
    this.#signal.throwIfAborted()
    this.#waiting = reject
  }

  /** Unregisters the waiting call. */
  done(): void {
    this.#waiting = undefined
  }

  #abort(): void {
    const waiting = this.#waiting
    this.close()
    waiting?.(this.#signal.reason as Error)
  }

  /** Closes the connection. */
  close(): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#waiting = undefined
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
    if (this.#goAway !== undefined) return goneAway(this.#goAway, where)
    if (this.#ended) {
      const message = `${where} closed the connection before it had answered`
      return failure('CONNECTION_CLOSED', message, { where })
    }
    // The library ends a connection on which the peer violates the protocol, usually without an error.
    if (error !== undefined || this.session.destroyed) {
      const suffix = error === undefined ? '' : `: ${error.message}`
      return failure<GrpcCode>('HTTP2_PROTOCOL', `${where} broke the rules of HTTP/2${suffix}`, {
        where,
      })
    }
    const code = stream.rstCode ?? 0
    const errorCode = http2ErrorName(code)
    const why = streamError === undefined || code > 0 ? errorCode : streamError.message
    return failure<GrpcCode>('HTTP2_STREAM_RESET', `${where} reset the call: ${why}`, {
      where,
      errorCode,
    })
  }
}

/** Opens the connection without waiting; the first call is sent with the preface. */
export function openLink(socket: Socket, peer: string, signal: AbortSignal): Link {
  return new Link(socket, peer, signal)
}

/** Errors of the operating system and of TLS, rather than of HTTP/2. */
function isOfSocket(error: NodeJS.ErrnoException): boolean {
  const code = error.code ?? ''
  return !code.startsWith('ERR_HTTP2')
}

function goneAway({ code, lastStreamId, debug }: GoAway, where: string): Failure {
  const errorCode = http2ErrorName(code)
  const suffix = debug === '' ? '' : `, "${debug}"`
  const message = `${where} shut the connection down instead of answering (GOAWAY ${errorCode}${suffix})`
  return failure<GrpcCode>('HTTP2_GOAWAY', message, { where, errorCode, lastStreamId, debug })
}
