// Hand-over: computes from the state of an agent which monitors it must run or drop, and from which slot on.
// Pure, so that every process gives the same answer.
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import type { Epoch, EpochCause, EpochMember } from './queries/location-epochs.ts'
import type { ChangedPlacement } from '../checks/queries/placement-changes.ts'
import { type Assignment, createAssignment } from './assignment.ts'

/** The state of an agent, read from its token. */
export interface SyncedState {
  epoch: number
  revision: number
}

/** A monitor that an agent is to run. */
export interface AssignedMonitor {
  placement: ChangedPlacement
  /**
   * Slots before this instant belong to the previous owner. -Infinity: there is no previous owner; the agent
   * continues after the last recorded slot.
   */
  fromMs: number
  /** From here on it belongs to another agent. */
  untilMs?: number
}

export interface HandOver {
  set: AssignedMonitor[]
  drop: { monitorId: string; until: number }[]
}

export interface HandOverFacts {
  agentId: string
  /** Undefined: it has no monitors, or its state is unknown. */
  synced: SyncedState | undefined
  /** Oldest first, the newest one last; the epoch of `synced` is among them. */
  epochs: readonly Epoch[]
  /** All current ones when epochs changed or `synced` is undefined; else the changed ones. */
  placements: readonly ChangedPlacement[]
  nowMs: number
}

/** Computes the changes to report to an agent. */
export function handOver({ agentId, synced, epochs, placements, nowMs }: HandOverFacts): HandOver {
  const history = new OwnerHistory(epochs, agentId)
  const newest = epochs.length - 1
  const present = epochs.findLastIndex(({ fromMs }) => fromMs <= nowMs)
  const syncedIndex = epochs.findIndex(({ epoch }) => epoch === synced?.epoch)
  const answer: HandOver = { set: [], drop: [] }
  for (const placement of placements) {
    const { monitorId, untilMs } = placement
    const isNews = synced === undefined || placement.revision > synced.revision
    const had = synced && history.stretch(placement, syncedIndex)
    const due = untilMs === null ? history.dueStretch(placement, { newest, present }) : undefined
    if (due !== undefined) {
      const fromMs = history.ownedFromMs(placement, due.first, newest)
      const goesOn =
        !isNews &&
        had?.first === due.first &&
        due.isUnbroken &&
        fromMs === history.ownedFromMs(placement, due.first, syncedIndex)
      const until = due.untilMs === undefined ? {} : { untilMs: due.untilMs }
      if (!goesOn) answer.set.push({ placement, fromMs, ...until })
      // The end was not yet known when the agent received the monitor.
      else if (due.untilMs !== undefined && due.last >= syncedIndex) {
        answer.drop.push({ monitorId, until: due.untilMs })
      }
    } else if (synced !== undefined && (isNews || had !== undefined)) {
      answer.drop.push({ monitorId, until: untilMs ?? had?.untilMs ?? nowMs })
    }
  }
  return answer
}

/**
 * Maximum time between the last heartbeat of a lost agent and its loss. A monitor that it handed over before
 * that, it had run until then.
 */
const LOST_AGO_MS = PROTOCOL_BOUNDS.agentTimeoutMs + 15_000

/** Epochs one after the other in which an agent owns a monitor. */
interface Stretch {
  first: number
  last: number
  /** Start of the next epoch; undefined while there is none. */
  untilMs: number | undefined
}

/** What one agent owned in each epoch. */
class OwnerHistory {
  readonly #epochs: readonly Epoch[]
  readonly #assignments: Assignment<EpochMember>[]
  readonly #agentId: string

  constructor(epochs: readonly Epoch[], agentId: string) {
    this.#epochs = epochs
    this.#assignments = epochs.map(({ members }) => createAssignment(members))
    this.#agentId = agentId
  }

  #owner({ monitorId, needs }: ChangedPlacement, at: number): string | undefined {
    return this.#assignments[at]?.owner(monitorId, needs)?.id
  }

  /** The stretch of the agent around the epoch `at`; undefined when it is not the owner in it. */
  stretch(placement: ChangedPlacement, at: number): Stretch | undefined {
    if (at < 0 || this.#owner(placement, at) !== this.#agentId) return undefined
    let last = at
    while (last + 1 < this.#epochs.length && this.#owner(placement, last + 1) === this.#agentId) {
      last++
    }
    const untilMs = this.#epochs[last + 1]?.fromMs
    return { first: this.#firstOf(placement, at), last, untilMs }
  }

  /** The first of the epochs up to `at` that have the same owner as it. */
  #firstOf(placement: ChangedPlacement, at: number): number {
    const owner = this.#owner(placement, at)
    let first = at
    while (first > 0 && this.#owner(placement, first - 1) === owner) first--
    return first
  }

  /** Whether the agent itself was gone after a stretch: it has dropped those monitors. */
  #isPast({ last }: Stretch): boolean {
    return this.#departure(this.#agentId, last + 1, this.#epochs.length - 1) !== undefined
  }

  /**
   * The stretch that the agent owns from now on, in the present and the coming epochs. If there are two of
   * them, the gap between them is run twice, since a slot must not be missed.
   */
  dueStretch(
    placement: ChangedPlacement,
    { newest, present }: { newest: number; present: number },
  ): (Stretch & { isUnbroken: boolean }) | undefined {
    let due: (Stretch & { isUnbroken: boolean }) | undefined
    for (let at = Math.max(present, 0); at <= newest; at++) {
      const stretch = this.stretch(placement, at)
      if (stretch === undefined || (stretch.untilMs !== undefined && this.#isPast(stretch)))
        continue
      due = { ...stretch, first: due?.first ?? stretch.first, isUnbroken: due === undefined }
      at = stretch.last
    }
    return due
  }

  /**
   * The instant from which the owner in the epoch `first` owns the monitor, as known in the epoch `upTo`: the
   * beginning of `first`, or the departure of the previous owner if earlier. -Infinity: there was no previous
   * owner, or its departure is unknown.
   */
  ownedFromMs(placement: ChangedPlacement, first: number, upTo: number): number {
    const before = this.#owner(placement, first - 1)
    if (before === undefined) return -Infinity
    const beginsMs = this.#epochs[first]?.fromMs ?? -Infinity
    const cause = this.#departure(before, first, upTo)
    if (cause === undefined) return beginsMs
    const { goneAtMs, atMs, notStarted } = cause
    const theirsMs = this.ownedFromMs(placement, this.#firstOf(placement, first - 1), upTo)
    // It left before its own stretch began: until then the monitor belongs to the owner before it.
    if (theirsMs > (goneAtMs ?? atMs)) return Math.min(beginsMs, theirsMs)
    if (goneAtMs === null) return beginsMs > atMs - LOST_AGO_MS ? -Infinity : beginsMs
    return Math.min(beginsMs, notStarted?.[placement.monitorId] ?? goneAtMs)
  }

  /** Why the agent was gone in one of these epochs; undefined when it was not. */
  #departure(agentId: string, first: number, upTo: number): Departure | undefined {
    for (let at = first; at <= upTo; at++) {
      const cause = this.#epochs[at]?.cause
      if (cause !== undefined && isDeparture(cause) && cause.agents.includes(agentId)) return cause
    }
    return undefined
  }
}

type Departure = EpochCause & { goneAtMs: number | null }

function isDeparture(cause: EpochCause): cause is Departure {
  return cause.goneAtMs !== undefined
}

/** Whether an agent was gone in an epoch after `epoch`, so that its state of that epoch is invalid. */
export function wasGone(epochs: readonly Epoch[], epoch: number, agentId: string): boolean {
  return epochs.some(
    (one) => one.epoch > epoch && isDeparture(one.cause) && one.cause.agents.includes(agentId),
  )
}
