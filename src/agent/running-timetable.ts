// The running timetable: tells when a slot of a monitor is due. All monitors share one heap and one
// timer, so that ten thousand of them cost no more than their slots.
import type { Instant } from '../contract/job.ts'
import {
  slotAtOrAfter,
  slotAtOrBefore,
  slotsOf,
  type Slots,
  type Timing,
} from '../contract/timetable.ts'
import { LIMITS } from '../contract/versions.ts'
import type { Clock, ClockJump } from './clock.ts'
import { DueHeap, type Due } from './due-heap.ts'

/** What the timetable tells. */
export interface TimetableEvents<T> {
  /** A slot is due. `plannedAt` is when it was to start: the slot itself, but for first runs. */
  onDue(subject: T, slot: Instant, plannedAt: Instant): void
  /** Slots [from, to) passed by unnoticed: the machine slept, its clock was set, or we hung. */
  onSkipped(subject: T, slots: Slots, from: Instant, to: Instant): void
  onClockJump(jump: ClockJump): void
}

export interface RunningTimetable<T> {
  /**
   * The subjects from now on, by id. Whoever keeps its timing keeps its place; a new one, unless its
   * first slot comes soon anyway, is due for the newest slot that has passed, so that the first
   * result does not take a whole interval. Whoever comes back is given no slot a second time.
   * Restarting an agent within a slot runs that slot again, under the same identity.
   */
  set(subjects: Iterable<[timing: Timing, subject: T]>): void
  start(): void
  stop(): void
  /** Milliseconds of the monotonic clock at which the timetable last looked. */
  tickedAtMs(): number
  size(): number
}

interface Entry<T> extends Due {
  subject: T
  slots: Slots
  /** The slot that is due at `dueAt`. */
  slot: Instant
  /** The newest slot that was told; none of the id's slots up to here is told again. */
  toldUntil: Instant
}

/** What was told of those that are gone, by id, for as long as it could be told again. */
type Told = Map<string, { until: Instant; forgetAt: Instant }>

/** Longest sleep: clocks are observed and a sign of life is given at least this often. */
const TICK_MS_MAX = 1000
/** Within this time after the start every monitor has had its first run, if there are not too many. */
const FIRST_RUNS_MS = 3000
/** First runs are at least so far apart on average, so that thousands do not come at once. */
const FIRST_RUN_APART_MS = 2
/** Those that are gone and still known. Files that bring ever new monitors must not fill the memory. */
const TOLD_MAX = LIMITS.monitorsMax

/** Makes a timetable on the agent's clock. */
export function createRunningTimetable<T>(
  clock: Clock,
  events: TimetableEvents<T>,
): RunningTimetable<T> {
  const heap = new DueHeap<Entry<T>>()
  const told: Told = new Map()
  let entries = new Map<string, Entry<T>>()
  let timer: NodeJS.Timeout | undefined
  let running = false
  let tickedAtMs = clock.monotonicMs()

  const fire = (entry: Entry<T>, now: Instant) => {
    const { slot, dueAt, slots, subject } = entry
    const newest = slotAtOrBefore(slots, now)
    const missedUntil = Math.max(slot, newest)
    entry.slot = slotAtOrAfter(slots, Math.max(newest, slot) + 1)
    entry.dueAt = entry.slot
    entry.toldUntil = missedUntil
    heap.moved(entry)
    if (missedUntil > slot) events.onSkipped(subject, slots, slot, missedUntil)
    events.onDue(subject, missedUntil, missedUntil > slot ? missedUntil : dueAt)
  }

  const tick = () => {
    const jump = clock.observe()
    if (jump !== undefined) events.onClockJump(jump)
    const now = clock.now()
    for (let top = heap.peek(); top !== undefined && top.dueAt <= now; top = heap.peek()) {
      fire(top, now)
    }
    tickedAtMs = clock.monotonicMs()
    arm()
  }

  const arm = () => {
    clearTimeout(timer)
    if (!running) return
    const next = heap.peek()?.dueAt ?? Number.POSITIVE_INFINITY
    // Timers count whole milliseconds; rounding up spares a wake-up that comes a fraction too early.
    const waitMs = Math.ceil(Math.min(TICK_MS_MAX, Math.max(0, next - clock.now())))
    timer = setTimeout(tick, waitMs)
  }

  return {
    set(subjects) {
      entries = exchange(heap, entries, told, [...subjects], clock.now())
      arm()
    },
    start() {
      running = true
      tickedAtMs = clock.monotonicMs()
      arm()
    },
    stop() {
      running = false
      clearTimeout(timer)
    },
    tickedAtMs: () => tickedAtMs,
    size: () => heap.size,
  }
}

/** Puts the new subjects in the place of the old ones; returns the new entries. */
function exchange<T>(
  heap: DueHeap<Entry<T>>,
  old: Map<string, Entry<T>>,
  told: Told,
  subjects: readonly [Timing, T][],
  now: Instant,
): Map<string, Entry<T>> {
  const entries = new Map<string, Entry<T>>()
  const added: [string, Slots, T][] = []
  for (const [timing, subject] of subjects) {
    const slots = slotsOf(timing)
    const before = old.get(timing.id)
    old.delete(timing.id)
    if (before === undefined) {
      added.push([timing.id, slots, subject])
      continue
    }
    before.subject = subject
    entries.set(timing.id, before)
    if (before.slots.everyMs !== slots.everyMs) {
      before.slots = slots
      before.slot = nextSlot(slots, now, before.toldUntil)
      before.dueAt = before.slot
      heap.moved(before)
    }
  }
  for (const [id, gone] of old) {
    heap.remove(gone)
    remember(told, id, gone)
  }
  for (const [id, slots, subject] of added) {
    const toldUntil = told.get(id)?.until ?? Number.NEGATIVE_INFINITY
    told.delete(id)
    const entry = newEntry({ slots, subject, toldUntil }, now, added.length)
    entries.set(id, entry)
    heap.add(entry)
  }
  forget(told, now)
  return entries
}

function remember<T>(told: Told, id: string, { toldUntil, slots }: Entry<T>): void {
  if (toldUntil === Number.NEGATIVE_INFINITY) return
  told.set(id, { until: toldUntil, forgetAt: toldUntil + slots.everyMs })
}

/** Once the next slot has passed, the one that was told is not the newest any more. */
function forget(told: Told, now: Instant): void {
  for (const [id, { forgetAt }] of told) {
    if (forgetAt <= now || told.size > TOLD_MAX) told.delete(id)
  }
}

type Newcomer<T> = Pick<Entry<T>, 'slots' | 'subject' | 'toldUntil'>

/** The first run lies where the monitor's offset lies in its interval, in a shorter interval. */
function newEntry<T>(newcomer: Newcomer<T>, now: Instant, count: number): Entry<T> {
  const { slots, toldUntil } = newcomer
  const next = nextSlot(slots, now, toldUntil)
  const passed = slotAtOrBefore(slots, now)
  const spreadMs = Math.min(slots.everyMs, Math.max(FIRST_RUNS_MS, count * FIRST_RUN_APART_MS))
  if (next - now <= spreadMs || passed <= toldUntil) {
    return { ...newcomer, slot: next, dueAt: next, place: -1 }
  }
  const dueAt = now + (slots.offsetMs / slots.everyMs) * spreadMs
  return { ...newcomer, slot: passed, dueAt, place: -1 }
}

/** The first slot from now on that was not told yet. */
function nextSlot(slots: Slots, now: Instant, toldUntil: Instant): Instant {
  return slotAtOrAfter(slots, Math.max(now, toldUntil + 1))
}
