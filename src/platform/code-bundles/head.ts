// Whether what is brought as a code bundle is a tar.gz at all, seen by how it begins; whether all of it is in
// order shows when an agent unpacks it.
import { constants, createGunzip } from 'node:zlib'
import { UNREAD } from '../http/arriving-bytes.ts'
import { ApiError } from '../http/errors.ts'

/** So much of the beginning is looked at: room for what a gzip header may carry. */
const HEAD_BYTES = 64 * 1024
/** A block of a tar, and where its checksum stands in it (POSIX.1-1988, ustar). */
const BLOCK_BYTES = 512
const CHECKSUM = { from: 148, until: 156 } as const

/** How the beginning of a bundle is looked at while it arrives. */
export const BUNDLE_HEAD = { bytes: HEAD_BYTES, check: checkBundleHead } as const

/** Throws ApiError 400 for the beginning of something that is no tar.gz with something in it. */
export async function checkBundleHead(head: Uint8Array): Promise<void> {
  if (head.byteLength === 0) throw refused('it is empty')
  if (head[0] !== 0x1f || head[1] !== 0x8b) throw refused('it does not begin as gzip does')
  const block = await firstBlock(head)
  if (block === undefined) throw refused('what is packed by gzip in it is no tar')
  if (block.every((byte) => byte === 0)) throw refused('there is nothing in it')
  if (!isTarHeader(block)) throw refused('what is packed by gzip in it is no tar')
}

function refused(why: string): ApiError {
  return new ApiError(400, `A code bundle must be the tar.gz of a project; ${why}`, UNREAD)
}

/** The first block that `head` unpacks to; undefined where it does not get that far. */
async function firstBlock(head: Uint8Array): Promise<Buffer | undefined> {
  // It may end anywhere. What is not read is not unpacked.
  const unzip = createGunzip({ finishFlush: constants.Z_SYNC_FLUSH, chunkSize: BLOCK_BYTES })
  unzip.end(head)
  let block = Buffer.alloc(0)
  try {
    for await (const piece of unzip) {
      block = Buffer.concat([block, piece as Buffer])
      if (block.byteLength >= BLOCK_BYTES) return block.subarray(0, BLOCK_BYTES)
    }
  } catch {
    // No gzip, whatever its first bytes say.
  }
  return undefined
}

/** Whether the checksum of a header is the sum of its bytes, those of the checksum taken for spaces. */
function isTarHeader(block: Uint8Array): boolean {
  const { from, until } = CHECKSUM
  const sum = block.reduce((all, byte, at) => all + (at >= from && at < until ? 0x20 : byte), 0)
  const said = Buffer.from(block.subarray(from, until)).toString('latin1')
  const digits = /^[\0 ]*([0-7]+)[\0 ]*$/.exec(said)?.[1]
  return digits !== undefined && Number.parseInt(digits, 8) === sum
}
