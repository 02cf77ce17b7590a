// Client side of an open WebSocket: received messages, a ping, and the closing handshake.
import { isUtf8 } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { connectionFailure } from '../../network/connect-errors.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'
import { WEBSOCKET_LIMITS, type WebSocketCode } from './definition.ts'
import { broken, type Frame, FrameReader, joined, maskedFrame, OPCODE } from './frames.ts'

/** A whole message of the target. */
export interface Message {
  type: 'text' | 'binary'
  payload: Buffer
  /** By performance.now(). */
  receivedAt: number
}

/** How the target closed; without a code where its frame had none (RFC 6455, 7.1.5). */
export interface Closing {
  code?: number
  reason: string
}

/** One reader waits at a time. All waits reject with the signal's reason once it is aborted. */
export class WebSocketConnection {
  /** Received messages, including those already read. */
  messages = 0
  /** The close frame of the target. */
  closing: Closing | undefined
  readonly #socket: Socket
  readonly #where: string
  readonly #signal: AbortSignal
  readonly #reader = new FrameReader()
  readonly #unread: Message[] = []
  #parts: { opcode: number; payloads: Buffer[] } | undefined
  #error: TargetFailure | undefined
  #isEnded = false
  #awaitedPong: Buffer | undefined
  #pongAt = 0
  #wake: (() => void) | undefined

  /** Becomes the owner of a paused socket; `head` was received with the handshake. `where` names the target. */
  constructor(socket: Socket, head: Buffer, where: string, signal: AbortSignal) {
    this.#socket = socket
    this.#where = where
    this.#signal = signal
    signal.addEventListener('abort', this.#notify)
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onEnd)
    socket.on('error', this.#onError)
    this.#onData(head)
    socket.resume()
  }

  /** Sends a message of text, unless the target has closed. */
  send(text: string): void {
    if (!this.#isOver()) this.#write(OPCODE.text, Buffer.from(text))
  }

  /**
   * The next message. Rejects with WEBSOCKET_CLOSED, WEBSOCKET_PROTOCOL, WEBSOCKET_TOO_LARGE, RESOURCES_EXHAUSTED,
   * CONNECTION_….
   */
  async next(): Promise<Message> {
    await this.#until(() => this.#unread.length > 0)
    return this.#unread.shift() as Message
  }

  /** From now on messages are counted and dropped. */
  discardMessages(): void {
    this.#reader.discardsMessages = true
  }

  /** Sends a ping and waits for its answer; the time of the answer, by performance.now(). Rejects like `next`. */
  async ping(): Promise<number> {
    const payload = randomBytes(8)
    this.#awaitedPong = payload
    if (!this.#isOver()) this.#write(OPCODE.ping, payload)
    await this.#until(() => this.#awaitedPong === undefined)
    return this.#pongAt
  }

  /**
   * Closes with 1000 and waits a moment for the target's own close. Rejects with WEBSOCKET_PROTOCOL where the target
   * broke a rule meanwhile, and with the signal's reason.
   */
  async close(): Promise<void> {
    if (!this.#isOver()) {
      this.#write(OPCODE.close, Buffer.from([0x03, 0xe8]))
      await this.#sleep(WEBSOCKET_LIMITS.webSocketCloseMsMax, () => this.closing !== undefined)
    }
    // A connection that breaks while both sides close fails nothing.
    if (this.#error?.failure.code.startsWith('WEBSOCKET_') === true) throw this.#error
  }

  /** Closes the socket and releases what was read. */
  destroy(): void {
    this.#signal.removeEventListener('abort', this.#notify)
    this.#socket.off('data', this.#onData).destroy()
    this.#reader.release()
  }

  async #until(isThere: () => boolean): Promise<void> {
    await this.#sleep(undefined, isThere)
    if (isThere()) return
    if (this.#error !== undefined) throw this.#error
    throw this.#closed()
  }

  /** Waits for the condition, the end of the connection, or the timeout. */
  async #sleep(ms: number | undefined, isThere: () => boolean): Promise<void> {
    const untilMs = ms === undefined ? Infinity : performance.now() + ms
    // Timers may fire a little before their time.
    const timer = ms === undefined ? undefined : setTimeout(this.#notify, ms + 2)
    try {
      while (!isThere() && !this.#isOver() && performance.now() < untilMs) {
        this.#signal.throwIfAborted()
        await new Promise<void>((resolve) => (this.#wake = resolve))
      }
      this.#signal.throwIfAborted()
    } finally {
      clearTimeout(timer)
    }
  }

  #isOver(): boolean {
    return this.#error !== undefined || this.#isEnded || this.closing !== undefined
  }

  #closed(): TargetFailure {
    if (this.closing === undefined) {
      const message = `${this.#where} ended the connection without closing the WebSocket`
      return targetFailure('CONNECTION_CLOSED', message)
    }
    const { code, reason } = this.closing
    const why = reason === '' ? '' : `: ${reason}`
    const message = `${this.#where} closed the WebSocket with ${code ?? 'no code'}${why}`
    return targetFailure<WebSocketCode>('WEBSOCKET_CLOSED', message, { closeCode: code ?? null })
  }

  #write(opcode: number, payload: Buffer): void {
    if (this.#socket.writable) this.#socket.write(maskedFrame(opcode, payload))
  }

  readonly #notify = () => this.#wake?.()

  readonly #onData = (chunk: Buffer) => {
    if (this.#isOver()) return
    try {
      for (const frame of this.#reader.push(chunk)) {
        this.#onFrame(frame)
        // What follows a close frame is ignored (RFC 6455, 5.5.1).
        if (this.closing !== undefined) break
      }
    } catch (error) {
      this.#error = error as TargetFailure
      this.#socket.destroy()
    }
    this.#notify()
  }

  readonly #onEnd = () => {
    this.#isEnded = true
    this.#notify()
  }

  readonly #onError = (error: Error) => {
    this.#error ??= new TargetFailure(connectionFailure(error, this.#where))
    this.#notify()
  }

  #onFrame(frame: Frame): void {
    const { opcode, payload } = frame
    if (opcode === OPCODE.ping) this.#write(OPCODE.pong, payload)
    else if (opcode === OPCODE.pong) {
      if (this.#awaitedPong?.equals(payload) !== true) return
      this.#awaitedPong = undefined
      this.#pongAt = performance.now()
    } else if (opcode === OPCODE.close) {
      this.closing = closingOf(payload)
      this.#write(OPCODE.close, payload.subarray(0, 2))
    } else this.#onPart(frame)
  }

  #onPart({ isLast, opcode, payload }: Frame): void {
    if ((opcode === OPCODE.continuation) !== (this.#parts !== undefined)) {
      throw broken('began a message within another, or continued none')
    }
    this.#parts ??= { opcode, payloads: [] }
    this.#parts.payloads.push(payload)
    if (!isLast) return
    const whole = joined(this.#parts.payloads)
    const type = this.#parts.opcode === OPCODE.text ? 'text' : 'binary'
    this.#parts = undefined
    if (type === 'text' && !isUtf8(whole)) throw broken('sent a text that is not UTF-8')
    this.messages++
    if (this.#reader.discardsMessages) return
    this.#unread.push({ type, payload: whole, receivedAt: performance.now() })
  }
}

/** Codes that are reserved or undefined (7.4). */
function isAllowed(code: number): boolean {
  if (code >= 3000) return code <= 4999
  return code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code)
}

function closingOf(payload: Buffer): Closing {
  if (payload.length === 0) return { reason: '' }
  if (payload.length === 1) throw broken('sent a close frame of one byte')
  const code = payload.readUInt16BE(0)
  const reason = payload.subarray(2)
  if (!isAllowed(code)) throw broken(`closed with ${code}, which no frame may carry`)
  if (!isUtf8(reason)) throw broken('closed with a reason that is not UTF-8')
  return { code, reason: reason.toString() }
}
