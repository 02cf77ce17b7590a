// Message framing of a call: each message has a compression flag, its length and its bytes
// (grpc/doc/PROTOCOL-HTTP2.md, "Length-Prefixed-Message"). Bounded while it is read.
import { GRPC_LIMITS, type GrpcCode } from './definition.ts'
import { promisify } from 'node:util'
import { gunzip, inflate } from 'node:zlib'
import { LIMITS } from '../../contract/versions.ts'
import { addChunk } from '../../network/chunks.ts'
import { bodyBudget } from '../../network/http/body-budget.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'

const HEAD_BYTES = 5

/** A received message. */
export interface PackedMessage {
  compressed: boolean
  bytes: Buffer
}

/** One message, ready to be sent. */
export function framed(message: Uint8Array): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** Collects the messages of a call. Methods throw TargetFailure. */
export class MessageReader {
  readonly #head = Buffer.alloc(HEAD_BYTES)
  #headBytes = 0
  /** The rest of the message that is being read; undefined before its head is complete. */
  #missing: number | undefined
  #parts: Buffer[] = []
  /** Received bytes. */
  bytes = 0

  /** Adds a chunk; returns the complete messages. */
  push(chunk: Buffer): PackedMessage[] {
    const whole: PackedMessage[] = []
    this.#account(chunk.length)
    let at = 0
    while (at < chunk.length) {
      if (this.#missing === undefined) {
        this.#head[this.#headBytes++] = chunk[at++] as number
        if (this.#headBytes < HEAD_BYTES) continue
        this.#missing = this.#begin()
      }
      const part = chunk.subarray(at, at + this.#missing)
      at += part.length
      this.#missing -= part.length
      addChunk(this.#parts, part)
      if (this.#missing === 0) whole.push(this.#end())
    }
    return whole
  }

  /** Whether the received bytes are complete messages. */
  get isComplete(): boolean {
    return this.#headBytes === 0
  }

  /** Releases the reserved memory. */
  release(): void {
    bodyBudget.release(this.bytes)
    this.bytes = 0
    this.#parts = []
  }

  #account(bytes: number): void {
    if (!bodyBudget.reserve(bytes)) throw new TargetFailure(bodyBudget.exceeded())
    this.bytes += bytes
    const limitBytes = LIMITS.bodyBytesMax
    if (this.bytes <= limitBytes) return
    const message = `the answer has more than ${limitBytes} bytes`
    throw targetFailure<GrpcCode>('GRPC_STREAM_TOO_LARGE', message, { limitBytes })
  }

  /** Checks the head; the length of the message. */
  #begin(): number {
    const flag = this.#head[0] as number
    if (flag > 1) {
      const message = `the answer is not valid gRPC: a message begins with the byte ${flag}`
      throw targetFailure<GrpcCode>('GRPC_MALFORMED', message)
    }
    const bytes = this.#head.readUInt32BE(1)
    const limitBytes = GRPC_LIMITS.grpcMessageBytesMax
    if (bytes <= limitBytes) return bytes
    const message = `a message of the answer has ${bytes} bytes; at most ${limitBytes} are read`
    throw targetFailure<GrpcCode>('GRPC_MESSAGE_TOO_LARGE', message, { bytes, limitBytes })
  }

  #end(): PackedMessage {
    const [only] = this.#parts
    const bytes = this.#parts.length === 1 ? (only as Buffer) : Buffer.concat(this.#parts)
    this.#parts = []
    this.#missing = undefined
    this.#headBytes = 0
    return { compressed: this.#head[0] === 1, bytes }
  }
}

/** Compressions announced for answers. */
export const ACCEPTED_ENCODINGS = 'identity,deflate,gzip'

type Codec = (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>
const CODECS: Readonly<Record<string, Codec>> = {
  gzip: promisify(gunzip),
  deflate: promisify(inflate),
}

/** The bytes of a message, decompressed by `grpc-encoding`. Rejects with TargetFailure. */
export async function unpacked(
  { compressed, bytes }: PackedMessage,
  encoding: string,
): Promise<Buffer> {
  if (!compressed) return bytes
  const codec = CODECS[encoding]
  if (codec === undefined) {
    const what = encoding === 'identity' ? 'it has no grpc-encoding' : encoding
    const message = `the answer has a compression that was not offered: ${what}`
    throw targetFailure<GrpcCode>('GRPC_UNDECODABLE', message, { encoding })
  }
  const limitBytes = GRPC_LIMITS.grpcMessageBytesMax
  try {
    return await codec(bytes, { maxOutputLength: limitBytes })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      const message = `a message of the answer has more than ${limitBytes} bytes, unpacked`
      throw targetFailure<GrpcCode>('GRPC_MESSAGE_TOO_LARGE', message, { limitBytes })
    }
    const message = `a message of the answer is not valid ${encoding}`
    throw targetFailure<GrpcCode>('GRPC_UNDECODABLE', message, { encoding })
  }
}
