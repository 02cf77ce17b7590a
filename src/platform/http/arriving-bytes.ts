// The bytes of a file while they arrive: counted, hashed, and given up when the sender is too slow, sends
// too much or sends something else than it announced.
import { createHash } from 'node:crypto'
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import { ApiError, tooLarge, UNREAD } from './errors.ts'

/** Expected properties of a file. */
export interface Expected {
  bytesMax: number
  sha256: Buffer
  /** Labels for error messages: the file, and the source of its hash. */
  labels?: { thing: string; announcedBy: string }
  /** Checks up to `bytes` bytes of its beginning, or the whole of a shorter file; may throw. */
  head?: { bytes: number; check: (head: Uint8Array) => Promise<void> }
}

const ARTIFACT_LABELS = { thing: 'An artifact', announcedBy: 'Content-Digest announces' }

/** A sender has to bring this much… */
const PACE_BYTES = 64 * 1024
/** …in this time. */
export const PACE_MS = 10_000

function tooSlow(must: string): ApiError {
  return new ApiError(408, `The body must ${must}`, UNREAD)
}

/**
 * The bytes as they arrive. The last of them are given on only when the whole is as announced. Throws
 * ApiError: 413 past `bytesMax`, 408 for a sender that is too slow, 400 when the body ends early or is
 * another one than was announced, and what looking at
 * its beginning throws. `onCount` receives the count.
 */
export async function* arrivingBytes(
  body: ReadableStream<Uint8Array> | null,
  { bytesMax, sha256, labels = ARTIFACT_LABELS, head }: Expected,
  onCount: (bytes: number) => void = () => {},
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let bytes = 0
  let pending: Uint8Array | undefined
  const headCheck = head && createHeadCheck(head)
  const until = performance.now() + PROTOCOL_BOUNDS.artifactMsMax
  for await (const chunk of paced(body)) {
    if (performance.now() > until)
      throw tooSlow(`arrive within ${PROTOCOL_BOUNDS.artifactMsMax} ms`)
    bytes += chunk.byteLength
    if (bytes > bytesMax) throw tooLarge(bytesMax, labels.thing)
    hash.update(chunk)
    await headCheck?.take(chunk)
    if (pending !== undefined) {
      yield pending
      giveBack(pending)
    }
    pending = chunk
  }
  if (!hash.digest().equals(sha256)) {
    throw new ApiError(400, `The body is not the one that ${labels.announcedBy}`)
  }
  await headCheck?.end()
  onCount(bytes)
  if (pending !== undefined) yield pending
}

/** Copies the beginning until it is long enough, checks it once, and releases it. */
function createHeadCheck({ bytes, check }: NonNullable<Expected['head']>) {
  let pieces: Uint8Array[] | undefined = []
  let wanted = bytes
  const end = async () => {
    if (pieces === undefined) return
    const all = Buffer.concat(pieces)
    pieces = undefined
    await check(all)
  }
  const take = async (chunk: Uint8Array) => {
    if (pieces === undefined) return
    const piece = new Uint8Array(chunk.subarray(0, wanted))
    pieces.push(piece)
    wanted -= piece.byteLength
    if (wanted === 0) await end()
  }
  return { take, end }
}

/**
 * Frees the memory of a piece that is done with. Left to the collector, pieces of one file pile up to the
 * 64 MiB at which it begins to look at memory outside its heap.
 */
function giveBack({ buffer, byteLength }: Uint8Array): void {
  // Only memory that the piece does not share: small pieces share a pool.
  const isOwn = buffer instanceof ArrayBuffer && byteLength === buffer.byteLength
  if (isOwn && byteLength > 0) buffer.transfer(0)
}

/** Reads a body; the time of the consumer does not count as the sender's. */
async function* paced(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  if (body === null) return
  const reader = body.getReader()
  let ended = false
  let leftMs = PACE_MS
  let bytes = 0
  try {
    for (;;) {
      const begin = performance.now()
      const { done, value } = await inTime(reader, leftMs)
      if (done) {
        ended = true
        return
      }
      leftMs -= performance.now() - begin
      bytes += value.byteLength
      if (bytes >= PACE_BYTES) {
        bytes = 0
        leftMs = PACE_MS
      }
      yield value
    }
  } finally {
    // The rest of the body ends with the connection; waiting for it is not needed.
    if (!ended) reader.cancel().catch(() => {})
  }
}

async function inTime(reader: ReadableStreamDefaultReader<Uint8Array>, withinMs: number) {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    const slow = () => reject(tooSlow(`bring ${PACE_BYTES} bytes in ${PACE_MS} ms`))
    timer = setTimeout(slow, Math.max(0, withinMs))
  })
  try {
    return await Promise.race([reader.read(), late])
  } catch (error) {
    throw error instanceof ApiError ? error : new ApiError(400, 'The body ended early', UNREAD)
  } finally {
    clearTimeout(timer)
  }
}
