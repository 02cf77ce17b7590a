// One page of a listing in one statement, newest first by (created, id), and the place after its end as a cursor.
// The place names the order's own key, not a row, so it stays valid even when its row is deleted.
import type { Queryable } from './database.ts'

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

/** Entries as the JSON text of a list without its brackets, and where the next page starts. */
export interface PageText {
  entries: string
  length: number
  next: Place | undefined
}

interface Row extends Record<string, unknown> {
  entries: string
  length: number
  more: boolean
  last: string | null
}

interface PageParts {
  name: string
  /** Table and condition; `$1` is whose listing it is. */
  from: string
  where: string
  /** The JSON text of the row `i`, as the public contract has an entry. */
  entry: string
  /** An expression of the bytes of a row, and after how many of them a page ends early. */
  bytes?: { of: string; max: number }
}

/** Reads a page of at most `limit` entries of `owner`, after `after`. */
export type PageStatement = (
  connection: Queryable,
  ask: { owner: string; limit: number; after: Place | undefined },
) => Promise<PageText>

/**
 * A statement that reads pages. Concurrent inserts and deletes neither repeat nor skip rows, because a place is
 * a key of the order and not an offset.
 */
export function pageStatement(parts: PageParts): PageStatement {
  const { bytes } = parts
  const before =
    bytes === undefined
      ? '0'
      : `coalesce(sum(${bytes.of}) over (order by i.created_at desc, i.id desc
          rows between unbounded preceding and 1 preceding), 0)`
  const statement = {
    name: parts.name,
    text: `with found as (
       select i.*, row_number() over (order by i.created_at desc, i.id desc) as n,
         ${before} as bytes_before
       from (select * from ${parts.from}
         where ${parts.where} and (created_at, id) < ($2::timestamptz, $3::uuid)
         order by created_at desc, id desc limit $4::int + 1) i
     ), shown as (
       select * from found where n <= $4::int and bytes_before < ${bytes?.max ?? 1}
     )
     select coalesce(string_agg(${parts.entry}, ',' order by i.n), '') as entries,
       count(*)::int as length,
       (select count(*) from found) > count(*) as more,
       (select (extract(epoch from z.created_at) * 1000000)::bigint || '/' || z.id
        from shown z order by z.n desc limit 1) as last
     from shown i`,
  }
  return async (connection, { owner, limit, after }) => {
    const [row] = await connection.query<Row>(statement, [
      owner,
      after === undefined ? 'infinity' : instantOf(after),
      after?.id ?? 'ffffffff-ffff-ffff-ffff-ffffffffffff',
      limit,
    ])
    if (row === undefined) throw new Error('a page has one row')
    return {
      entries: row.entries,
      length: row.length,
      next: row.more ? placeOf(row.last) : undefined,
    }
  }
}

function placeOf(last: string | null): Place | undefined {
  if (last === null) return undefined
  const slash = last.indexOf('/')
  return { createdUs: BigInt(last.slice(0, slash)), id: last.slice(slash + 1) }
}
