// Statements that drop what nobody needs any more, beside the partitions of results.
import { statement, type Connection } from './statement.ts'

/** How many rows one statement deletes at most, so that no lock is held for long. */
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

const dropEpochs = statement<[number, number], { n: number }>(
  'retention-epochs',
  // An epoch holds until the next one begins; the newest always stays.
  `with gone as (
     delete from location_epochs where ctid = any (array(
       select e.ctid from location_epochs e
       join private_locations l on l.id = e.location_id and l.epoch > e.epoch
       join location_epochs n on n.location_id = e.location_id and n.epoch = e.epoch + 1
       where n.from_ms < $1::bigint limit $2::int))
     returning 1
   ) select count(*)::int as n from gone`,
)

const dropAgents = statement<[number, number], { n: number }>(
  'retention-agents',
  `with gone as (
     delete from agents where ctid = any (array(
       select ctid from agents where state <> 'live'
         and last_seen_at < to_timestamp($1::bigint / 1000::float8) limit $2::int))
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
  epochs: dropEpochs,
  agents: dropAgents,
} as const
