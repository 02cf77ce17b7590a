// Statements that end stale runs: their agent is gone, no agent accepts them, or their monitor was deleted.
import type { MissedReason } from '../../../contract/result.ts'
import { RUN_BOUNDS } from '../../../contract/api/run.ts'
import { execute, queryAs, raw, sql } from '../../../database/sql.ts'
import { AGENTS_CHANNEL } from '../../agents/queries/agents.ts'

/** Time for a leaving agent to finish and deliver its runs. */
const LEFT_MS = 60_000
/** Time for an agent to cancel a run, by whether it has accepted the run. */
const CANCEL_UNTAKEN_MS = 30_000
const CANCEL_TAKEN_MS = 600_000

/** After a pause of the platform, agents have this long to return before runs count as impossible. */
const AGENTS_BACK_MS = 30_000

const { takenWithinMs, openMsMax } = RUN_BOUNDS

const ago = (ms: number) => `clock_timestamp() - interval '${ms} milliseconds'`

/** Whether the agent of the run `r` is gone for good; an unknown agent counts as gone. */
const GONE = `not exists (select from agents a
     where a.location_id = r.location_id and a.id = r.agent_id and (a.state = 'live' or (a.state = 'left' and a.last_seen_at > ${ago(LEFT_MS)})))`

/**
 * Whether no agent will accept the run `r`: its location has live agents, and none of them can run it. A
 * capable one that has just gone may be restarting.
 */
const HOPELESS = `coalesce((select since from platform_pulse) < ${ago(AGENTS_BACK_MS)}, true)
   and exists (select from agents a where a.location_id = r.location_id and a.state = 'live')
   and not exists (select from agents a where a.location_id = r.location_id
     and (a.state = 'live' or a.last_seen_at > ${ago(takenWithinMs)})
     and a.abilities @> coalesce(p.needs, array[m.check_type]))`

/** Requeues the runs of agents that are gone, and notifies the others. */
export const handBackLostRuns = execute(
  () => sql('runs-hand-back-lost')`
      with lost as (
        update runs r set state = 'queued', agent_id = null, taken_at = null,
          queued_at = clock_timestamp()
        where r.state in ('sent', 'running') and r.cancel_asked_at is null and ${raw(GONE)}
        returning r.id, r.location_id
      ), notified as (select pg_notify('${raw(AGENTS_CHANNEL)}', location_id::text)
        from (select distinct location_id from lost) l)
      select id from lost where (select count(*) from notified) > 0`,
)

/** Ends cancelled runs whose agent will not report it, and runs of deleted monitors. */
export const endCancelledRuns = execute(
  () => sql('runs-end-cancelled')`
      update runs r set state = 'finished', verdict = 'cancelled', finished_at = clock_timestamp(),
        filled = true
      where r.state <> 'finished' and (
        (r.cancel_asked_at is not null and (${raw(GONE)}
          or (r.taken_at is null and r.cancel_asked_at < ${raw(ago(CANCEL_UNTAKEN_MS))})
          or r.cancel_asked_at < ${raw(ago(CANCEL_TAKEN_MS))}))
        or exists (select from monitors m where m.id = r.monitor_id and m.deleted_at is not null))`,
)

/** A run that no agent accepted in time or can run, or that was accepted and never reported. */
export interface OverdueRun {
  id: string
  needs: string[]
  /** The abilities of each live agent of its location. */
  abilities: string[][]
  /** Whether any agent ever reported from its location. */
  attended: boolean
}

/** Runs that timed out, pauses of the platform not counted, and runs that no agent will accept. */
export const overdueRuns = queryAs(
  () => sql<Omit<OverdueRun, 'abilities'> & { abilities: string[][] | null }>('runs-overdue')`
      select r.id, coalesce(p.needs, array[m.check_type]) as needs,
        (select jsonb_agg(to_jsonb(a.abilities)) from agents a
         where a.location_id = r.location_id and a.state = 'live') as abilities,
        -- Agents that are long gone are deleted; the number of the epoch is not.
        l.epoch > 0 or exists (select from agents a where a.location_id = l.id) as attended
      from runs r join monitors m on m.id = r.monitor_id
      join private_locations l on l.id = r.location_id
      left join placements p on p.location_id = r.location_id and p.monitor_id = r.monitor_id
      where r.state <> 'finished' and (
        (r.taken_at is null
          and greatest(r.queued_at, (select since from platform_pulse)) < ${raw(ago(takenWithinMs))})
        or r.queued_at < ${raw(ago(openMsMax))}
        or (r.state = 'queued' and ${raw(HOPELESS)}))
      limit 1000`,
  (rows) => rows.map((row) => ({ ...row, abilities: row.abilities ?? [] })),
)

/** Records a run as missed; a later result replaces that. */
export const missRun = execute(
  (id: string, why: { reason: MissedReason; needed: string | null }) => sql('run-miss')`
      update runs set state = 'finished', verdict = 'missed', missed_reason = ${why.reason}, needed = ${why.needed},
        finished_at = clock_timestamp(), filled = true
      where id = ${id} and state <> 'finished'`,
)

/** Drops runs that were finished longer than `retentionMs` ago. */
export const dropOldRuns = execute(
  (retentionMs: number) => sql('runs-drop')`
      delete from runs where id in (
        select id from runs where state = 'finished'
          and finished_at < clock_timestamp() - make_interval(secs => ${retentionMs}::double precision / 1000)
        limit 10000)`,
)
