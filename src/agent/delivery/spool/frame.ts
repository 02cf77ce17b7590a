// How results lie on disk: frames one after another, each encrypted, each with its length and checksum, so that
// whatever happens to a file costs no more than the frames that it hits.
//   file    'VDSP', version u16, its complement u16; then frames
//   frame   'VDF1', bytes of the payload u32, number u32, results u32, time f64, CRC-32 of the head u24,
//           flags u8, salt 16 bytes, CRC-32 of all of it u32; then the payload: encrypted lines of JSON,
//           deflated where flag 1 says so
//   record  first frame u32, last frame u32, CRC-32 of salt, first and last u32: these are delivered
import { crc32, deflateRawSync, inflateRawSync } from 'node:zlib'
import { SALT_BYTES, TAG_BYTES, type FileCipher } from './agent-cipher.ts'

/** A frame as it was found. */
export interface Frame {
  /** Its place in the file, counted from 0. */
  number: number
  results: number
  /** When the first of its results came. Milliseconds since the Unix epoch. */
  at: number
  salt: Buffer
  flags: number
  head: Buffer
  encrypted: Buffer
}

/** What goes into a frame. */
export interface FrameDraft {
  number: number
  at: number
  /** One line of JSON each. */
  entries: readonly string[]
}

/** The version of the format that this code writes; it leaves files of later ones alone. */
export const SPOOL_VERSION = 1
export const FILE_HEAD_BYTES = 8
export const FRAME_HEAD_BYTES = 32 + SALT_BYTES
export const RECORD_BYTES = 12

const FILE_MAGIC = Buffer.from('VDSP')
const FRAME_MAGIC = Buffer.from('VDF1')
const DEFLATED = 1
/** Smaller ones gain nothing. */
const DEFLATE_BYTES_MIN = 512
/** Far more than is ever written; a length above it is damage. */
const PAYLOAD_BYTES_MAX = 8 * 1024 * 1024
const FLAGS_AT = 24
const SALT_AT = 28
const CRC_AT = FRAME_HEAD_BYTES - 4

/** The head of a file. */
export function fileHead(): Buffer {
  const head = Buffer.alloc(FILE_HEAD_BYTES)
  FILE_MAGIC.copy(head)
  head.writeUInt16BE(SPOOL_VERSION, 4)
  head.writeUInt16BE(0xffff - SPOOL_VERSION, 6)
  return head
}

/** The version that a file was written in; the present one where its head is damaged. */
export function fileVersion(bytes: Buffer): number {
  if (bytes.length < FILE_HEAD_BYTES || !bytes.subarray(0, 4).equals(FILE_MAGIC)) {
    return SPOOL_VERSION
  }
  const version = bytes.readUInt16BE(4)
  return bytes.readUInt16BE(6) === 0xffff - version ? version : SPOOL_VERSION
}

/** A frame, ready to be written. `cipher` is that of the file with this salt. */
export function encodeFrame(draft: FrameDraft, salt: Buffer, cipher: FileCipher): Buffer {
  const text = Buffer.from(draft.entries.join('\n'))
  const isDeflated = text.length >= DEFLATE_BYTES_MIN
  const plain = isDeflated ? deflateRawSync(text, { level: 1 }) : text
  const head = Buffer.alloc(FRAME_HEAD_BYTES)
  FRAME_MAGIC.copy(head)
  head.writeUInt32BE(plain.length + TAG_BYTES, 4)
  head.writeUInt32BE(draft.number, 8)
  head.writeUInt32BE(draft.entries.length, 12)
  head.writeDoubleBE(draft.at, 16)
  salt.copy(head, SALT_AT)
  head.writeUInt32BE(headSum(head) * 256 + (isDeflated ? DEFLATED : 0), FLAGS_AT)
  const encrypted = cipher.encrypt(plain, draft.number, head.subarray(0, CRC_AT))
  head.writeUInt32BE(checksum(head, encrypted), CRC_AT)
  return Buffer.concat([head, encrypted])
}

/**
 * The whole frames of a file or of a part of it, in their order. What lies between them and is none is
 * skipped, a torn end included: `onDamaged` receives frames whose head is whole, and the generator returns the
 * number of other damaged places.
 */
export function* readFrames(
  bytes: Buffer,
  onDamaged: (frame: DamagedFrame) => void = () => undefined,
): Generator<Frame, number, undefined> {
  let damaged = 0
  let at = bytes.subarray(0, 4).equals(FILE_MAGIC) ? FILE_HEAD_BYTES : 0
  while (at < bytes.length) {
    const frame = frameAt(bytes, at)
    if (frame !== undefined) {
      at += FRAME_HEAD_BYTES + frame.encrypted.length
      yield frame
      continue
    }
    const next = nextWhole(bytes, at + 1)
    if (!reportDamagedFrames(bytes.subarray(at, next), onDamaged)) damaged++
    at = next
  }
  return damaged
}

/** Reports the frames within a damaged stretch; false where it does not begin with one. */
function reportDamagedFrames(stretch: Buffer, onDamaged: (frame: DamagedFrame) => void): boolean {
  let isAllKnown = false
  for (let at = 0; at !== -1; at = stretch.indexOf(FRAME_MAGIC, at + 1)) {
    const frame = damagedFrameAt(stretch, at)
    if (frame === undefined) continue
    onDamaged(frame)
    isAllKnown ||= at === 0
  }
  return isAllKnown
}

function nextWhole(bytes: Buffer, from: number): number {
  for (let at = from; ; at++) {
    at = bytes.indexOf(FRAME_MAGIC, at)
    if (at === -1) return bytes.length
    if (frameAt(bytes, at) !== undefined) return at
  }
}

function frameAt(bytes: Buffer, at: number): Frame | undefined {
  const head = bytes.subarray(at, at + FRAME_HEAD_BYTES)
  if (head.length < FRAME_HEAD_BYTES || !head.subarray(0, 4).equals(FRAME_MAGIC)) return undefined
  const length = head.readUInt32BE(4)
  const end = at + FRAME_HEAD_BYTES + length
  if (length > PAYLOAD_BYTES_MAX || end > bytes.length) return undefined
  const encrypted = bytes.subarray(at + FRAME_HEAD_BYTES, end)
  if (head.readUInt32BE(CRC_AT) !== checksum(head, encrypted)) return undefined
  return {
    number: head.readUInt32BE(8),
    results: head.readUInt32BE(12),
    at: head.readDoubleBE(16),
    flags: head.readUInt8(FLAGS_AT + 3),
    salt: head.subarray(SALT_AT, SALT_AT + SALT_BYTES),
    head,
    encrypted,
  }
}

/** What is known of a frame whose payload is damaged or torn off. */
export type DamagedFrame = Pick<Frame, 'number' | 'results' | 'salt'>

/** The frame of which only the head is whole; undefined where that is not so, either. */
function damagedFrameAt(bytes: Buffer, at: number): DamagedFrame | undefined {
  const head = bytes.subarray(at, at + FRAME_HEAD_BYTES)
  if (head.length < CRC_AT || !head.subarray(0, 4).equals(FRAME_MAGIC)) return undefined
  if (headSum(head) !== Math.floor(head.readUInt32BE(FLAGS_AT) / 256)) return undefined
  const salt = head.subarray(SALT_AT, SALT_AT + SALT_BYTES)
  return { number: head.readUInt32BE(8), results: head.readUInt32BE(12), salt }
}

/** Of the head without its flags: shows that the head is whole where the payload is damaged. */
function headSum(head: Buffer): number {
  return crc32(head.subarray(SALT_AT, CRC_AT), crc32(head.subarray(0, FLAGS_AT))) % 0x1000000
}

function checksum(head: Buffer, encrypted: Buffer): number {
  return crc32(encrypted, crc32(head.subarray(0, CRC_AT)))
}

/** The lines of a frame; undefined when this cipher does not open it. */
export function openFrame(frame: Frame, cipher: FileCipher): string[] | undefined {
  const plain = cipher.decrypt(frame.encrypted, frame.number, frame.head.subarray(0, CRC_AT))
  if (plain === undefined) return undefined
  try {
    const isDeflated = (frame.flags & DEFLATED) !== 0
    const options = { maxOutputLength: 4 * PAYLOAD_BYTES_MAX }
    const text = isDeflated ? inflateRawSync(plain, options) : plain
    return text.toString('utf8').split('\n')
  } catch {
    return undefined
  }
}

/** A note that the frames from `first` to `last` of the file with this salt are delivered. */
export function encodeRecord(first: number, last: number, salt: Buffer): Buffer {
  const record = Buffer.alloc(RECORD_BYTES)
  record.writeUInt32BE(first, 0)
  record.writeUInt32BE(last, 4)
  record.writeUInt32BE(crc32(record.subarray(0, 8), crc32(salt)), 8)
  return record
}

/** The notes of a file that are whole and belong to this salt; the others would only lead to loss. */
export function* readRecords(bytes: Buffer, salt: Buffer): Generator<[number, number]> {
  for (let at = 0; at + RECORD_BYTES <= bytes.length; at++) {
    const record = bytes.subarray(at, at + RECORD_BYTES)
    if (record.readUInt32BE(8) !== crc32(record.subarray(0, 8), crc32(salt))) continue
    yield [record.readUInt32BE(0), record.readUInt32BE(4)]
    at += RECORD_BYTES - 1
  }
}
