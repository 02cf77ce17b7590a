// The place in a listing after which the next page starts. It names the order's own key, not a row, so
// it stays valid even when its row is deleted.

/** A place in a listing ordered newest first by (created, id). */
export interface Place {
  /** Microseconds since the Unix epoch. */
  createdUs: bigint
  /** A GUID in lower case. */
  id: string
}

/** The listings that have cursors; the cursor of one is refused by the others. */
const LISTINGS = {
  incidents: 1,
  services: 2,
  'status-pages': 3,
  runs: 20,
  'code-bundles': 21,
  'check-results': 30,
} as const
export type Listing = keyof typeof LISTINGS

const CURSOR_BYTES = 25
/** 9999-12-31T23:59:59.999999Z, the last instant that PostgreSQL and ISO 8601 both write plainly. */
const CREATED_US_MAX = 253_402_300_799_999_999n

/** Every cursor is written here first; encodeCursor fills all of it. */
const scratch = Buffer.alloc(CURSOR_BYTES)

/** The opaque text of a place in `listing`. */
export function encodeCursor(listing: Listing, place: Place): string {
  const bytes = scratch
  bytes.writeUInt8(LISTINGS[listing], 0)
  bytes.writeBigUInt64BE(place.createdUs, 1)
  bytes.write(place.id.replaceAll('-', ''), 9, 'hex')
  return bytes.toString('base64url')
}

/** The place that `cursor` encodes in `listing`; undefined when it was not made by encodeCursor. */
export function decodeCursor(listing: Listing, cursor: string): Place | undefined {
  if (!/^[A-Za-z0-9_-]{34}$/.test(cursor)) return undefined
  const bytes = Buffer.from(cursor, 'base64url')
  if (bytes.length !== CURSOR_BYTES || bytes.toString('base64url') !== cursor) return undefined
  if (bytes.readUInt8(0) !== LISTINGS[listing]) return undefined
  const createdUs = bytes.readBigUInt64BE(1)
  if (createdUs > CREATED_US_MAX) return undefined
  const id = bytes.toString('hex', 9).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  return { createdUs, id }
}

/** The instant of a place as ISO 8601 text with its microseconds. */
export function instantOf(place: Place): string {
  const milliseconds = new Date(Number(place.createdUs / 1000n)).toISOString().slice(0, -1)
  return `${milliseconds}${String(place.createdUs % 1000n).padStart(3, '0')}Z`
}
