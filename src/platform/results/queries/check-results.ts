// Statements that read results: pages for a monitor, one result, and the newest result of each placement.
import { instantOf, type Place } from '../../../database/page.ts'
import type { CheckType } from '../../../monitors/definitions.ts'
import type { WireResult } from '../../../contract/protocol/agent-protocol.ts'
import type { Verdict } from '../../../contract/result.ts'
import { instantText } from '../../../database/row-json.ts'
import type { CheckResult, CheckStatus } from '../schema.ts'
import { RUN_BOUNDS } from '../../../contract/api/run.ts'
import { UNATTENDED } from '../../private-locations/queries/locations.ts'
import { queryRow, queryRows, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

/** A row of `results` as it is listed, as far as possible by the names of the public API. */
export interface ResultRow extends Pick<
  CheckResult,
  | 'location'
  | 'verdict'
  | 'missedReason'
  | 'needed'
  | 'clockUncertaintyMs'
  | 'attempts'
  | 'failureCode'
  | 'runBy'
> {
  locationId: string
  slot: Date
  startedAt: Date
  durationMs: number
  responseTimeMs: number | null
  receivedAt: Date
}

const ROW = raw(`r.location_id as "locationId",
  coalesce(l.slug_name, r.location_id::text) as location, r.slot, r.verdict,
  r.missed_reason as "missedReason", r.needed, r.agent_id as "runBy", r.started_at as "startedAt",
  r.clock_uncertainty_ms as "clockUncertaintyMs", r.duration_ms as "durationMs",
  r.response_time_ms as "responseTimeMs", r.attempts, r.failure_code as "failureCode",
  r.received_at as "receivedAt"`)

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

/**
 * At most `limit` results of a monitor after a place, newest first by (slot, location). This is the order of
 * the key, so rows inserted meanwhile neither repeat nor skip others.
 */
export const listResults = queryRows((ask: ResultsAsk) => {
  const { location = null, verdicts = null } = ask
  const [slot, id] = startOf(ask.after)
  return sql<ResultRow>('check-results-page')`
      select ${ROW} from results r left join private_locations l on l.id = r.location_id
      where r.monitor_id = ${ask.monitorId} and r.account_id = ${ask.accountId}
        and r.slot >= ${new Date(ask.fromMs)}::timestamptz
        and r.slot < ${new Date(ask.toMs)}::timestamptz and r.slot <= ${slot}::timestamptz
        and (${location}::text is null or l.slug_name = ${location}::text)
        and (${verdicts}::text[] is null or r.verdict = any (${verdicts}::text[]))
        and (r.slot, r.location_id) < (${slot}::timestamptz, ${id}::uuid)
      order by r.slot desc, r.location_id desc
      limit ${ask.limit}::int offset ${ask.offset}::bigint`
})

export interface DetailedResultRow extends ResultRow {
  /** As detailText() of contract/protocol/wire-result.ts writes it. */
  detail: (Pick<WireResult, 'failures' | 'artifacts'> & Partial<WireResult['detail']>) | null
  /** Missing artifacts are not awaited any more. */
  filesOverdue: boolean
}

const { artifactAwaitedMs } = RUN_BOUNDS

/** The results of a monitor's slot, one for each location. */
export const readResultsOfSlot = queryRows(
  (accountId: string, monitorId: string, slotMs: number) => sql<DetailedResultRow>(
    'check-results-slot',
  )`
      select ${ROW}, r.detail,
        r.received_at < clock_timestamp() - interval '${raw(artifactAwaitedMs)} milliseconds' as "filesOverdue"
      from results r left join private_locations l on l.id = r.location_id
      where r.monitor_id = ${monitorId} and r.account_id = ${accountId} and r.slot = ${new Date(slotMs)}`,
)

/** A monitor and its state in each of its locations. */
export interface StatusRow {
  id: string
  name: string
  checkType: CheckType
  activated: boolean
  locations: LocationState[]
}

type LocationStatus = CheckStatus['locations'][number]

/** The state in a location, as the public API has it but for the ids of results. */
export interface LocationState extends Omit<LocationStatus, 'lastCheckResultId' | 'silence'> {
  locationId: string
  silence: Omit<NonNullable<LocationStatus['silence']>, 'lastCheckResultId'> | null
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
    'lastSlot', ${instantText('r.slot')},
    'since', (select ${instantText('min(r.slot)')} from ${ROWS}
      and r.slot > coalesce(s.slot, '-infinity'))) as reported
  from (select * from ${ROWS} order by r.slot desc limit 1) r
  where r.slot > coalesce(s.slot, '-infinity')`

const STATUS = `select m.id, m.name, m.check_type as "checkType", m.activated,
    coalesce((select jsonb_agg(jsonb_build_object('locationId', p.location_id, 'location', l.slug_name,
        'unattended', ${UNATTENDED}, 'verdict', s.verdict, 'lastSlot', ${instantText('s.slot')},
        'since', ${instantText('s.since')}, 'silence', q.reported)
        order by l.slug_name)
      from placements p join private_locations l on l.id = p.location_id
      left join lateral (${NEWEST}) s on true
      left join lateral (${SILENCE}) q on true
      where p.monitor_id = m.id and p.until_ms is null), '[]') as locations`

/** The state of a monitor; undefined when the account has none of that id. */
export const readStatus = queryRow(
  (accountId: string, id: string) => sql<StatusRow>('check-status')`
      ${raw(STATUS)} from monitors m where m.id = ${id} and m.account_id = ${accountId} and m.deleted_at is null`,
)

const STATUSES_AT_ONCE = 500

/** The states of all monitors of an account, newest monitors first; read in bounded parts. */
export async function listStatuses(connection: Queryable, accountId: string): Promise<StatusRow[]> {
  const all: StatusRow[] = []
  let [after, id] = startOf(undefined)
  for (;;) {
    const found = await connection.query(sql<StatusRow & { createdAt: string }>(
      'check-statuses-page',
    )`
      ${raw(STATUS)}, m.created_at::text as "createdAt"
      from (select * from monitors
        where account_id = ${accountId} and deleted_at is null
          and (created_at, id) < (${after}::timestamptz, ${id}::uuid)
        order by created_at desc, id desc limit ${STATUSES_AT_ONCE}) m
      order by m.created_at desc, m.id desc`)
    all.push(...found)
    const last = found.at(-1)
    if (last === undefined || found.length < STATUSES_AT_ONCE) return all
    ;({ createdAt: after, id } = last)
  }
}

/** The values of a statement that start a page: at the beginning, or after a place. */
function startOf(after: Place | undefined): [instant: string, id: string] {
  return after === undefined
    ? ['infinity', 'ffffffff-ffff-ffff-ffff-ffffffffffff']
    : [instantOf(after), after.id]
}
