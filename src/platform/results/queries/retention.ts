// Statements that delete expired rows other than the partitions of results.
import { statement, type Connection } from '../../../database/statement.ts'

/** Maximum number of rows that a statement deletes, so that no lock is held for long. */
const AT_ONCE = 5_000

const dropRollups = statement<[number, number], { n: number }>(
  'retention-rollups',
  `with gone as (
     delete from rollups where ctid = any (array(
       select ctid from rollups where hour < to_timestamp($1::bigint / 1000::float8) limit $2::int))
     returning 1
   ) select count(*)::int as n from gone`,
)

const dropEras = statement<[number, number], { n: number }>(
  'retention-eras',
  `with gone as (
     delete from expectations where ctid = any (array(
       select ctid from expectations where until_ms < $1::bigint limit $2::int))
     returning 1
   ) select count(*)::int as n from gone`,
)

const dropMonitors = statement<[number, number], { n: number }>(
  'retention-monitors',
  // With their placements. Runs on demand stay readable until the end of their retention.
  `with gone as (
     delete from monitors where id = any (array(
       select id from monitors m where deleted_at < to_timestamp($1::bigint / 1000::float8)
         and not exists (select from runs r where r.monitor_id = m.id) limit $2::int))
     returning 1
   ) select count(*)::int as n from gone`,
)

/** Drops rows of `what` that ended before the instant, some thousand at a time, until none is left. */
export async function dropBefore(
  connection: Connection,
  what: keyof typeof DROPS,
  instantMs: number,
  signal: AbortSignal,
): Promise<number> {
  let dropped = 0
  while (!signal.aborted) {
    const n = (await DROPS[what](connection, instantMs, AT_ONCE))[0]?.n ?? 0
    dropped += n
    if (n < AT_ONCE) break
  }
  return dropped
}

const DROPS = {
  rollups: dropRollups,
  eras: dropEras,
  monitors: dropMonitors,
} as const
