// Message framing of a call: each message has a compression flag, its length and its bytes
// (grpc/doc/PROTOCOL-HTTP2.md, "Length-Prefixed-Message"). Bounded while it is read.
import { GRPC_LIMITS, type GrpcCode } from './definition.ts'
import { promisify } from 'node:util'
import { gunzip, gunzipSync, inflate, inflateSync } from 'node:zlib'
import { failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
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
  const frame = Buffer.allocUnsafe(HEAD_BYTES + message.length)
  frame[0] = 0
  frame.writeUInt32BE(message.length, 1)
  frame.set(message, HEAD_BYTES)
  return frame
}

/** Collects the messages of a call. Methods throw TargetFailure. */
export class MessageReader {
  #head: Buffer | undefined
  #headBytes = 0
  /** The rest of the message that is being read. */
  #parts: Buffer[] = []
  #missing = -1
  #compressed = false
  /** Received bytes. */
  bytes = 0

  /** Adds a chunk; returns the complete messages. */
  push(chunk: Buffer): PackedMessage[] {
    const whole: PackedMessage[] = []
    this.#account(chunk.length)
    let at = 0
    while (at < chunk.length || this.#missing === 0) {
      if (this.#missing === -1) at = this.#readHead(chunk, at)
      if (this.#missing === -1) break
      const part = chunk.subarray(at, at + this.#missing)
      at += part.length
      this.#missing -= part.length
      this.#parts.push(part)
      if (this.#missing > 0) break
      const bytes = this.#parts.length === 1 ? part : Buffer.concat(this.#parts)
      whole.push({ compressed: this.#compressed, bytes })
      this.#parts = []
      this.#missing = -1
    }
    return whole
  }

  /** Whether the received bytes are complete messages. */
  get isComplete(): boolean {
    return this.#missing === -1 && this.#headBytes === 0
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

  #readHead(chunk: Buffer, at: number): number {
    let head = chunk
    let from = at
    if (this.#headBytes > 0 || chunk.length - at < HEAD_BYTES) {
      this.#head ??= Buffer.alloc(HEAD_BYTES)
      const copied = chunk.copy(this.#head, this.#headBytes, at)
      this.#headBytes += copied
      if (this.#headBytes < HEAD_BYTES) return at + copied
      head = this.#head
      from = 0
      at += copied
      this.#headBytes = 0
    } else at += HEAD_BYTES
    this.#begin(head[from] as number, head.readUInt32BE(from + 1))
    return at
  }

  #begin(flag: number, length: number): void {
    if (flag > 1) {
      const message = `the answer is not valid gRPC: a message begins with the byte ${flag}`
      throw targetFailure<GrpcCode>('GRPC_MALFORMED', message)
    }
    refuseLarge(length)
    this.#compressed = flag === 1
    this.#missing = length
  }
}

function refuseLarge(bytes: number): void {
  const limitBytes = GRPC_LIMITS.grpcMessageBytesMax
  if (bytes <= limitBytes) return
  const message = `a message of the answer has ${bytes} bytes; at most ${limitBytes} are read`
  throw targetFailure<GrpcCode>('GRPC_MESSAGE_TOO_LARGE', message, { bytes, limitBytes })
}

/** Larger messages are decompressed asynchronously. */
const UNPACKED_INLINE_BYTES_MAX = 4096

/** Compressions announced for answers. */
export const ACCEPTED_ENCODINGS = 'identity,deflate,gzip'

/** The bytes of a message, decompressed by `grpc-encoding`. Rejects with TargetFailure. */
export function unpacked(
  { compressed, bytes }: PackedMessage,
  encoding: string,
): Buffer | Promise<Buffer> {
  if (!compressed) return bytes
  const codec = CODECS[encoding]
  if (codec === undefined) {
    const what = encoding === 'identity' ? 'no grpc-encoding names its compression' : encoding
    const message = `the answer is compressed in a way that was not asked for: ${what}`
    throw targetFailure<GrpcCode>('GRPC_UNDECODABLE', message, { encoding })
  }
  const options = { maxOutputLength: GRPC_LIMITS.grpcMessageBytesMax }
  if (bytes.length > UNPACKED_INLINE_BYTES_MAX) {
    return codec.later(bytes, options).catch((error: unknown) => refuse(error, encoding))
  }
  try {
    return codec.now(bytes, options)
  } catch (error) {
    return refuse(error, encoding)
  }
}

const CODECS: Readonly<
  Record<
    string,
    {
      now(bytes: Buffer, options: { maxOutputLength: number }): Buffer
      later(bytes: Buffer, options: { maxOutputLength: number }): Promise<Buffer>
    }
  >
> = {
  gzip: { now: gunzipSync, later: promisify(gunzip) },
  deflate: { now: inflateSync, later: promisify(inflate) },
}

function refuse(error: unknown, encoding: string): never {
  const limitBytes = GRPC_LIMITS.grpcMessageBytesMax
  if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
    const message = `a message of the answer has more than ${limitBytes} bytes, unpacked`
    throw targetFailure<GrpcCode>('GRPC_MESSAGE_TOO_LARGE', message, { limitBytes })
  }
  const message = `a message of the answer is not the ${encoding} that it claims to be`
  throw new TargetFailure(failure<GrpcCode>('GRPC_UNDECODABLE', message, { encoding }))
}
