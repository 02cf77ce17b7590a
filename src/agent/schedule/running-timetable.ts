// Running timetable: reports the slots of monitors as they come due. All monitors share one heap and one timer,
// so that ten thousand of them cost no more than their slots.
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import type { Instant } from '../../contract/job.ts'
import {
  slotAtOrAfter,
  slotAtOrBefore,
  slotsOf,
  type Slots,
  type Timing,
} from '../../contract/timetable.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { Assignment } from '../source.ts'
import type { Clock, ClockJump } from './clock.ts'
import { DueHeap, type Due } from './due-heap.ts'
import type { PassedSlots } from './passed-slots.ts'
import { SkipReasons, type SkipReason } from './skip-reason.ts'

export interface TimetableEvents<T> {
  /** A slot is due. `plannedAt` is its planned start: the slot itself, except for first runs. */
  onDue(subject: T, slot: Instant, plannedAt: Instant): void
  /** Slots passed unnoticed: the machine slept, its clock was set, or the agent hung or was not there. */
  onSkipped(subject: T, passed: PassedSlots): void
  onClockJump(jump: ClockJump): void
}

/** Slots of a monitor: those within [from, until) are ours. */
export interface SlotRange {
  slots: Slots
  /** The newest slot that has passed since then is reported at once, earlier ones are not. */
  from: Instant
  until: Instant
}

/** The slots of a monitor: its assigned ones, where a platform assigns them. */
export function rangeOf(timing: Timing, assigned: Assignment | undefined): SlotRange {
  const { slots, from, until } = assigned ?? { slots: slotsOf(timing), from: -Infinity }
  return { slots, from, until: until ?? Infinity }
}

interface Entry<T> extends Due, SlotRange {
  subject: T
  /** The slot that is due at `dueAt`. */
  slot: Instant
  /** The newest slot that was reported; no slot of the id up to here is reported again. */
  reportedUntil: Instant
}

/** Longest sleep: clocks are observed, and the timetable proves alive, at least this often. */
const TICK_MS_MAX = 1000
/** Within this time after the start every monitor has had its first run, if there are not too many. */
const FIRST_RUNS_MS = 3000
/** Least average distance of first runs, so that thousands do not come at once. */
const FIRST_RUN_APART_MS = 2
/** Removed subjects that are remembered. Files with ever new monitors must not fill the memory. */
const REMEMBERED_MAX = LIMITS.monitorsMax

type Subject<T> = [id: string, range: SlotRange, subject: T]

/** Runs on the agent's clock. */
export class RunningTimetable<T> {
  readonly #clock: Clock
  readonly #events: TimetableEvents<T>
  readonly #skipReasons: SkipReasons
  readonly #heap = new DueHeap<Entry<T>>()
  /** Reported slots of removed subjects, by id, for as long as they could be reported again. */
  readonly #reported = new Map<string, { until: Instant; forgetAt: Instant }>()
  #entries = new Map<string, Entry<T>>()
  #timer: NodeJS.Timeout | undefined
  #isRunning = false
  #tickedAtMs: number
  #tickedAt: Instant

  constructor(clock: Clock, events: TimetableEvents<T>) {
    this.#clock = clock
    this.#events = events
    this.#skipReasons = new SkipReasons(clock)
    this.#tickedAtMs = clock.monotonicMs()
    this.#tickedAt = clock.now()
  }

  /**
   * Sets the subjects, by id. A subject with unchanged timing keeps its plan. A new one, unless its first slot
   * comes soon, is due for the newest slot that has passed, so that the first result does not take a whole
   * interval. A subject that returns gets no slot twice.
   * An agent that restarts within a slot runs it again, under the same identity, unless `earlier` names the
   * newest slot that an earlier process reported, by id: then only later ones are due, or have passed.
   */
  set(subjects: Iterable<Subject<T>>, earlier: ReadonlyMap<string, Instant> = new Map()): void {
    const now = this.#clock.now()
    for (const [id, until] of earlier) {
      // As in a step back of the clock: nothing is due for too long otherwise.
      if (until <= now + PROTOCOL_BOUNDS.aheadMsMax) {
        this.#reported.set(id, { until, forgetAt: Infinity })
      }
    }
    this.#exchange(subjects, now)
    for (const id of earlier.keys()) this.#reportPassed(this.#entries.get(id))
    this.#arm()
  }

  /** The newest slot of each subject that has passed at `instant` and was not reported. */
  unreported(instant: Instant): { subject: T; slot: Instant }[] {
    const passed = [...this.#entries.values()].filter(
      ({ place, slot }) => place >= 0 && slot < instant,
    )
    return passed.map((one) => ({
      subject: one.subject,
      slot: Math.max(one.slot, newestOf(one, instant - 1)),
    }))
  }

  start(): void {
    this.#isRunning = true
    this.#tickedAtMs = this.#clock.monotonicMs()
    this.#arm()
  }

  stop(): void {
    this.#isRunning = false
    clearTimeout(this.#timer)
  }

  /** Milliseconds of the monotonic clock at which the timetable last looked. */
  tickedAtMs(): number {
    return this.#tickedAtMs
  }

  size(): number {
    return this.#heap.size
  }

  #arm(): void {
    clearTimeout(this.#timer)
    if (!this.#isRunning) return
    const waitMs = Math.max(0, (this.#heap.peek()?.dueAt ?? Infinity) - this.#clock.now())
    // Timers count whole milliseconds; rounding up spares a wake-up that comes a fraction too early.
    this.#timer = setTimeout(() => this.#tick(), Math.ceil(Math.min(TICK_MS_MAX, waitMs)))
  }

  #tick(): void {
    const jump = this.#clock.observe()
    const now = this.#clock.now()
    if (now < this.#tickedAt) this.#stepBack(now)
    this.#tickedAt = now
    if (jump !== undefined) this.#events.onClockJump(jump)
    const whySkipped = this.#skipReasons.look(now)
    const heap = this.#heap
    for (let top = heap.peek(); top !== undefined && top.dueAt <= now; top = heap.peek()) {
      this.#fire(top, now, whySkipped)
    }
    this.#tickedAtMs = this.#clock.monotonicMs()
    this.#arm()
  }

  #fire(entry: Entry<T>, now: Instant, whySkipped: (dueAt: Instant) => SkipReason): void {
    const { slot, dueAt, slots, subject } = entry
    const newest = Math.max(slot, newestOf(entry, now))
    entry.slot = entry.dueAt = newest + slots.everyMs
    entry.reportedUntil = newest
    if (entry.slot < entry.until) this.#heap.moved(entry)
    else this.#heap.remove(entry)
    if (newest > slot) {
      const reason = whySkipped(dueAt)
      this.#events.onSkipped(subject, { slots, from: slot, to: newest, reason })
    }
    this.#events.onDue(subject, newest, newest > slot ? newest : dueAt)
  }

  /** Reports the slots between the newest one of an earlier process and the first one of this. */
  #reportPassed(entry: Entry<T> | undefined): void {
    if (entry === undefined || entry.reportedUntil === -Infinity) return
    const { subject, slots, slot, reportedUntil } = entry
    const from = reportedUntil + 1
    if (slotAtOrAfter(slots, from) < slot)
      this.#events.onSkipped(subject, { slots, from, to: slot, reason: 'restarted' })
  }

  /** Replaces the subjects. */
  #exchange(subjects: Iterable<Subject<T>>, now: Instant): void {
    const old = this.#entries
    this.#entries = new Map()
    const added: Subject<T>[] = []
    for (const [id, range, subject] of subjects) {
      const before = old.get(id)
      old.delete(id)
      if (before === undefined) {
        added.push([id, range, subject])
        continue
      }
      before.subject = subject
      this.#entries.set(id, before)
      this.#retime(before, range, now)
    }
    for (const [id, gone] of old) {
      this.#heap.remove(gone)
      const { reportedUntil: until, slots } = gone
      if (until !== -Infinity) this.#reported.set(id, { until, forgetAt: until + slots.everyMs })
    }
    for (const [id, range, subject] of added) {
      const reportedUntil = this.#reported.get(id)?.until ?? -Infinity
      this.#reported.delete(id)
      const entry = { ...range, subject, reportedUntil, slot: 0, dueAt: 0, place: -1 }
      this.#entries.set(id, entry)
      this.#plan(entry, firstOf(entry, now, added.length))
    }
    // Once the next slot has passed, the reported one is no longer the newest.
    for (const [id, { forgetAt }] of this.#reported) {
      if (forgetAt <= now || this.#reported.size > REMEMBERED_MAX) this.#reported.delete(id)
    }
  }

  #retime(entry: Entry<T>, range: SlotRange, now: Instant): void {
    const { slots, from, until } = entry
    const isSame = slots.everyMs === range.slots.everyMs && slots.offsetMs === range.slots.offsetMs
    if (isSame && from === range.from && until === range.until) return
    Object.assign(entry, range)
    // Only the end was set: what was planned before it stays as it is.
    if (isSame && from === range.from && entry.place >= 0 && entry.slot < range.until) return
    if (range.from === -Infinity) this.#startOver(entry, now)
    else this.#plan(entry, firstOf(entry, now, 1))
  }

  /** Continues with the next slot. */
  #startOver(entry: Entry<T>, now: Instant): void {
    const slot = nextSlot(entry, now)
    this.#plan(entry, { slot, dueAt: slot })
  }

  /** Nothing is planned where all slots have passed or were reported. */
  #plan(entry: Entry<T>, next: Pick<Entry<T>, 'slot' | 'dueAt'>): void {
    this.#heap.remove(entry)
    Object.assign(entry, next)
    if (entry.slot < entry.until) this.#heap.add(entry)
  }

  /**
   * Handles a clock that was stepped back. A slot that was reported too early keeps its result, unless it lies so far
   * ahead that a platform refuses it: then it is reported again.
   */
  #stepBack(now: Instant): void {
    const untilMax = now + PROTOCOL_BOUNDS.aheadMsMax
    for (const entry of this.#entries.values()) {
      if (entry.reportedUntil > untilMax) entry.reportedUntil = now
      // A passed slot that was not reported stays due.
      if (entry.slot > nextSlot(entry, now)) this.#startOver(entry, now)
    }
    for (const [id, { until }] of this.#reported) {
      if (until > untilMax) this.#reported.delete(id)
    }
  }
}

/** The newest slot at `now` that is still ours. */
function newestOf({ slots, until }: SlotRange, now: Instant): Instant {
  const passed = slotAtOrBefore(slots, now)
  return passed < until ? passed : slotAtOrAfter(slots, until) - slots.everyMs
}

/** The first run lies where the monitor's offset lies in its interval, in a shorter interval. */
function firstOf(
  entry: SlotRange & { reportedUntil: Instant },
  now: Instant,
  count: number,
): { slot: Instant; dueAt: Instant } {
  const { slots, from, until, reportedUntil } = entry
  const next = nextSlot(entry, now)
  const passed = slotAtOrBefore(slots, now)
  const isOurs = passed > reportedUntil && passed >= from && passed < until
  const spreadMs = Math.min(slots.everyMs, Math.max(FIRST_RUNS_MS, count * FIRST_RUN_APART_MS))
  const isSoon = next - now <= spreadMs
  // An assigned slot has to run, soon or not, and in time for the next one to start.
  const isAssigned = from !== -Infinity
  if (!isOurs || (isSoon && !isAssigned)) return { slot: next, dueAt: next }
  const withinMs = isAssigned ? Math.min(spreadMs, (next - now) / 2) : spreadMs
  return {
    slot: passed,
    dueAt: now + ((slots.offsetMs % slots.everyMs) / slots.everyMs) * withinMs,
  }
}

/** The first slot from now on that is ours and was not reported yet. */
function nextSlot(
  { slots, from, reportedUntil }: SlotRange & { reportedUntil: Instant },
  now: Instant,
): Instant {
  return slotAtOrAfter(slots, Math.max(now, from, reportedUntil + 1))
}
