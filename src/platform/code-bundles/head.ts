// Check of an uploaded code bundle: whether its beginning is that of a tar.gz. The agent checks the rest when it
// unpacks the bundle.
import { constants, createGunzip } from 'node:zlib'
import { ApiError, UNREAD } from '../http/errors.ts'

/** Number of checked bytes at the beginning: enough for a gzip header with extra fields. */
const HEAD_BYTES = 64 * 1024
/** Size of a tar block, and the offset of its checksum (POSIX.1-1988, ustar). */
const BLOCK_BYTES = 512
const CHECKSUM = { from: 148, until: 156 } as const

/** Check of the beginning of an arriving bundle. */
export const BUNDLE_HEAD = { bytes: HEAD_BYTES, check: checkBundleHead } as const

/** Throws ApiError 400 unless the bytes begin a non-empty tar.gz. */
async function checkBundleHead(head: Uint8Array): Promise<void> {
  if (head.byteLength === 0) throw refused('it is empty')
  if (head[0] !== 0x1f || head[1] !== 0x8b) throw refused('it is not gzip')
  const block = await firstBlock(head)
  if (block === undefined) throw refused('its content is not a tar archive')
  if (block.every((byte) => byte === 0)) throw refused('the archive is empty')
  if (!isTarHeader(block)) throw refused('its content is not a tar archive')
}

function refused(why: string): ApiError {
  return new ApiError(400, `A code bundle must be the tar.gz of a project; ${why}`, UNREAD)
}

/** The first block that `head` unpacks to; undefined where it does not get that far. */
async function firstBlock(head: Uint8Array): Promise<Buffer | undefined> {
  // It may end anywhere. Bytes that are not read are not decompressed.
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

/** Whether the checksum of a header is the sum of its bytes, with the checksum's own bytes as spaces. */
function isTarHeader(block: Uint8Array): boolean {
  const { from, until } = CHECKSUM
  const sum = block.reduce((all, byte, at) => all + (at >= from && at < until ? 0x20 : byte), 0)
  const said = Buffer.from(block.subarray(from, until)).toString('latin1')
  const digits = /^[\0 ]*([0-7]+)[\0 ]*$/.exec(said)?.[1]
  return digits !== undefined && Number.parseInt(digits, 8) === sum
}
