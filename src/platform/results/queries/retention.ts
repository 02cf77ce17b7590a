// Statements that delete expired rows other than the partitions of results.
import type { Queryable } from '../../../database/database.ts'
import { untilDone } from '../../../database/until-done.ts'

/** Maximum number of rows that a statement deletes, so that no lock is held for long. */
const AT_ONCE = 5_000

/** Which rows of a table ended before $1, milliseconds since the Unix epoch. */
const EXPIRED = {
  rollups: 'hour < to_timestamp($1::bigint / 1000::float8)',
  expectations: 'until_ms < $1::bigint',
  // With their placements. Runs on demand stay readable until the end of their retention.
  monitors: `deleted_at < to_timestamp($1::bigint / 1000::float8)
    and not exists (select from runs where runs.monitor_id = monitors.id)`,
}

/** Drops rows of `table` that ended before the instant, some thousand at a time, until none is left. */
export async function dropExpired(
  connection: Queryable,
  table: keyof typeof EXPIRED,
  instantMs: number,
  signal: AbortSignal,
): Promise<void> {
  const text = `with gone as (
      delete from ${table} where ctid = any (array(
        select ctid from ${table} where ${EXPIRED[table]} limit $2::int))
      returning 1
    ) select count(*)::int as n from gone`
  await untilDone(AT_ONCE, signal, async () => {
    const statement = { name: `retention-${table}`, text, values: [instantMs, AT_ONCE] }
    const [row] = await connection.query<{ n: number }>(statement)
    return row?.n ?? 0
  })
}
