// Agent registry of a location: agents join, leave, time out and return. Each change begins an epoch
// under the location's lock, so that at every slot exactly one list of members is valid.
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import {
  type AgentRow,
  type AgentSaying,
  findAgent,
  loseAgents,
  writeAgent,
} from './queries/agents.ts'
import type { Database, Queryable } from '../../database/database.ts'
import {
  announceNews,
  beginEpoch,
  type EpochCause,
  type LockedLocation,
  lockLocation,
} from './queries/location-epochs.ts'
import { handBackRuns } from '../runs/queries/runs.ts'
import { ApiError, orNotFound } from '../http/errors.ts'

/** Receives each epoch that this process began, and the number of agents it gave up. */
export interface AgentRegistryListener {
  began(kind: EpochCause['kind']): void
  lost(agents: number): void
}

/** Announcement of a leaving agent. */
export interface Leaving {
  /** It starts no slot from here on. */
  atMs: number
  notStarted: readonly { monitorId: string; slot: number }[]
}

/** The members of locations, as one process changes them. */
export class AgentRegistry {
  readonly #database: Database
  readonly #news: AgentRegistryListener

  constructor(database: Database, news: AgentRegistryListener) {
    this.#database = database
    this.#news = news
  }

  /**
   * Admits an agent: a new one, or one that returned, restarted, or changed its abilities. Throws 409 when
   * another process uses its id now, 403 when the location is full.
   */
  async register(said: AgentSaying): Promise<void> {
    await this.#change(said.locationId, async (tx, location) => {
      const known = await findAgent(tx, said.locationId, said.id)
      refuseFormer(known, said)
      const cause = causeOf(known, said, location)
      if (cause?.kind === 'join' && location.members.length >= PROTOCOL_BOUNDS.membersMax) {
        throw new ApiError(403, `This location has ${PROTOCOL_BOUNDS.membersMax} agents already`)
      }
      await writeAgent(tx, said, 'live')
      if (known !== undefined && known.instance !== said.instance) {
        // A restarted agent does not know the runs on demand of its former process.
        await handBackRuns(tx, { locationId: said.locationId, agentId: said.id })
      }
      // Another process of the same agent may be waiting: it must learn that it was superseded.
      if (cause === undefined) await announceNews(tx, said.locationId)
      else return this.#begin(tx, location, { ...cause, fromMs: epochStartMs(cause, location) })
    })
  }

  /** Records that an agent leaves; idempotent. Throws 409 like `register`. */
  async leave(said: AgentSaying, { atMs, notStarted }: Leaving): Promise<void> {
    await this.#change(said.locationId, async (tx, location) => {
      const known = await findAgent(tx, said.locationId, said.id)
      refuseFormer(known, said)
      await writeAgent(tx, said, 'left')
      if (!location.members.some(({ id }) => id === said.id)) return
      const { nowMs } = location
      const goneAtMs = Math.ceil(
        Math.min(Math.max(atMs, nowMs - LEFT_AGO_MS_MAX), nowMs + PROTOCOL_BOUNDS.handOverMs),
      )
      const cause: EpochCause = { kind: 'leave', agents: [said.id], atMs: nowMs, goneAtMs }
      if (notStarted.length > 0) cause.notStarted = firstSlots(notStarted)
      return this.#begin(tx, location, { ...cause, fromMs: goneAtMs })
    })
  }

  /** Gives up the agents of a location whose heartbeat timed out. */
  async loseUnresponsive(locationId: string): Promise<void> {
    const ids = await this.#change(locationId, async (tx, location) => {
      const gone = await loseAgents(tx, locationId)
      if (gone.length === 0) return gone
      for (const agentId of gone) await handBackRuns(tx, { locationId, agentId })
      const { nowMs } = location
      const cause: EpochCause = { kind: 'lost', agents: gone, atMs: nowMs, goneAtMs: null }
      await this.#begin(tx, location, { ...cause, fromMs: nowMs })
      return gone
    })
    if (ids.length > 0) this.#news.lost(ids.length)
  }

  #change<T>(
    locationId: string,
    work: (tx: Queryable, location: LockedLocation) => Promise<T>,
  ): Promise<T> {
    return this.#database.transaction(async (tx) => {
      const location = orNotFound(await lockLocation(tx, locationId), 'location')
      return work(tx, location)
    })
  }

  async #begin(
    tx: Queryable,
    location: LockedLocation,
    { fromMs, ...cause }: EpochCause & { fromMs: number },
  ): Promise<void> {
    await beginEpoch(tx, location.id, {
      epoch: location.epoch + 1,
      fromMs: Math.max(fromMs, location.fromMs),
      cause,
    })
    this.#news.began(cause.kind)
  }
}

/** Maximum age of the time of leaving that an agent reports. */
const LEFT_AGO_MS_MAX = 30_000

function refuseFormer(known: AgentRow | undefined, said: AgentSaying): void {
  if (known === undefined || !known.former_instances.includes(said.instance)) return
  throw superseded(said.id)
}

/** 409 for a process whose agent id another one has taken over. */
export function superseded(agentId: string): ApiError {
  return new ApiError(
    409,
    `Another process has taken over the agent id ${agentId}: give each agent its own DATA_DIR`,
  )
}

/** The cause of the epoch that registering the agent begins; undefined: it begins none. */
function causeOf(
  known: AgentRow | undefined,
  { id, abilities }: AgentSaying,
  { members, nowMs: atMs }: LockedLocation,
): EpochCause | undefined {
  if (known?.state !== 'live' || !members.some((one) => one.id === id)) {
    return { kind: 'join', agents: [id], atMs }
  }
  const now = new Set(abilities)
  const hasLost = known.abilities.some((one) => !now.has(one))
  // Monitors that it can no longer run stay without an owner until the next epoch.
  if (hasLost) return { kind: 'change', agents: [id], atMs, goneAtMs: null }
  const isSame = known.abilities.length === now.size
  return isSame ? undefined : { kind: 'change', agents: [id], atMs }
}

/** Other agents are notified a moment before they give up a monitor. */
function epochStartMs(cause: EpochCause, { nowMs, members }: LockedLocation): number {
  const [id] = cause.agents
  const hasOthers = members.some((one) => one.id !== id)
  return hasOthers && cause.goneAtMs === undefined ? nowMs + PROTOCOL_BOUNDS.handOverMs : nowMs
}

function firstSlots(
  notStarted: readonly { monitorId: string; slot: number }[],
): Record<string, number> {
  const first: Record<string, number> = {}
  for (const { monitorId, slot } of notStarted) {
    first[monitorId] = Math.min(first[monitorId] ?? Infinity, slot)
  }
  return first
}
