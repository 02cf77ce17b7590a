// Statements on agents: when each reported last, and which are in a location now. Changes require the
// location's lock; see platform/agents/agent-registry.ts.
import { PROTOCOL_BOUNDS } from '../../../contract/protocol/agent-protocol.ts'
import {
  execute,
  queryAny,
  queryAs,
  queryRow,
  queryValues,
  raw,
  sql,
} from '../../../database/sql.ts'

/** The channel on which a location's id is announced when its agents have news to fetch. */
export const AGENTS_CHANNEL = 'vedette_agents'

/** State of an agent and its location. */
export interface AgentStanding {
  state: 'live' | 'left' | 'lost'
  instance: string
  revision: number
  epoch: number
  slug_name: string
  /** Encrypted. */
  proxy_url: string | null
  /** Members of the newest epoch, this agent not counted. */
  peers: number
}

const STANDING = `a.state, a.instance, l.revision, l.epoch, l.slug_name, l.proxy_url,
  (select count(*) from jsonb_array_elements(e.members) m where m->>'id' <> a.id::text)::int as peers`
const ITS_LOCATION = `join private_locations l on l.id = a.location_id
  left join location_epochs e on e.location_id = l.id and e.epoch = l.epoch`

/** Report of an agent on itself with each call. */
export interface AgentSaying {
  locationId: string
  id: string
  instance: string
  version: string
  image: string
  abilities: readonly string[]
  queues: object
  /** Code of a problem of its own network. */
  networkProblem?: string | undefined
}

/**
 * Records a heartbeat of a live agent, or of one that has left and still finishes its work. Undefined when
 * no agent with this id, instance, abilities and state is known.
 */
export const touchAgent = queryRow((said: AgentSaying, state: 'live' | 'left') => {
  const { locationId, id, instance, abilities, networkProblem = null } = said
  return sql<AgentStanding>('agent-touch')`
      with seen as (
        update agents set last_seen_at = clock_timestamp(),
          queues = ${JSON.stringify(said.queues)}::jsonb, network_problem = ${networkProblem}::text,
          network_problem_since = case when ${networkProblem}::text is not null
            then coalesce(network_problem_since, clock_timestamp()) end
        where location_id = ${locationId} and id = ${id} and instance = ${instance}
          and abilities = ${abilities}::text[] and state = ${state}
        returning *
      )
      select ${raw(STANDING)} from seen a ${raw(ITS_LOCATION)}`
})

/** Records a heartbeat of a live agent and changes nothing else; true when the agent is live. */
export const noteAgent = queryAny(
  ({ locationId, id, instance }: Pick<AgentSaying, 'locationId' | 'id' | 'instance'>) => sql(
    'agent-note',
  )`
      update agents set last_seen_at = clock_timestamp()
      where location_id = ${locationId} and id = ${id} and instance = ${instance} and state = 'live' returning id`,
)

/** State of an agent; undefined when it never reported there. */
export const agentStanding = queryRow(
  (locationId: string, id: string) => sql<AgentStanding>('agent-standing')`
      select ${raw(STANDING)} from agents a ${raw(ITS_LOCATION)} where a.location_id = ${locationId} and a.id = ${id}`,
)

export interface AgentRow {
  instance: string
  former_instances: string[]
  abilities: string[]
  state: 'live' | 'left' | 'lost'
}

/** Reads a known agent. */
export const findAgent = queryRow(
  (locationId: string, id: string) => sql<AgentRow>('agent-find')`
      select instance, former_instances, abilities, state from agents
      where location_id = ${locationId} and id = ${id}`,
)

const FORMER_MAX = 16

/** Records what an agent reports and its state: live, or left just now. */
export const writeAgent = execute((said: AgentSaying, state: 'live' | 'left') => {
  const { locationId, id, instance, version, image, abilities, networkProblem = null } = said
  return sql('agent-write')`
      insert into agents as a
        (location_id, id, instance, version, image, abilities, queues, state, network_problem,
          network_problem_since)
      values (${locationId}, ${id}, ${instance}, ${version}, ${image}, ${abilities}::text[],
        ${JSON.stringify(said.queues)}::jsonb, ${state}, ${networkProblem}::text,
        case when ${networkProblem}::text is not null then clock_timestamp() end)
      on conflict (location_id, id) do update set
        former_instances = case when a.instance = excluded.instance then a.former_instances
          else (array[a.instance] || a.former_instances)[1:${raw(FORMER_MAX)}] end,
        instance = excluded.instance, version = excluded.version, image = excluded.image,
        abilities = excluded.abilities, queues = excluded.queues, state = excluded.state,
        live_since = case when a.state = 'live' and a.instance = excluded.instance
          then a.live_since else clock_timestamp() end,
        network_problem = excluded.network_problem,
        network_problem_since = case when excluded.network_problem is not null
          then coalesce(a.network_problem_since, clock_timestamp()) end,
        last_seen_at = clock_timestamp()`
})

/** The platform counts as paused after this time without a pulse. */
const PAUSED_SINCE = `clock_timestamp() - interval '5 seconds'`

/** Whether the agent `a` timed out, at the earliest from the platform's start on: before it, no agent could report. */
const SILENT = raw(`a.state = 'live' and exists (
  select from platform_pulse p where p.last > ${PAUSED_SINCE}
    and greatest(a.last_seen_at, p.since)
      < clock_timestamp() - interval '${PROTOCOL_BOUNDS.agentTimeoutMs} milliseconds')`)

/** Locations with agents whose heartbeat timed out. */
export const unresponsiveLocations = queryValues(
  () => sql<{ id: string }>('agents-silent')`
      select distinct location_id as id from agents a where ${SILENT}`,
)

/** Marks the agents of a location whose heartbeat timed out as lost; returns their ids. */
export const loseAgents = queryValues(
  (locationId: string) => sql<{ id: string }>('agents-lose')`
      update agents a set state = 'lost' where location_id = ${locationId} and ${SILENT}
      returning id`,
)

/** The number of agents in each state. */
export const countAgents = queryAs(
  () => sql<{ state: string; agents: number }>('agents-count')`
      select state, count(*)::int as agents from agents group by state`,
  (rows) => Object.fromEntries(rows.map(({ state, agents }) => [state, agents])),
)

/**
 * Drops agents not seen for `days`, except the last one of each location: a location whose agent stopped
 * reporting is distinguished from one that never had any.
 */
export const forgetAgents = execute(
  (days: number) => sql('agents-forget')`
      delete from agents a
      where state <> 'live' and last_seen_at < clock_timestamp() - make_interval(days => ${days})
        and exists (select from agents later where later.location_id = a.location_id
          and (later.last_seen_at, later.id) > (a.last_seen_at, a.id))`,
)

/** Heartbeat of a platform process; after a pause a new period begins. */
export const beatPulse = execute(
  () => sql('platform-beat')`
      insert into platform_pulse as p (since, last) values (clock_timestamp(), clock_timestamp())
      on conflict (one) do update set last = clock_timestamp(),
        since = case when p.last < ${raw(PAUSED_SINCE)} then clock_timestamp() else p.since end`,
)
