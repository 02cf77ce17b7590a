// Statements of those who ask for runs: asked, listed, read, cancelled.
import { PROTOCOL_BOUNDS, type WireResult } from '../../../contract/protocol/agent-protocol.ts'
import { type Run, RUN_BOUNDS } from '../../../contract/api/run.ts'
import type { ProgressWire } from '../../../contract/protocol/run-progress.ts'
import { instantJson, textJson } from '../../../database/json-text.ts'
import { pageStatement } from '../../../database/page.ts'
import { statement, type Connection } from '../../../database/statement.ts'

/** A run from the row `r` as JSON text. */
function runJson(r: string): string {
  const orNull = (json: string) => `coalesce(${json}, 'null')`
  return `'{"id":"' || ${r}.id || '","checkId":"' || ${r}.monitor_id
    || (select '","checkName":' || ${textJson('m.name')} || ',"checkType":"' || m.check_type
        from monitors m where m.id = ${r}.monitor_id)
    || (select '","location":' || ${textJson('l.slug_name')}
        from private_locations l where l.id = ${r}.location_id)
    || ',"state":"' || ${r}.state
    || '","verdict":' || ${orNull(textJson(`${r}.verdict`))}
    || ',"missedReason":' || ${orNull(textJson(`${r}.missed_reason`))}
    || ',"needed":' || ${orNull(textJson(`${r}.needed`))}
    || ',"cancelRequested":' || (${r}.cancel_asked_at is not null)
    || ',"askedBy":' || ${textJson(`${r}.asked_by`)}
    || ',"createdAt":' || ${instantJson(`${r}.created_at`)}
    || ',"finishedAt":' || ${orNull(instantJson(`${r}.finished_at`))} || '}'`
}

/** The runs of a monitor. */
export const listRuns = pageStatement({
  name: 'runs-page',
  from: 'runs',
  where: 'monitor_id = $1::uuid',
  json: runJson('i'),
})

const exists = statement<[string, string], { id: string }>(
  'runs-monitor',
  `select id from monitors where id = $1 and account_id = $2`,
)

/** Whether the account has or had the monitor. */
export async function knowsMonitor(
  connection: Connection,
  accountId: string,
  monitorId: string,
): Promise<boolean> {
  return (await exists(connection, monitorId, accountId)).length > 0
}

/** A location of a monitor; `current`: the monitor's slots are due there now. */
export interface RunnableIn {
  id: string
  slug: string
  current: boolean
}

const where = statement<[string, string], { id: string | null; slug: string; current: boolean }>(
  'runs-where',
  `select l.id, l.slug_name as slug, p.monitor_id is not null as current
   from monitors m
   left join private_locations l on l.id = any (m.location_ids) and l.account_id = m.account_id
   left join placements p
     on p.location_id = l.id and p.monitor_id = m.id and p.until_ms is null
   where m.id = $1 and m.account_id = $2 and m.deleted_at is null
   order by l.id`,
)

/** Where a monitor can be run by hand, by id; undefined when the account has no such monitor. */
export async function locationsOf(
  connection: Connection,
  accountId: string,
  monitorId: string,
): Promise<RunnableIn[] | undefined> {
  const rows = await where(connection, monitorId, accountId)
  if (rows.length === 0) return undefined
  return rows.filter((row): row is RunnableIn => row.id !== null)
}

const lock = statement<[string], never>(
  'runs-lock',
  `select pg_advisory_xact_lock(hashtextextended('runs of ' || $1, 0))`,
)

const insert = statement<[string, string, string, string, string, number], { json: string }>(
  'runs-insert',
  `with asked as (
     insert into runs as r (id, account_id, monitor_id, location_id, state, asked_by)
     select $1, $2, $3, $4, 'queued', $5
     where (select count(*) from runs where location_id = $4 and state <> 'finished') < $6
     returning r.*
   ), told as (select pg_notify('vedette_agents', location_id::text) from asked)
   select ${runJson('a')} as json from asked a, told`,
)

/** A run that is to be asked for. */
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
export async function insertRun(tx: Connection, run: NewRun): Promise<string | undefined> {
  const { id, accountId, monitorId, locationId, askedBy } = run
  await lock(tx, locationId)
  const openMax = PROTOCOL_BOUNDS.onDemandRunsMax
  return (await insert(tx, id, accountId, monitorId, locationId, askedBy, openMax))[0]?.json
}

/** A run of an account and, if given, of this monitor. */
export interface RunAddress {
  id: string
  accountId: string
  monitorId?: string
}

const cancel = statement<[string, string | null, string], { id: string }>(
  'runs-cancel',
  `with changed as (
     update runs set cancel_asked_at = clock_timestamp(),
       state = case when state = 'queued' then 'finished' else state end,
       verdict = case when state = 'queued' then 'cancelled' end,
       finished_at = case when state = 'queued' then clock_timestamp() end
     where id = $1 and ($2::uuid is null or monitor_id = $2) and account_id = $3
       and state <> 'finished'
       and cancel_asked_at is null
     returning id, location_id
   ), told as (select pg_notify('vedette_agents', location_id::text) from changed)
   select id from changed, told`,
)

/**
 * Cancels a run: at once when no agent has it, else its agent is notified. Does nothing when it is finished or
 * being cancelled.
 */
export async function cancelRun(connection: Connection, run: RunAddress): Promise<void> {
  await cancel(connection, run.id, run.monitorId ?? null, run.accountId)
}

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

const read = statement<[string, string | null, string], RunRow>(
  'runs-read',
  `select ${runJson('r')} as json, r.state, r.cancel_asked_at is not null as "cancelAsked",
     r.location_id as "locationId", r.result,
     case when r.state in ('sent', 'running') then r.progress end as progress,
     case when r.state in ('sent', 'running') then r.progress_at end as "progressAt",
     coalesce(r.finished_at < clock_timestamp() - interval '${artifactAwaitedMs} milliseconds', false)
       as "filesOverdue"
   from runs r
   where r.id = $1 and ($2::uuid is null or r.monitor_id = $2) and r.account_id = $3`,
)

/** A run of the account. */
export async function readRun(
  connection: Connection,
  run: RunAddress,
): Promise<RunRow | undefined> {
  return (await read(connection, run.id, run.monitorId ?? null, run.accountId))[0]
}
