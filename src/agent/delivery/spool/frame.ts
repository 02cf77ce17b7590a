// How results lie in a file of the spool: frames one after another, each encrypted on its own, so that damage costs
// no more than the frames that it hits.
//   frame   'VDF1', bytes of the payload u32, number in the file u32, results u32, time f64, 3 unused bytes, flags u8,
//           salt 16 bytes, 4 unused bytes; then the payload: encrypted lines of JSON, deflated where flag 1 says so.
//           Earlier versions have checksums where bytes are unused; AES-GCM authenticates the head as well.
import { randomBytes } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { SALT_BYTES, TAG_BYTES, type AgentCipher, type FileCipher } from './agent-cipher.ts'

/** Results that came close together. */
export interface FrameDraft {
  /** When the first came. Milliseconds since the Unix epoch. */
  at: number
  /** One line of JSON each. */
  entries: readonly string[]
}

const MAGIC = Buffer.from('VDF1')
const FLAGS_AT = 27
const SALT_AT = 28
/** The head but for its last four bytes is authenticated. */
const ABOUT_BYTES = SALT_AT + SALT_BYTES
const HEAD_BYTES = ABOUT_BYTES + 4
const DEFLATED = 1
/** Smaller ones gain nothing. */
const DEFLATE_BYTES_MIN = 512
/** Far more than is ever written; a length above it is damage. */
const PAYLOAD_BYTES_MAX = 8 * 1024 * 1024

/** The content of one file. */
export function encodeFrames(drafts: readonly FrameDraft[], cipher: AgentCipher): Buffer {
  const salt = randomBytes(SALT_BYTES)
  const ofFile = cipher.ofFile(salt)
  return Buffer.concat(drafts.flatMap((draft, number) => encodeFrame(draft, number, salt, ofFile)))
}

function encodeFrame(
  { at, entries }: FrameDraft,
  number: number,
  salt: Buffer,
  cipher: FileCipher,
): [Buffer, Buffer] {
  const text = Buffer.from(entries.join('\n'))
  const isDeflated = text.length >= DEFLATE_BYTES_MIN
  const plain = isDeflated ? deflateRawSync(text, { level: 1 }) : text
  const head = Buffer.alloc(HEAD_BYTES)
  MAGIC.copy(head)
  head.writeUInt32BE(plain.length + TAG_BYTES, 4)
  head.writeUInt32BE(number, 8)
  head.writeUInt32BE(entries.length, 12)
  head.writeDoubleBE(at, 16)
  head.writeUInt8(isDeflated ? DEFLATED : 0, FLAGS_AT)
  salt.copy(head, SALT_AT)
  return [head, cipher.encrypt(plain, number, head.subarray(0, ABOUT_BYTES))]
}

/** The entries of all frames that are whole, in their order; what lies between them is skipped. */
export function decodeFrames(bytes: Buffer, cipher: AgentCipher): string[] {
  const entries: string[] = []
  for (let at = bytes.indexOf(MAGIC); at !== -1; at = bytes.indexOf(MAGIC, at)) {
    const frame = decodeFrame(bytes.subarray(at), cipher)
    if (frame !== undefined) entries.push(...frame.entries)
    at += frame?.bytes ?? MAGIC.length
  }
  return entries
}

function decodeFrame(
  bytes: Buffer,
  cipher: AgentCipher,
): { entries: string[]; bytes: number } | undefined {
  if (bytes.length < HEAD_BYTES) return undefined
  const end = HEAD_BYTES + bytes.readUInt32BE(4)
  if (end > bytes.length || end > PAYLOAD_BYTES_MAX) return undefined
  const ofFile = cipher.ofFile(bytes.subarray(SALT_AT, ABOUT_BYTES))
  const encrypted = bytes.subarray(HEAD_BYTES, end)
  const plain = ofFile.decrypt(encrypted, bytes.readUInt32BE(8), bytes.subarray(0, ABOUT_BYTES))
  if (plain === undefined) return undefined
  const isDeflated = (bytes.readUInt8(FLAGS_AT) & DEFLATED) !== 0
  const text = isDeflated ? inflateRawSync(plain) : plain
  return { entries: text.toString('utf8').split('\n'), bytes: end }
}
