// An HTTP/2 connection for the calls of one check, on a socket that stands; and what went wrong with it, by
// a stable code. It lasts as long as the check and leaves nothing behind.
import type { GrpcCode } from './definition.ts'
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import { connectionFailure } from '../../network/connect-errors.ts'
import { http2ErrorName } from './status.ts'

/** What a GOAWAY said. */
interface GoAway {
  code: number
  lastStreamId: number
  debug: string
}

/** Text of a GOAWAY that is shown. */
const DEBUG_BYTES_MAX = 200

/** How much the target may send before it waits for us: without it a slow way would halve the speed. */
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
  /** Ends the call under way. */
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
    // An alert of TLS that comes after the handshake is the socket's alone.
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

  /** The wait of a call: ended by the signal at once. Throws the signal's reason when it is aborted. */
  wait(reject: (reason: Error) => void): void {
    this.#signal.throwIfAborted()
    this.#waiting = reject
  }

  /** The call does not wait any longer. */
  done(): void {
    this.#waiting = undefined
  }

  #abort(): void {
    const waiting = this.#waiting
    this.close()
    waiting?.(this.#signal.reason as Error)
  }

  /** Lets go of the connection. */
  close(): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#waiting = undefined
    this.session.destroy()
    this.#socket.destroy()
  }

  /** Why a stream ended before it should have. */
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
    // The library ends a connection on which the peer breaks the rules, mostly without another word.
    if (error !== undefined || this.session.destroyed) {
      const words = error === undefined ? '' : `: ${error.message}`
      return failure<GrpcCode>('HTTP2_PROTOCOL', `${where} broke the rules of HTTP/2${words}`, {
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

/** Makes the connection; nothing is awaited, the first call goes out with the preface. */
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
  const words = debug === '' ? '' : `, "${debug}"`
  const message = `${where} shut the connection down instead of answering (GOAWAY ${errorCode}${words})`
  return failure<GrpcCode>('HTTP2_GOAWAY', message, { where, errorCode, lastStreamId, debug })
}
