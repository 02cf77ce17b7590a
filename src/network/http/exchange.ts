// One HTTP/1.1 request and its answer on an open connection. No agent and no reuse: the timings are those of a first
// visitor.
import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
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

/** The answer; filled in as it arrives, so that a failure preserves the part received so far. */
export interface Answer {
  response?: IncomingMessage
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
  isEnough(response: IncomingMessage): boolean
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
 * Sends the request and reads the answer into `answer`. Rejects with TargetFailure (HTTP_…, CONNECTION_…,
 * late TLS alerts, SETTINGS_INVALID for headers that cannot be sent), or the signal's reason. The socket is
 * destroyed in any case but that of `keepsUpgraded`.
 */
export function exchange(parts: ExchangeParts): Promise<void> {
  return new Promise((resolve, reject) => new Exchange(parts, resolve, reject).start())
}

class Exchange {
  readonly #parts: ExchangeParts
  readonly #resolve: () => void
  readonly #reject: (error: unknown) => void
  readonly #startedAt = performance.now()
  readonly #onAbort = () => this.#settle(this.#parts.signal.reason)
  readonly #onData = () => this.#firstByte()
  #sentAt = 0
  #firstByteAt = 0
  #settled = false
  #stopReading: (() => void) | undefined

  constructor(parts: ExchangeParts, resolve: () => void, reject: (error: unknown) => void) {
    this.#parts = parts
    this.#resolve = resolve
    this.#reject = reject
  }

  start(): void {
    const { socket, outgoing, progress, signal } = this.#parts
    if (signal.aborted) {
      this.#onAbort()
      return
    }
    signal.addEventListener('abort', this.#onAbort)
    progress.phase = 'send'
    let client: ClientRequest
    try {
      client = send(socket, outgoing)
    } catch (error) {
      this.#settle(unsendable(error as NodeJS.ErrnoException))
      return
    }
    client.on('response', (response) => this.#onResponse(response))
    client.on('error', (error) => this.#onError(error))
    client.on('upgrade', (response, _, head) => this.#onUpgrade(response, head))
    client.on('finish', () => {
      this.#sentAt = performance.now()
      if (progress.phase === 'send') progress.phase = 'firstByte'
    })
    // Interim answers (1xx) do not count: the time is that of the final one.
    client.on('information', () => {
      this.#firstByteAt = 0
      socket.once('data', this.#onData)
    })
    // The parser reports an answer only when the whole head is there.
    socket.once('data', this.#onData)
  }

  #firstByte(): void {
    if (this.#firstByteAt === 0) this.#firstByteAt = performance.now()
  }

  #onResponse(response: IncomingMessage): void {
    if (this.#settled) return
    const { answer, options, outgoing, progress } = this.#parts
    this.#firstByte()
    // An answer may come before the whole request went out.
    if (this.#sentAt === 0) this.#sentAt = this.#firstByteAt
    answer.response = response
    answer.firstByteMs = Math.max(0, this.#firstByteAt - this.#sentAt)
    if (outgoing.body !== undefined) answer.sendMs = this.#sentAt - this.#startedAt
    progress.phase = 'download'
    if (options.isEnough(response)) {
      this.#settle()
      return
    }
    this.#stopReading = readBody(response, answer.body, options.bufferBytes, (failed) =>
      this.#settle(failed === undefined ? undefined : new TargetFailure(failed)),
    )
  }

  /** A switch of protocols is an answer if the user's headers requested it, else a failure. */
  #onUpgrade(response: IncomingMessage, head: Buffer): void {
    if (this.#settled) return
    const { answer, options, outgoing } = this.#parts
    if (outgoing.headers.some((name, at) => at % 2 === 0 && /^upgrade$/i.test(name))) {
      this.#firstByte()
      answer.response = response
      answer.firstByteMs = Math.max(0, this.#firstByteAt - (this.#sentAt || this.#firstByteAt))
      if (options.keepsUpgraded === true) answer.upgradedHead = head
      this.#settle()
    } else {
      const message = `${options.where} switched protocols unasked`
      this.#settle(new TargetFailure(failure('HTTP_MALFORMED', message, { where: options.where })))
    }
  }

  #onError(error: NodeJS.ErrnoException): void {
    const { answer, options } = this.#parts
    // Bytes after a complete answer are ignored.
    if (answer.response?.complete === true && isParserError(error)) return
    if (!this.#settled)
      this.#settle(new TargetFailure(exchangeFailure(error, options.where, answer)))
  }

  #settle(error?: unknown): void {
    if (this.#settled) return
    this.#settled = true
    const { answer, signal, socket } = this.#parts
    signal.removeEventListener('abort', this.#onAbort)
    if (answer.response !== undefined) answer.downloadMs = performance.now() - this.#firstByteAt
    this.#stopReading?.()
    if (answer.upgradedHead === undefined) socket.destroy()
    else socket.pause()
    if (error === undefined) this.#resolve()
    else this.#reject(error)
  }
}

function send(socket: Socket, { method, path, headers, body }: Outgoing): ClientRequest {
  const client = httpRequest({
    createConnection: () => socket,
    method,
    path,
    headers,
    setHost: false,
    maxHeaderSize: LIMITS.headerBytesMax,
    insecureHTTPParser: false,
  })
  client.end(body)
  return client
}

function isParserError(error: NodeJS.ErrnoException): boolean {
  return error.code?.startsWith('HPE_') === true
}

function exchangeFailure(error: NodeJS.ErrnoException, where: string, answer: Answer): Failure {
  const reason = error.code ?? ''
  if (reason === 'HPE_HEADER_OVERFLOW') {
    const limitBytes = LIMITS.headerBytesMax
    return failure('HTTP_HEADERS_TOO_LARGE', `the header section exceeds ${limitBytes} bytes`, {
      limitBytes,
    })
  }
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

function unsendable(error: NodeJS.ErrnoException): unknown {
  if (error instanceof TypeError && error.code?.startsWith('ERR_') === true) {
    // The message of a bad header value does not show the value.
    return new TargetFailure(
      failure('SETTINGS_INVALID', `the request cannot be sent: ${error.message}`),
    )
  }
  return error
}
