// Collects the bytes that a TCP target sends, up to a limit, from one socket after the other (the second is the TLS
// socket after STARTTLS), and waits for more.
import type { Socket } from 'node:net'
import type { Failure } from '../contract/failure.ts'
import { LIMITS } from '../contract/versions.ts'
import { addChunk } from './chunks.ts'
import { connectionFailure } from './connect-errors.ts'
import { targetFailure } from './target-failure.ts'

/** Bytes received so far, and whether more may come. One reader waits at a time. */
export class Received {
  bytes = 0
  /** When the first and the newest byte came, by performance.now(). */
  firstAt: number | undefined
  lastAt: number | undefined
  /** Why no more bytes will come: the peer closed the connection, or it failed. */
  ended: 'closed' | Failure | undefined
  readonly #chunks: Buffer[] = []
  readonly #signal: AbortSignal
  readonly #where: string
  #socket: Socket | undefined
  #news = false
  #wake: (() => void) | undefined

  /** `where` names the peer in failures. Reads nothing before `attach`. */
  constructor(where: string, signal: AbortSignal) {
    this.#where = where
    this.#signal = signal
  }

  /** Reads from this socket from now on. */
  attach(socket: Socket): void {
    this.#socket = socket
    this.#signal.addEventListener('abort', this.#notify)
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onEnd)
    socket.on('error', this.#onError)
  }

  /** Stops reading and leaves the socket paused, for TLS to take it over. */
  detach(): void {
    const socket = this.#socket
    this.#socket = undefined
    socket?.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onEnd)
    socket?.off('error', this.#onError).pause()
  }

  close(): void {
    this.detach()
    this.#signal.removeEventListener('abort', this.#notify)
  }

  /**
   * Waits for news since the last wait; false after `timeoutMs` without any.
   * Rejects with the signal's reason, or TCP_DATA_TOO_LARGE.
   */
  async more(timeoutMs?: number): Promise<boolean> {
    if (!this.#news && !this.#signal.aborted) await this.#sleep(timeoutMs)
    this.#signal.throwIfAborted()
    this.throwIfTooLarge()
    const news = this.#news
    this.#news = false
    return news
  }

  /** Throws TCP_DATA_TOO_LARGE when the peer has sent more than the limit. */
  throwIfTooLarge(): void {
    if (this.bytes <= LIMITS.tcpReadBytesMax) return
    const message = `${this.#where} sent more than ${LIMITS.tcpReadBytesMax} bytes`
    throw targetFailure('TCP_DATA_TOO_LARGE', message, { bytesMax: LIMITS.tcpReadBytesMax })
  }

  /** Collects bytes for `ms`; ends sooner only when no more can come. */
  async gather(ms: number): Promise<void> {
    const until = performance.now() + ms
    let leftMs = ms
    while (this.ended === undefined && leftMs > 0) {
      await this.more(leftMs)
      leftMs = until - performance.now()
    }
  }

  /** All received bytes, up to the limit. */
  content(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks.splice(0, Infinity, Buffer.concat(this.#chunks))
    return (this.#chunks[0] as Buffer).subarray(0, LIMITS.tcpReadBytesMax)
  }

  #sleep(timeoutMs: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      const timer = timeoutMs === undefined ? undefined : setTimeout(resolve, timeoutMs)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  readonly #notify = () => {
    this.#wake?.()
  }

  readonly #onData = (chunk: Buffer) => {
    this.lastAt = performance.now()
    this.firstAt ??= this.lastAt
    this.bytes += chunk.length
    addChunk(this.#chunks, chunk)
    this.#news = true
    // Without a waiting reader, the limit has to be enforced here. Not as an end: `more` names the cause.
    if (this.bytes > LIMITS.tcpReadBytesMax) {
      const socket = this.#socket
      this.detach()
      socket?.destroy()
    }
    this.#notify()
  }

  readonly #onEnd = () => {
    this.#end('closed')
  }

  readonly #onError = (error: Error) => {
    this.#end(connectionFailure(error, this.#where))
  }

  #end(ended: 'closed' | Failure): void {
    if (this.ended !== undefined) return
    this.ended = ended
    this.#news = true
    this.#notify()
  }
}

/**
 * Bytes as a readable line: UTF-8 with control characters escaped; where it is not UTF-8,
 * all bytes above 7 bits as `\xNN`.
 */
export function readableBytes(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  const broken = text.includes('\ufffd')
  // oxlint-disable-next-line no-control-regex -- they are to be found
  const odd = broken ? /[\x00-\x1f\x7f-\xff\\]/g : /[\x00-\x1f\x7f\\]/g
  return (broken ? bytes.toString('latin1') : text).replaceAll(odd, escaped)
}

const NAMES: Record<string, string> = { '\r': '\\r', '\n': '\\n', '\t': '\\t', '\\': '\\\\' }

function escaped(character: string): string {
  return NAMES[character] ?? `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`
}
