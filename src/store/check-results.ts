// Statements that read results: pages of a monitor's, one of them, and the newest of each placement.
import { instantOf, type Place } from '../contract/cursor.ts'
import type { CheckType } from '../contract/monitor.ts'
import type { MissedReason, Verdict } from '../contract/result.ts'
import { statement, type Connection } from './statement.ts'

/** A row of `results` as it is listed. */
export interface ResultRow {
  locationId: string
  location: string
  slot: Date
  verdict: Verdict
  missedReason: MissedReason | null
  needed: string | null
  agentId: string | null
  startedAt: Date
  durationMs: number
  responseTimeMs: number | null
  attempts: number
  failureCode: string | null
  receivedAt: Date
}

const ROW = `r.location_id as "locationId", coalesce(l.slug_name, r.location_id::text) as location, r.slot,
  r.verdict, r.missed_reason as "missedReason", r.needed, r.agent_id as "agentId",
  r.started_at as "startedAt", r.duration_ms as "durationMs",
  r.response_time_ms as "responseTimeMs", r.attempts, r.failure_code as "failureCode",
  r.received_at as "receivedAt"`

/** Which results of a monitor. Instants in milliseconds. */
export interface ResultsAsk {
  accountId: string
  monitorId: string
  fromMs: number
  toMs: number
  /** A slug. */
  location: string | undefined
  verdicts: readonly Verdict[] | undefined
  limit: number
  after: Place | undefined
}

type PageValues = [
  monitorId: string,
  accountId: string,
  from: Date,
  to: Date,
  location: string | null,
  verdicts: readonly string[] | null,
  afterSlot: string,
  afterLocation: string,
  limit: number,
]

const page = statement<PageValues, ResultRow>(
  'check-results-page',
  `select ${ROW} from results r left join private_locations l on l.id = r.location_id
   where r.monitor_id = $1 and r.account_id = $2 and r.slot >= $3::timestamptz
     and r.slot < $4::timestamptz and r.slot <= $7::timestamptz
     and ($5::text is null or l.slug_name = $5::text)
     and ($6::text[] is null or r.verdict = any ($6::text[]))
     and (r.slot, r.location_id) < ($7::timestamptz, $8::uuid)
   order by r.slot desc, r.location_id desc limit $9`,
)

/**
 * At most `limit` results of a monitor after a place, newest first by (slot, location). The order is that
 * of the rows' own key, so rows that come meanwhile make no other come twice or be left out.
 */
export async function listResults(connection: Connection, ask: ResultsAsk): Promise<ResultRow[]> {
  return page(
    connection,
    ask.monitorId,
    ask.accountId,
    new Date(ask.fromMs),
    new Date(ask.toMs),
    ask.location ?? null,
    ask.verdicts ?? null,
    ask.after === undefined ? 'infinity' : instantOf(ask.after),
    ask.after?.id ?? 'ffffffff-ffff-ffff-ffff-ffffffffffff',
    ask.limit,
  )
}

/** What is kept of a result beside its numbers, as results-intake wrote it. */
export interface KeptDetail {
  failures?: { code: string; message: string; details?: Record<string, unknown> }[]
  observed?: Record<string, unknown>
  attempts?: Record<string, unknown>[]
  artifacts?: { name: string; bytes: number; sha256: string; contentType: string }[]
}

const ofSlot = statement<[string, string, Date], ResultRow & { detail: KeptDetail | null }>(
  'check-results-slot',
  `select ${ROW}, r.detail from results r left join private_locations l on l.id = r.location_id
   where r.monitor_id = $1 and r.account_id = $2 and r.slot = $3`,
)

/** The results of a monitor's slot, one for each location. */
export async function readResultsOfSlot(
  connection: Connection,
  accountId: string,
  monitorId: string,
  slotMs: number,
): Promise<(ResultRow & { detail: KeptDetail | null })[]> {
  return ofSlot(connection, monitorId, accountId, new Date(slotMs))
}

/** A monitor and the newest result of each location where it stands. */
export interface StatusRow {
  id: string
  name: string
  checkType: CheckType
  activated: boolean
  /** With the monitor's id, the place of this row in the listing. */
  createdUs: string
  locations: {
    locationId: string
    location: string
    verdict: Verdict | null
    slotMs: number | null
    sinceMs: number | null
  }[]
}

/** The hours before it can be told of by rollups. */
const ROLLED = `(select coalesce(max(until_hour), '-infinity') from rollups_done)`

/**
 * The newest slot of the placement `p`, and since when it has had its verdict. Rows are looked through as
 * far as no rollup tells of them; from there the newest hour in which something else happened is found
 * among the rollups, and only its rows are looked through.
 */
const NEWEST = `select n.verdict, n.slot,
    coalesce((select min(f.slot) from results f
      where f.location_id = p.location_id and f.monitor_id = p.monitor_id
        and f.slot > d.slot),
      (select min(u.hour) from rollups u
        where u.location_id = p.location_id and u.monitor_id = p.monitor_id),
      (select min(f.slot) from results f
        where f.location_id = p.location_id and f.monitor_id = p.monitor_id)) as since
  from (select r.verdict, r.slot from results r
    where r.location_id = p.location_id and r.monitor_id = p.monitor_id
    order by r.slot desc limit 1) n
  left join lateral (select coalesce(
    (select r.slot from results r
      where r.location_id = p.location_id and r.monitor_id = p.monitor_id
        and r.slot >= ${ROLLED} and r.verdict <> n.verdict order by r.slot desc limit 1),
    (select coalesce(
        (select r.slot from results r
          where r.location_id = p.location_id and r.monitor_id = p.monitor_id
            and r.slot >= h.hour and r.slot < h.hour + interval '1 hour' and r.verdict <> n.verdict
          order by r.slot desc limit 1),
        h.hour + interval '1 hour' - interval '1 ms')
      from (select u.hour from rollups u
        where u.location_id = p.location_id and u.monitor_id = p.monitor_id
          and u.passed + u.degraded + u.failed + u.errored + u.cancelled + u.missed
            > case n.verdict when 'passed' then u.passed when 'degraded' then u.degraded
              when 'failed' then u.failed when 'errored' then u.errored
              when 'cancelled' then u.cancelled else u.missed end
        order by u.hour desc limit 1) h)) as slot) d on true`

const STATUS = `select m.id, m.name, m.check_type as "checkType", m.activated,
    (extract(epoch from m.created_at) * 1000000)::bigint::text as "createdUs",
    coalesce((select jsonb_agg(jsonb_build_object('locationId', p.location_id, 'location', l.slug_name,
        'verdict', s.verdict, 'slotMs', (extract(epoch from s.slot) * 1000)::bigint,
        'sinceMs', (extract(epoch from s.since) * 1000)::bigint) order by l.slug_name)
      from placements p join private_locations l on l.id = p.location_id
      left join lateral (${NEWEST}) s on true
      where p.monitor_id = m.id and p.until_ms is null), '[]') as locations`

const one = statement<[string, string], StatusRow>(
  'check-status',
  `${STATUS} from monitors m where m.id = $1 and m.account_id = $2 and m.deleted_at is null`,
)

/** The state of a monitor; undefined when the account has none of that id. */
export async function readStatus(
  connection: Connection,
  accountId: string,
  id: string,
): Promise<StatusRow | undefined> {
  return (await one(connection, id, accountId))[0]
}

const statuses = statement<[string, string, string, number], StatusRow>(
  'check-statuses-page',
  `${STATUS} from (select * from monitors
     where account_id = $1 and deleted_at is null and (created_at, id) < ($2::timestamptz, $3::uuid)
     order by created_at desc, id desc limit $4) m
   order by m.created_at desc, m.id desc`,
)

/** The states of at most `limit` monitors after a place, newest monitors first. */
export async function listStatuses(
  connection: Connection,
  ask: { accountId: string; limit: number; after: Place | undefined },
): Promise<StatusRow[]> {
  const { after } = ask
  return statuses(
    connection,
    ask.accountId,
    after === undefined ? 'infinity' : instantOf(after),
    after?.id ?? 'ffffffff-ffff-ffff-ffff-ffffffffffff',
    ask.limit,
  )
}
