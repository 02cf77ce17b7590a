// Frames of RFC 6455, section 5: read from a stream of bytes in linear time, and written masked.
import { randomBytes } from 'node:crypto'
import { bodyBudget } from '../../network/http/body-budget.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'
import { WEBSOCKET_LIMITS, type WebSocketCode } from './definition.ts'

export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

/** One frame of the target. */
export interface Frame {
  isLast: boolean
  opcode: number
  payload: Buffer
}

/** The longest head of a frame that is not masked: two bytes and eight of length. */
const HEAD_BYTES_MAX = 10
const CONTROL_BYTES_MAX = 125
const KNOWN: ReadonlySet<number> = new Set(Object.values(OPCODE))

/**
 * Splits a stream into frames in linear time, for any chunk sizes. Memory of payloads is reserved as they arrive.
 */
export class FrameReader {
  /** Payloads of messages are dropped, and count against no limit. */
  discardsMessages = false
  readonly #head = Buffer.alloc(HEAD_BYTES_MAX)
  #headBytes = 0
  #missingBytes: number | undefined
  #parts: Buffer[] = []
  #bytes = 0
  #frames = 0
  #reservedBytes = 0

  /** Releases the reserved memory. */
  release(): void {
    bodyBudget.release(this.#reservedBytes)
    this.#reservedBytes = 0
    this.#parts = []
  }

  /**
   * Yields each frame as soon as it is complete; throws TargetFailure WEBSOCKET_PROTOCOL, WEBSOCKET_TOO_LARGE or
   * RESOURCES_EXHAUSTED.
   */
  *push(chunk: Buffer): Generator<Frame> {
    let at = 0
    while (at < chunk.length) {
      if (this.#missingBytes === undefined) {
        this.#head[this.#headBytes++] = chunk[at++] as number
        if (this.#headBytes < this.#headLength()) continue
        this.#missingBytes = this.#begin()
      }
      const part = chunk.subarray(at, at + this.#missingBytes)
      this.#missingBytes -= part.length
      at += part.length
      this.#store(part)
      if (this.#missingBytes === 0) yield this.#end()
    }
  }

  /** Bytes of the head, as far as they can be known. */
  #headLength(): number {
    if (this.#headBytes < 2) return 2
    const length = (this.#head[1] as number) & 0x7f
    return length === 127 ? 10 : length === 126 ? 4 : 2
  }

  /** Checks the head; the length of the payload. */
  #begin(): number {
    const [first, second] = this.#head as unknown as [number, number]
    const opcode = first & 0x0f
    if ((first & 0x70) !== 0) throw broken('set a reserved bit without an extension')
    if (!KNOWN.has(opcode)) throw broken(`sent a frame of the unknown type ${opcode}`)
    if ((second & 0x80) !== 0) throw broken('masked a frame, which only clients do')
    const length = this.#length(second & 0x7f)
    if (opcode >= OPCODE.close && (length > CONTROL_BYTES_MAX || first < 0x80)) {
      throw broken('sent a control frame that is split or longer than 125 bytes')
    }
    if (!this.#isDiscarded) this.#account(length)
    return length
  }

  #length(short: number): number {
    if (short < 126) return short
    const length =
      short === 126 ? this.#head.readUInt16BE(2) : Number(this.#head.readBigUInt64BE(2))
    if (length < (short === 126 ? 126 : 65_536)) {
      throw broken('gave the length of a frame in more bytes than it needs')
    }
    return length
  }

  #account(length: number): void {
    this.#bytes += length
    this.#frames++
    const { webSocketBytesMax: bytesMax, webSocketFramesMax: framesMax } = WEBSOCKET_LIMITS
    if (this.#bytes <= bytesMax && this.#frames <= framesMax) return
    const message = `the target sent more than ${bytesMax} bytes or ${framesMax} frames`
    throw targetFailure<WebSocketCode>('WEBSOCKET_TOO_LARGE', message, { bytesMax, framesMax })
  }

  get #isDiscarded(): boolean {
    return this.discardsMessages && ((this.#head[0] as number) & 0x0f) < OPCODE.close
  }

  #store(part: Buffer): void {
    if (part.length === 0 || this.#isDiscarded) return
    if (!bodyBudget.reserve(part.length)) throw new TargetFailure(bodyBudget.exceeded())
    this.#reservedBytes += part.length
    this.#parts.push(part)
  }

  #end(): Frame {
    const [first] = this.#head as unknown as [number]
    const payload = joined(this.#parts)
    this.#parts = []
    this.#missingBytes = undefined
    this.#headBytes = 0
    return { isLast: first >= 0x80, opcode: first & 0x0f, payload }
  }
}

/** The parts as one buffer, without a copy where there is only one. */
export function joined(parts: readonly Buffer[]): Buffer {
  return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
}

/** A whole frame as a client sends it, masked by fresh random bytes (5.3). */
export function maskedFrame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload
  const lengthBytes = length < 126 ? 0 : length < 65_536 ? 2 : 8
  const frame = Buffer.alloc(6 + lengthBytes + length)
  frame[0] = 0x80 | opcode
  frame[1] = 0x80 | (lengthBytes === 0 ? length : lengthBytes === 2 ? 126 : 127)
  if (lengthBytes === 2) frame.writeUInt16BE(length, 2)
  if (lengthBytes === 8) frame.writeBigUInt64BE(BigInt(length), 2)
  const mask = randomBytes(4)
  mask.copy(frame, 2 + lengthBytes)
  const start = 6 + lengthBytes
  for (let at = 0; at < length; at++) {
    frame[start + at] = (payload[at] as number) ^ (mask[at & 3] as number)
  }
  return frame
}

/** Failure of a protocol violation by the target. */
export function broken(what: string) {
  return targetFailure<WebSocketCode>('WEBSOCKET_PROTOCOL', `the target ${what}`)
}
