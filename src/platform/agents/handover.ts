// From what an agent has to what it must run: who owned a monitor before, who owns it now, and from which
// slot on. Pure, so that every process answers the same.
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import type { Epoch, EpochCause, EpochMember } from './queries/location-epochs.ts'
import type { ChangedPlacement } from '../checks/queries/placement-changes.ts'
import { type Assignment, createAssignment } from './assignment.ts'

/** The state that an agent has, by its token. */
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
  /** It is to be another's from here on. */
  untilMs?: number
}

/** Changes to report to an agent. */
export interface HandOver {
  set: AssignedMonitor[]
  drop: { monitorId: string; until: number }[]
}

/** Input of a hand-over. */
export interface HandOverFacts {
  agentId: string
  /** Undefined: it has nothing, or its state is unknown. */
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
 * One that was lost has said nothing for this long, at most; what it gave up before that it had run until
 * then.
 */
const LOST_AGO_MS = PROTOCOL_BOUNDS.agentSilenceMsMax + 15_000

/** Epochs one after the other in which an agent owns a monitor. */
interface Stretch {
  first: number
  last: number
  /** When the epoch after it begins; undefined while there is none. */
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

  /** Whether the agent itself was gone after a stretch: it has nothing of it any more. */
  #isPast({ last }: Stretch): boolean {
    return this.#departure(this.#agentId, last + 1, this.#epochs.length - 1) !== undefined
  }

  /**
   * What is the agent's from now on, in the epoch that holds and those that are to come. Should it have
   * two parts of that, for moments, what lies between is done twice rather than by nobody.
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
   * From which instant on the monitor is its owner's that owns it from the epoch `first` on, by what is
   * known in the epoch `upTo`: the beginning of that epoch, or when the owner before was gone, should
   * that be earlier. -Infinity: nobody had it, or nobody knows when its owner went.
   */
  ownedFromMs(placement: ChangedPlacement, first: number, upTo: number): number {
    const before = this.#owner(placement, first - 1)
    if (before === undefined) return -Infinity
    const beginsMs = this.#epochs[first]?.fromMs ?? -Infinity
    const cause = this.#departure(before, first, upTo)
    if (cause === undefined) return beginsMs
    const { goneAtMs, atMs, notStarted } = cause
    const theirsMs = this.ownedFromMs(placement, this.#firstOf(placement, first - 1), upTo)
    // It went before its own turn came: until then the monitor is whose it was before.
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

/** Whether an agent was gone in some epoch after `epoch`: its state of then is no longer valid. */
export function wasGone(epochs: readonly Epoch[], epoch: number, agentId: string): boolean {
  return epochs.some(
    (one) => one.epoch > epoch && isDeparture(one.cause) && one.cause.agents.includes(agentId),
  )
}
