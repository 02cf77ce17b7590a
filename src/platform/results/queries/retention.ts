// Statements that delete expired rows other than the partitions of results.
import type { Queryable } from '../../../database/database.ts'
import { sql } from '../../../database/sql.ts'

/** Maximum number of rows that a statement deletes, so that no lock is held for long. */
const AT_ONCE = 5_000

/** Each deletes some rows that ended before an instant. */
const DROPS = {
  rollups: (beforeMs: number) => sql<{ n: number }>('retention-rollups')`
    with gone as (
      delete from rollups where ctid = any (array(
        select ctid from rollups
        where hour < to_timestamp(${beforeMs}::bigint / 1000::float8) limit ${AT_ONCE}::int))
      returning 1
    ) select count(*)::int as n from gone`,
  eras: (beforeMs: number) => sql<{ n: number }>('retention-eras')`
    with gone as (
      delete from expectations where ctid = any (array(
        select ctid from expectations where until_ms < ${beforeMs}::bigint limit ${AT_ONCE}::int))
      returning 1
    ) select count(*)::int as n from gone`,
  // With their placements. Runs on demand stay readable until the end of their retention.
  monitors: (beforeMs: number) => sql<{ n: number }>('retention-monitors')`
    with gone as (
      delete from monitors where id = any (array(
        select id from monitors m where deleted_at < to_timestamp(${beforeMs}::bigint / 1000::float8)
          and not exists (select from runs r where r.monitor_id = m.id) limit ${AT_ONCE}::int))
      returning 1
    ) select count(*)::int as n from gone`,
}

/** Drops rows of `what` that ended before the instant, some thousand at a time, until none is left. */
export async function dropBefore(
  connection: Queryable,
  what: keyof typeof DROPS,
  instantMs: number,
  signal: AbortSignal,
): Promise<number> {
  let dropped = 0
  while (!signal.aborted) {
    const [row] = await connection.query(DROPS[what](instantMs))
    const n = row?.n ?? 0
    dropped += n
    if (n < AT_ONCE) break
  }
  return dropped
}
