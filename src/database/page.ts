// One page of a listing in one statement: newest first by (created, id), and the place after its end.
import { instantOf, type Place } from './cursor.ts'
import { statement, type Connection } from './statement.ts'

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
  /** Name of the prepared statement. */
  name: string
  /** Table and condition; `$1` is whose listing it is. */
  from: string
  where: string
  /** The JSON text of the row `i`. */
  json: string
  /** An expression of the bytes of a row, and after how many of them a page ends early. */
  bytes?: { of: string; max: number }
}

/** Reads a page of at most `limit` entries of `owner`, after `after`. */
export type PageStatement = (
  connection: Connection,
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
  const run = statement<[string, string, string, number], Row>(
    parts.name,
    `with found as (
       select i.*, row_number() over (order by i.created_at desc, i.id desc) as n,
         ${before} as bytes_before
       from (select * from ${parts.from}
         where ${parts.where} and (created_at, id) < ($2::timestamptz, $3::uuid)
         order by created_at desc, id desc limit $4::int + 1) i
     ), shown as (
       select * from found where n <= $4::int and bytes_before < ${bytes?.max ?? 1}
     )
     select coalesce(string_agg(${parts.json}, ',' order by i.n), '') as entries,
       count(*)::int as length,
       (select count(*) from found) > count(*) as more,
       (select (extract(epoch from z.created_at) * 1000000)::bigint || '/' || z.id
        from shown z order by z.n desc limit 1) as last
     from shown i`,
  )
  return async (connection, { owner, limit, after }) => {
    const [row] = await run(
      connection,
      owner,
      after === undefined ? 'infinity' : instantOf(after),
      after?.id ?? 'ffffffff-ffff-ffff-ffff-ffffffffffff',
      limit,
    )
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
