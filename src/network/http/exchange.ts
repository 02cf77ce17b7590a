// One HTTP request and its answer on an open connection, over HTTP/1.1. No agent and no reuse: the timings are those of a
// first visitor.
import {
  request as httpRequest,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import { connectionFailure } from '../connect-errors.ts'
import type { Progress } from '../dial.ts'
import { readBody, type Body } from './body.ts'
import { TargetFailure } from '../target-failure.ts'

export interface Outgoing {
  method: string
  /** Origin form, or absolute form to a proxy. */
  path: string
  /** Names and values in turn, Host among them. */
  headers: readonly string[]
  body: Buffer | undefined
}

/** The head of an answer. */
export interface ResponseHead {
  statusCode?: number | undefined
  /** Absent from HTTP/2. */
  statusMessage?: string | undefined
  httpVersion: string
  headers: IncomingHttpHeaders
  /** Names and values in turn, as they came: `headers` has the first of some names alone. */
  rawHeaders: readonly string[]
  /** Of HTTP/1.1, complete at the end of the body. */
  rawTrailers?: readonly string[]
}

/** The answer; filled in as it arrives, so that a failure preserves the part received so far. */
export interface Answer {
  response?: ResponseHead
  /** Raw headers of interim answers (1xx), only of HTTP/1.1. */
  interim?: string[]
  body: Body
  /** Bytes after the head of a switch of protocols; only with `keepsUpgraded`. */
  upgradedHead?: Buffer
  /** The body's text as changed by a tear-down script. */
  changedText?: string
  /** Time to send the request; only with a body. Milliseconds. */
  sendMs?: number
  /** From the request's last byte sent to the first byte of the answer. Milliseconds. */
  firstByteMs?: number
  /** From the first byte of the answer to its last. Milliseconds. */
  downloadMs?: number
}

export interface ExchangeOptions {
  /** The peer, for messages. */
  where: string
  /** Bytes of the body to buffer. */
  bufferBytes: number
  /** Whether the head alone is needed. */
  isEnough(response: ResponseHead): boolean
  /** Keeps the socket open, and paused, when the target switched protocols. */
  keepsUpgraded?: boolean
}

export interface ExchangeParts {
  socket: Socket
  outgoing: Outgoing
  answer: Answer
  options: ExchangeOptions
  progress: Progress
  signal: AbortSignal
}

/**
 * Sends the request over HTTP/1.1 and reads the answer into `answer`. Rejects with TargetFailure (HTTP_…,
 * CONNECTION_…, late TLS alerts, SETTINGS_INVALID for headers that cannot be sent), or the signal's reason. The
 * socket is destroyed in any case but that of `keepsUpgraded`.
 */
export function exchange(parts: ExchangeParts): Promise<void> {
  return new Promise((resolve, reject) => new Http1Exchange(parts, resolve, reject).start())
}

/** What exchanges of all versions have in common: times, phases, the reading of the body, one end. */
export abstract class Exchange {
  protected readonly parts: ExchangeParts
  protected settled = false
  /** When the last byte of the request went out, and the first one of the answer came; 0 before. */
  protected sentAt = 0
  protected firstByteAt = 0
  readonly #resolve: () => void
  readonly #reject: (error: unknown) => void
  readonly #startedAt = performance.now()
  readonly #onAbort = () => this.settle(this.parts.signal.reason)
  #stopReading: (() => void) | undefined

  constructor(parts: ExchangeParts, resolve: () => void, reject: (error: unknown) => void) {
    this.parts = parts
    this.#resolve = resolve
    this.#reject = reject
  }

  /** Sends the request. Throws Node's TypeError for headers that cannot be sent. */
  protected abstract send(): void

  /** Ends the connection. */
  protected abstract close(): void

  start(): void {
    const { progress, signal } = this.parts
    if (signal.aborted) {
      this.#onAbort()
      return
    }
    signal.addEventListener('abort', this.#onAbort)
    progress.phase = 'send'
    try {
      this.send()
    } catch (error) {
      this.settle(unsendable(error as NodeJS.ErrnoException))
    }
  }

  protected sent(): void {
    const { progress } = this.parts
    this.sentAt = performance.now()
    if (progress.phase === 'send') progress.phase = 'firstByte'
  }

  protected firstByte(): void {
    if (this.firstByteAt === 0) this.firstByteAt = performance.now()
  }

  /** Takes the head of the answer and begins to read its body. */
  protected answered(response: ResponseHead, stream: Readable): void {
    const { answer, options, outgoing, progress } = this.parts
    this.firstByte()
    // An answer may come before the whole request went out.
    if (this.sentAt === 0) this.sentAt = this.firstByteAt
    answer.response = response
    answer.firstByteMs = Math.max(0, this.firstByteAt - this.sentAt)
    if (outgoing.body !== undefined) answer.sendMs = this.sentAt - this.#startedAt
    progress.phase = 'download'
    if (options.isEnough(response)) {
      this.settle()
      return
    }
    const encoding = response.headers['content-encoding']
    this.#stopReading = readBody(stream, encoding, answer.body, options.bufferBytes, (failed) =>
      this.bodyEnded(failed),
    )
  }

  protected bodyEnded(failed?: Failure): void {
    if (failed === undefined) this.settle()
    else this.fail(failed)
  }

  protected fail(failed: Failure): void {
    this.settle(new TargetFailure(failed))
  }

  protected settle(error?: unknown): void {
    if (this.settled) return
    this.settled = true
    const { answer, signal } = this.parts
    signal.removeEventListener('abort', this.#onAbort)
    if (answer.response !== undefined) answer.downloadMs = performance.now() - this.firstByteAt
    this.#stopReading?.()
    this.close()
    if (error === undefined) this.#resolve()
    else this.#reject(error)
  }
}

/** An interim answer without headers: its first and its empty line. */
const INTERIM_CHARS = 'HTTP/1.1 100 Continue\r\n\r\n'.length

class Http1Exchange extends Exchange {
  readonly #onData = () => this.firstByte()
  #interimChars = 0
  #response: IncomingMessage | undefined

  protected send(): void {
    const { socket, outgoing } = this.parts
    const client = request(socket, outgoing)
    client.on('response', (response) => this.#onResponse(response))
    client.on('error', (error) => this.#onError(error))
    client.on('upgrade', (response, _, head) => this.#onUpgrade(response, head))
    client.on('finish', () => this.sent())
    // Interim answers (1xx) do not count: the time is that of the final one.
    client.on('information', ({ rawHeaders }) => {
      this.#interim(rawHeaders)
      this.firstByteAt = 0
      socket.off('data', this.#onData).once('data', this.#onData)
    })
    // The parser reports an answer only when the whole head is there.
    socket.once('data', this.#onData)
  }

  protected close(): void {
    const { answer, socket } = this.parts
    if (answer.upgradedHead === undefined) socket.destroy()
    else socket.pause()
  }

  /** Keeps the headers of interim answers, which together may have the size of one head. */
  #interim(texts: readonly string[]): void {
    this.#interimChars += INTERIM_CHARS
    for (const { length } of texts) this.#interimChars += length
    if (this.#interimChars > LIMITS.headerBytesMax) this.fail(headersTooLarge())
    else (this.parts.answer.interim ??= []).push(...texts)
  }

  #onResponse(response: IncomingMessage): void {
    if (this.settled) return
    this.#response = response
    this.answered(response, response)
    if (!this.settled) response.on('error', () => this.fail(incomplete()))
  }

  /** A switch of protocols is an answer if the user's headers requested it, else a failure. */
  #onUpgrade(response: IncomingMessage, head: Buffer): void {
    if (this.settled) return
    const { answer, options, outgoing } = this.parts
    if (outgoing.headers.some((name, at) => at % 2 === 0 && /^upgrade$/i.test(name))) {
      this.firstByte()
      answer.response = response
      answer.firstByteMs = Math.max(0, this.firstByteAt - (this.sentAt || this.firstByteAt))
      if (options.keepsUpgraded === true) answer.upgradedHead = head
      this.settle()
    } else {
      const message = `${options.where} switched protocols without being asked`
      this.fail(failure('HTTP_MALFORMED', message, { where: options.where }))
    }
  }

  #onError(error: NodeJS.ErrnoException): void {
    const { answer, options } = this.parts
    // Bytes after a complete answer are ignored.
    if (this.#response?.complete === true && isParserError(error)) return
    if (!this.settled) this.fail(exchangeFailure(error, options.where, answer))
  }
}

function request(socket: Socket, { method, path, headers, body }: Outgoing): ClientRequest {
  const client = httpRequest({
    createConnection: () => socket,
    method,
    path,
    headers,
    setHost: false,
    maxHeaderSize: LIMITS.headerBytesMax,
    insecureHTTPParser: false,
  })
  // Their bytes are limited, and Node drops those after the 1,000th without an error.
  client.maxHeadersCount = 0
  client.end(body)
  return client
}

function isParserError(error: NodeJS.ErrnoException): boolean {
  return error.code?.startsWith('HPE_') === true
}

function exchangeFailure(error: NodeJS.ErrnoException, where: string, answer: Answer): Failure {
  const reason = error.code ?? ''
  if (reason === 'HPE_HEADER_OVERFLOW') return headersTooLarge()
  if (isParserError(error)) {
    return failure('HTTP_MALFORMED', `the answer of ${where} is not valid HTTP: ${error.message}`, {
      reason,
      where,
    })
  }
  const failed = connectionFailure(error, where)
  if (failed.code !== 'CONNECTION_CLOSED' || answer.response === undefined) return failed
  return failure('HTTP_BODY_INCOMPLETE', `${where} closed the connection within the body`, {
    where,
  })
}

/** HTTP_HEADERS_TOO_LARGE. */
export function headersTooLarge(): Failure {
  const limitBytes = LIMITS.headerBytesMax
  return failure('HTTP_HEADERS_TOO_LARGE', `the header section exceeds ${limitBytes} bytes`, {
    limitBytes,
  })
}

function incomplete(): Failure {
  return failure('HTTP_BODY_INCOMPLETE', 'the connection ended before the body was complete')
}

function unsendable(error: NodeJS.ErrnoException): unknown {
  if (error instanceof TypeError && error.code?.startsWith('ERR_') === true) {
    // The message of a bad header value does not show the value.
    return new TargetFailure(
      failure('SETTINGS_INVALID', `the request cannot be sent: ${error.message}`),
    )
  }
  return error
}
