// The bytes of a file while they arrive: counted, hashed, and given up when the sender is too slow, sends
// too much or sends something else than it announced.
import { createHash } from 'node:crypto'
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import { paced, tooSlow } from './body.ts'
import { ApiError, tooLarge } from './errors.ts'

export interface Expected {
  bytesMax: number
  sha256: Buffer
  /** Labels for error messages: the file, and the source of its hash. */
  labels?: { thing: string; announcedBy: string }
  /** Checks up to `bytes` bytes of its beginning, or the whole of a shorter file; may throw. */
  head?: { bytes: number; check: (head: Uint8Array) => Promise<void> }
}

/** How fast a file has to come. */
export const PACE = { bytes: 64 * 1024, ms: 10_000 }

const ARTIFACT_LABELS = { thing: 'An artifact', announcedBy: 'Content-Digest announces' }

/**
 * The bytes as they arrive. The last of them are given on only when the whole is as announced. Throws
 * ApiError: 413 past `bytesMax`, 408 for a sender that is too slow, 400 when the body ends early or is
 * another one than was announced, and what the check of its beginning throws. `onCount` receives the count.
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
  for await (const chunk of paced(body, PACE)) {
    if (performance.now() > until) throw tooSlow(PROTOCOL_BOUNDS.artifactMsMax)
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
