// Statements that read results: pages for a monitor, one result, and the newest result of each placement.
import { instantOf, type Place } from '../../../database/page.ts'
import type { CheckType } from '../../../monitors/definitions.ts'
import type { MissedReason, OwnVerdict, TargetVerdict, Verdict } from '../../../contract/result.ts'
import { RUN_BOUNDS } from '../../../contract/api/run.ts'
import { UNATTENDED } from '../../private-locations/queries/locations.ts'
import { raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

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
  clockUncertaintyMs: number | null
  durationMs: number
  responseTimeMs: number | null
  attempts: number
  failureCode: string | null
  receivedAt: Date
}

const ROW = `r.location_id as "locationId", coalesce(l.slug_name, r.location_id::text) as location, r.slot,
  r.verdict, r.missed_reason as "missedReason", r.needed, r.agent_id as "agentId",
  r.started_at as "startedAt", r.clock_uncertainty_ms as "clockUncertaintyMs", r.duration_ms as "durationMs",
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
  offset: number
  after: Place | undefined
}

const page = {
  name: 'check-results-page',
  text: `select ${ROW} from results r left join private_locations l on l.id = r.location_id
   where r.monitor_id = $1 and r.account_id = $2 and r.slot >= $3::timestamptz
     and r.slot < $4::timestamptz and r.slot <= $7::timestamptz
     and ($5::text is null or l.slug_name = $5::text)
     and ($6::text[] is null or r.verdict = any ($6::text[]))
     and (r.slot, r.location_id) < ($7::timestamptz, $8::uuid)
   order by r.slot desc, r.location_id desc limit $9::int offset $10::bigint`,
}

/**
 * At most `limit` results of a monitor after a place, newest first by (slot, location). This is the order of
 * the key, so rows inserted meanwhile neither repeat nor skip others.
 */
export async function listResults(connection: Queryable, ask: ResultsAsk): Promise<ResultRow[]> {
  return connection.query<ResultRow>(page, [
    ask.monitorId,
    ask.accountId,
    new Date(ask.fromMs),
    new Date(ask.toMs),
    ask.location ?? null,
    ask.verdicts ?? null,
    ...startOf(ask.after),
    ask.limit,
    ask.offset,
  ])
}

/** The stored details of a result in addition to its numbers, as results/intake.ts wrote them. */
export interface StoredDetail {
  failures?: { code: string; message: string; details?: Record<string, unknown> }[]
  observed?: Record<string, unknown>
  attempts?: Record<string, unknown>[]
  artifacts?: { name: string; bytes: number; sha256: string; contentType: string }[]
}

/** A row with its detail. */
export interface DetailedResultRow extends ResultRow {
  detail: StoredDetail | null
  /** Missing artifacts are not awaited any more. */
  filesOverdue: boolean
}

const { artifactAwaitedMs } = RUN_BOUNDS

/** The results of a monitor's slot, one for each location. */
export async function readResultsOfSlot(
  connection: Queryable,
  accountId: string,
  monitorId: string,
  slotMs: number,
): Promise<DetailedResultRow[]> {
  return connection.query(sql<DetailedResultRow>('check-results-slot')`
      select ${raw(ROW)}, r.detail,
        r.received_at < clock_timestamp() - interval '${raw(artifactAwaitedMs)} milliseconds' as "filesOverdue"
      from results r left join private_locations l on l.id = r.location_id
      where r.monitor_id = ${monitorId} and r.account_id = ${accountId} and r.slot = ${new Date(slotMs)}`)
}

/** A monitor and its state in each of its locations. */
export interface StatusRow {
  id: string
  name: string
  checkType: CheckType
  activated: boolean
  locations: {
    locationId: string
    location: string
    /** The location was reported to have no agent, and still has none. */
    unattended: boolean
    /** The newest verdict about the target; null where there is none. */
    verdict: TargetVerdict | null
    slotMs: number | null
    sinceMs: number | null
    /** The newest slot, if it is later and says nothing about the target. */
    silence: {
      verdict: OwnVerdict
      missedReason: MissedReason | null
      needed: string | null
      failureCode: string | null
      slotMs: number
      sinceMs: number
    } | null
  }[]
}

/** End of the hours that have rollups. */
const ROLLED = `(select coalesce(max(until_hour), '-infinity') from rollups_done)`
/** Rows of the placement `p`, and its rolled up hours. */
const ROWS = 'results r where r.location_id = p.location_id and r.monitor_id = p.monitor_id'
const HOURS = 'rollups u where u.location_id = p.location_id and u.monitor_id = p.monitor_id'
const ABOUT_TARGET = `r.verdict in ('passed', 'degraded', 'failed')`
/** The counts of the verdict `n` in the hour `u`, and of other verdicts about the target. */
const ALIKE = `case n.verdict when 'passed' then u.passed when 'degraded' then u.degraded
  else u.failed end`
const OTHERS = `u.passed + u.degraded + u.failed - ${ALIKE}`
const IN_HOUR = `r.slot >= h.hour and r.slot < h.hour + interval '1 hour'`

/**
 * The newest slot of the placement `p` with a verdict about the target, and the first slot with that verdict.
 * Rows without rollups are searched one by one; before them, rollups give the hour, whose rows are searched.
 * Slots about us are skipped.
 */
const NEWEST = `select n.verdict, n.slot, f.slot as since
  from (select * from (
      (select r.verdict, r.slot from ${ROWS} and r.slot >= ${ROLLED} and ${ABOUT_TARGET}
       order by r.slot desc limit 1)
      union all
      (select r.verdict, r.slot
       from (select u.hour from ${HOURS} and u.passed + u.degraded + u.failed > 0
         order by u.hour desc limit 1) h
       join lateral (select r.verdict, r.slot from ${ROWS} and ${IN_HOUR} and ${ABOUT_TARGET}
         order by r.slot desc limit 1) r on true)) either
    order by slot desc limit 1) n
  cross join lateral (select coalesce(
    (select r.slot from ${ROWS} and r.slot >= ${ROLLED} and ${ABOUT_TARGET}
       and r.verdict <> n.verdict order by r.slot desc limit 1),
    (select coalesce(
        (select r.slot from ${ROWS} and ${IN_HOUR} and ${ABOUT_TARGET} and r.verdict <> n.verdict
         order by r.slot desc limit 1),
        h.hour + interval '1 hour' - interval '1 ms')
      from (select u.hour from ${HOURS} and ${OTHERS} > 0 order by u.hour desc limit 1) h),
    '-infinity') as slot) d
  cross join lateral (select coalesce(
    (select min(r.slot) from ${ROWS} and r.verdict = n.verdict and r.slot > d.slot
       and r.slot < date_trunc('hour', d.slot, 'UTC') + interval '1 hour'),
    (select coalesce((select min(r.slot) from ${ROWS} and ${IN_HOUR} and r.verdict = n.verdict), h.hour)
      from (select u.hour from ${HOURS} and u.hour > d.slot and ${ALIKE} > 0
        order by u.hour limit 1) h),
    (select min(r.slot) from ${ROWS} and r.verdict = n.verdict and r.slot > d.slot
       and r.slot >= ${ROLLED}),
    n.slot) as slot) f`

/** The newest slot of the placement `p` if it is later than `s` and about us, and the first such slot. */
const SILENCE = `select jsonb_build_object('verdict', r.verdict, 'missedReason', r.missed_reason,
    'needed', r.needed, 'failureCode', r.failure_code,
    'slotMs', (extract(epoch from r.slot) * 1000)::bigint,
    'sinceMs', (select (extract(epoch from min(r.slot)) * 1000)::bigint from ${ROWS}
      and r.slot > coalesce(s.slot, '-infinity'))) as reported
  from (select * from ${ROWS} order by r.slot desc limit 1) r
  where r.slot > coalesce(s.slot, '-infinity')`

const STATUS = `select m.id, m.name, m.check_type as "checkType", m.activated,
    coalesce((select jsonb_agg(jsonb_build_object('locationId', p.location_id, 'location', l.slug_name,
        'unattended', ${UNATTENDED}, 'verdict', s.verdict, 'slotMs', (extract(epoch from s.slot) * 1000)::bigint,
        'sinceMs', (extract(epoch from s.since) * 1000)::bigint, 'silence', q.reported)
        order by l.slug_name)
      from placements p join private_locations l on l.id = p.location_id
      left join lateral (${NEWEST}) s on true
      left join lateral (${SILENCE}) q on true
      where p.monitor_id = m.id and p.until_ms is null), '[]') as locations`

/** The state of a monitor; undefined when the account has none of that id. */
export async function readStatus(
  connection: Queryable,
  accountId: string,
  id: string,
): Promise<StatusRow | undefined> {
  const rows = await connection.query(sql<StatusRow>('check-status')`
      ${raw(STATUS)} from monitors m where m.id = ${id} and m.account_id = ${accountId} and m.deleted_at is null`)
  return rows[0]
}

const statuses = {
  name: 'check-statuses-page',
  text: `${STATUS}, (extract(epoch from m.created_at) * 1000000)::bigint::text as "createdUs"
   from (select * from monitors
     where account_id = $1 and deleted_at is null and (created_at, id) < ($2::timestamptz, $3::uuid)
     order by created_at desc, id desc limit $4) m
   order by m.created_at desc, m.id desc`,
}

const STATUSES_AT_ONCE = 500

/** The states of all monitors of an account, newest monitors first; read in bounded parts. */
export async function listStatuses(connection: Queryable, accountId: string): Promise<StatusRow[]> {
  const all: StatusRow[] = []
  let after: Place | undefined
  let found: (StatusRow & { createdUs: string })[]
  do {
    found = await connection.query<StatusRow & { createdUs: string }>(statuses, [
      accountId,
      ...startOf(after),
      STATUSES_AT_ONCE,
    ])
    all.push(...found)
    const last = found.at(-1)
    if (last !== undefined) after = { createdUs: BigInt(last.createdUs), id: last.id }
  } while (found.length === STATUSES_AT_ONCE)
  return all
}

/** The values of a statement that start a page: at the beginning, or after a place. */
function startOf(after: Place | undefined): [instant: string, id: string] {
  return after === undefined
    ? ['infinity', 'ffffffff-ffff-ffff-ffff-ffffffffffff']
    : [instantOf(after), after.id]
}
