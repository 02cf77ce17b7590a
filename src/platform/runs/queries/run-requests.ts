// Statements of those who ask for runs: asked, listed, read, cancelled.
import { PROTOCOL_BOUNDS, type WireResult } from '../../../contract/protocol/agent-protocol.ts'
import { type Run, RUN_BOUNDS } from '../../../contract/api/run.ts'
import type { ProgressWire } from '../../../contract/protocol/run-progress.ts'
import { instantText, rowJson } from '../../../database/row-json.ts'
import { pageStatement } from '../../../database/page.ts'
import { execute, queryAny, queryAs, queryRow, raw, sql } from '../../../database/sql.ts'
import { AGENTS_CHANNEL } from '../../agents/queries/agents.ts'
import type { Queryable } from '../../../database/database.ts'

/** The columns of the row `r` as the public contract has a run. */
function runColumns(r: string): string {
  return `${r}.id, ${r}.monitor_id as "checkId",
    (select m.name from monitors m where m.id = ${r}.monitor_id) as "checkName",
    (select m.check_type from monitors m where m.id = ${r}.monitor_id) as "checkType",
    (select l.slug_name from private_locations l where l.id = ${r}.location_id) as location,
    ${r}.state, ${r}.verdict, ${r}.missed_reason as "missedReason", ${r}.needed,
    ${r}.cancel_asked_at is not null as "cancelRequested", ${r}.asked_by as "askedBy",
    ${instantText(`${r}.created_at`)} as "createdAt",
    ${instantText(`${r}.finished_at`)} as "finishedAt"`
}

/** The runs of a monitor. */
export const listRuns = pageStatement({
  name: 'runs-page',
  from: 'runs',
  where: 'monitor_id = $1::uuid',
  entry: `${rowJson(runColumns('i'))}::text`,
})

/** Whether the account has or had the monitor. */
export const knowsMonitor = queryAny(
  (accountId: string, monitorId: string) => sql('runs-monitor')`
      select id from monitors where id = ${monitorId} and account_id = ${accountId}`,
)

/** A location of a monitor; `current`: the monitor's slots are due there now. */
export interface RunnableIn {
  id: string
  slug: string
  current: boolean
}

/** Where a monitor can be run by hand, by id; undefined when the account has no such monitor. */
export const locationsOf = queryAs(
  (accountId: string, monitorId: string) => sql<{
    id: string | null
    slug: string
    current: boolean
  }>('runs-where')`
      select l.id, l.slug_name as slug, p.monitor_id is not null as current
      from monitors m
      left join private_locations l on l.id = any (m.location_ids) and l.account_id = m.account_id
      left join placements p
        on p.location_id = l.id and p.monitor_id = m.id and p.until_ms is null
      where m.id = ${monitorId} and m.account_id = ${accountId} and m.deleted_at is null
      order by l.id`,
  (rows) =>
    rows.length === 0 ? undefined : rows.filter((row): row is RunnableIn => row.id !== null),
)

export interface NewRun {
  id: string
  accountId: string
  monitorId: string
  locationId: string
  askedBy: string
}

/**
 * Asks for a run and notifies the location's agents; undefined when too many are open there. To be called
 * in a transaction, for several locations in the order of their ids.
 */
export async function insertRun(tx: Queryable, run: NewRun): Promise<string | undefined> {
  const { id, accountId, monitorId, locationId, askedBy } = run
  await tx.query(sql('runs-lock')`
      select pg_advisory_xact_lock(hashtextextended('runs of ' || ${locationId}, 0))`)
  const openMax = PROTOCOL_BOUNDS.onDemandRunsMax
  const rows = await tx.query(sql<{ json: string }>('runs-insert')`
      with asked as (
        insert into runs as r (id, account_id, monitor_id, location_id, state, asked_by)
        select ${id}, ${accountId}, ${monitorId}, ${locationId}, 'queued', ${askedBy}
        where (select count(*) from runs where location_id = ${locationId} and state <> 'finished') < ${openMax}
        returning r.*
      ), notified as (select pg_notify('${raw(AGENTS_CHANNEL)}', location_id::text) from asked)
      select ${raw(rowJson(runColumns('a')))}::text as json from asked a, notified`)
  return rows[0]?.json
}

/** A run of an account and, if given, of this monitor. */
export interface RunAddress {
  id: string
  accountId: string
  monitorId?: string
}

/**
 * Cancels a run: at once when no agent has it, else its agent is notified. Does nothing when it is finished or
 * being cancelled.
 */
export const cancelRun = execute(
  (run: RunAddress) => sql('runs-cancel')`
      with changed as (
        update runs set cancel_asked_at = clock_timestamp(),
          state = case when state = 'queued' then 'finished' else state end,
          verdict = case when state = 'queued' then 'cancelled' end,
          finished_at = case when state = 'queued' then clock_timestamp() end
        where id = ${run.id} and (${run.monitorId ?? null}::uuid is null or monitor_id = ${run.monitorId ?? null}) and account_id = ${run.accountId}
          and state <> 'finished'
          and cancel_asked_at is null
        returning id, location_id
      ), notified as (select pg_notify('${raw(AGENTS_CHANNEL)}', location_id::text) from changed)
      select id from changed, notified`,
)

/** A run as it is read: its public part as text, and its result as the agent sent it. */
export interface RunRow {
  json: string
  state: Run['state']
  cancelAsked: boolean
  locationId: string
  result: WireResult | null
  /** The newest progress that its agent reported. */
  progress: Omit<ProgressWire, 'run'> | null
  progressAt: Date | null
  /** Files of it that have not come are not awaited any more. */
  filesOverdue: boolean
}

const { artifactAwaitedMs } = RUN_BOUNDS

/** A run of the account. */
export const readRun = queryRow(
  (run: RunAddress) => sql<RunRow>('runs-read')`
      select ${raw(rowJson(runColumns('r')))}::text as json, r.state, r.cancel_asked_at is not null as "cancelAsked",
        r.location_id as "locationId", r.result,
        case when r.state in ('sent', 'running') then r.progress end as progress,
        case when r.state in ('sent', 'running') then r.progress_at end as "progressAt",
        coalesce(r.finished_at < clock_timestamp() - interval '${raw(artifactAwaitedMs)} milliseconds', false)
          as "filesOverdue"
      from runs r
      where r.id = ${run.id} and (${run.monitorId ?? null}::uuid is null or r.monitor_id = ${run.monitorId ?? null}) and r.account_id = ${run.accountId}`,
)
