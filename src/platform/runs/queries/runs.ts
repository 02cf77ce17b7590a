// Statements on runs on demand: requested, handed to one agent, finished once.
//
//   queued ──sync──▶ sent ──begun──▶ running ──result──▶ finished
//     ▲               │                 │                   ▲
//     └── agent lost ─┴─────────────────┘      cancelled or missed in time
//
// A trigger announces every change on `vedette_runs`. Changes for agents are announced on `vedette_agents`
// with the id of the location, like all other news for them.
import type { SyncRequest, WireResult } from '../../../contract/protocol/agent-protocol.ts'
import type { ProgressWire } from '../../../contract/protocol/run-progress.ts'
import { execute, queryRows, queryValues, sql } from '../../../database/sql.ts'

/** Announces each run that changed, by its id. */
export const RUNS_CHANNEL = 'vedette_runs'

export interface OpenRun {
  id: string
  monitorId: string
  /** The effective definition of the monitor, encrypted. */
  effective: string
  /** Abilities that an agent needs to run it, as in placements.needs. */
  needs: string[]
  state: 'queued' | 'sent' | 'running'
  /** The agent that it was sent to; null: it goes to the monitor's owner. */
  agentId: string | null
  /** The agent has confirmed it, so it need not be sent again. */
  taken: boolean
  /** Its cancellation was requested; never true while it is queued. */
  cancelAsked: boolean
}

/** Open runs of a location, oldest first. */
export const openRunsFor = queryRows(
  (locationId: string) => sql<OpenRun>('runs-open')`
      select r.id, r.monitor_id as "monitorId", m.effective,
        coalesce(p.needs, array[m.check_type]) as needs, r.state, r.agent_id as "agentId",
        r.taken_at is not null as taken, r.cancel_asked_at is not null as "cancelAsked"
      from runs r join monitors m on m.id = r.monitor_id
      left join placements p on p.location_id = r.location_id and p.monitor_id = r.monitor_id
      where r.location_id = ${locationId} and r.state <> 'finished' and m.deleted_at is null
      order by r.created_at, r.id`,
)

/** Assigns queued runs to an agent; returns the ids of those that no other agent got first. */
export const assignRuns = queryValues(
  (to: { locationId: string; agentId: string }, ids: string[]) => sql<{ id: string }>('runs-take')`
      update runs set state = 'sent', agent_id = ${to.agentId}, taken_at = null, progress = null,
        progress_at = null
      where location_id = ${to.locationId} and id = any (${ids}::uuid[]) and state = 'queued' returning id`,
)

/**
 * Records the states that an agent reports of its runs. Returns the runs that it must cancel: finished
 * without it, assigned to another agent, or unknown here.
 */
export const noteRunStates = queryValues(
  (from: { locationId: string; agentId: string }, said: SyncRequest['runs']) => {
    const states = said.map(({ state }) => (state === 'running' ? 'running' : 'sent'))
    const ids = said.map(({ run }) => run)
    return sql<{ id: string }>('runs-note')`
      with said as (
        select * from unnest(${ids}::uuid[], ${states}::text[]) as one (id, state)
      ), changed as (
        update runs r set agent_id = ${from.agentId}, taken_at = coalesce(r.taken_at, clock_timestamp()),
          state = case when r.state = 'running' then r.state else said.state end
        from said
        where r.id = said.id and r.location_id = ${from.locationId} and (
          (r.state in ('sent', 'running') and r.agent_id = ${from.agentId}
            and (r.taken_at is null or (r.state = 'sent' and said.state = 'running')))
          or r.state = 'queued')
      )
      select said.id from said left join runs r on r.id = said.id and r.location_id = ${from.locationId}
      where r.id is null or r.state = 'finished' or (r.state <> 'queued' and r.agent_id <> ${from.agentId})`
  },
)

/** Records the progress of an agent's runs; reports about other runs are ignored. */
export const noteProgress = execute(
  (
    { locationId, id, instance }: { locationId: string; id: string; instance: string },
    said: readonly ProgressWire[],
  ) => sql('runs-progress')`
      update runs r set progress = said.progress, progress_at = clock_timestamp()
      from (select (one ->> 'run')::uuid as id, one - 'run' as progress
        from jsonb_array_elements(${JSON.stringify(said)}::jsonb) one) said
      where r.id = said.id and r.location_id = ${locationId} and r.agent_id = ${id}
        and r.state in ('sent', 'running') and r.progress is distinct from said.progress
        and exists (select from agents a
          where a.location_id = ${locationId} and a.id = ${id} and a.instance = ${instance})`,
)

/**
 * Requeues the runs of an agent that was lost or has restarted. Runs with a requested cancellation end,
 * since no agent will report it.
 */
export const handBackRuns = execute(
  (from: { locationId: string; agentId: string }) => sql('runs-hand-back')`
      update runs set taken_at = null,
        state = case when cancel_asked_at is null then 'queued' else 'finished' end,
        agent_id = case when cancel_asked_at is not null then agent_id end,
        queued_at = case when cancel_asked_at is null then clock_timestamp() else queued_at end,
        verdict = case when cancel_asked_at is not null then 'cancelled' end,
        finished_at = case when cancel_asked_at is not null then clock_timestamp() end,
        filled = cancel_asked_at is not null
      where location_id = ${from.locationId} and agent_id = ${from.agentId} and state in ('sent', 'running')`,
)

/** A result with the run that it answers. */
export type RunResult = WireResult & { onDemand: string }

/**
 * Finishes runs of a location by their results, one for each run. The first result of a run counts; it also
 * replaces the verdict of a run that the platform had given up.
 */
export const finishRuns = execute(
  (from: { locationId: string; agentId: string }, results: readonly RunResult[]) => sql(
    'runs-finish',
  )`
      update runs r set state = 'finished', agent_id = ${from.agentId},
        finished_at = clock_timestamp(), verdict = one.result->>'verdict',
        missed_reason = one.result->>'missedReason', needed = null, filled = false,
        result = one.result
      from jsonb_array_elements(${JSON.stringify(results)}::jsonb) one (result)
      where r.id = (one.result->>'onDemand')::uuid and r.location_id = ${from.locationId}
        and (r.state <> 'finished' or r.filled)`,
)
