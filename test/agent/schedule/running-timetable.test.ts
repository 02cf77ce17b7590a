// Every slot is reported once and in time, or accounted for. Timers and clocks are moved by hand.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { rangeOf, RunningTimetable } from '../../../src/agent/schedule/running-timetable.ts'
import type { Assignment } from '../../../src/agent/source.ts'
import {
  slotAtOrAfter,
  slotAtOrBefore,
  slotsBetween,
  slotsOf,
  type Timing,
} from '../../../src/contract/timetable.ts'
import { fakeClocks, type FakeClocks } from '../../support/fake-clock.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

/** The timing of a monitor. */
const every = (seconds: number, id = 'a') => ({ id, frequency: 0, frequencyOffset: seconds })

/** Makes a timetable with its events; the timers of the whole file are moved. */
function setUp() {
  const clocks = fakeClocks()
  const clock = createClock(clocks)
  const due: { id: string; slot: number; plannedAt: number; at: number }[] = []
  const skipped: { id: string; count: number; reason: string }[] = []
  const jumps: number[] = []
  const timetable = new RunningTimetable<string>(clock, {
    onDue: (id, slot, plannedAt) => due.push({ id, slot, plannedAt, at: clock.now() }),
    onSkipped: (id, { slots, from, to, reason }) =>
      skipped.push({ id, count: slotsBetween(slots, from, to), reason }),
    onClockJump: ({ byMs }) => jumps.push(byMs),
  })
  const run = (ms: number) => {
    for (let passed = 0; passed < ms; passed++) {
      clocks.pass(1)
      vi.advanceTimersByTime(1)
    }
  }
  /** Sets the subjects by their timing, or by slots that a platform assigns. */
  const set = (subjects: readonly (readonly [Timing | (Assignment & { id: string }), string])[]) =>
    timetable.set(
      subjects.map(([timing, subject]) => [
        timing.id,
        'slots' in timing
          ? { ...timing, until: timing.until ?? Infinity }
          : rangeOf(timing, undefined),
        subject,
      ]),
    )
  /** Starts with these subjects, and lets so much time pass. */
  const start = (subjects: Parameters<typeof set>[0], ms: number) => {
    set(subjects)
    timetable.start()
    run(ms)
  }
  /** The slots that were reported; none twice. */
  const slots = () => {
    const all = due.map(({ slot }) => slot)
    expect(all).toEqual([...new Set(all)])
    return all
  }
  return { clocks, clock, timetable, set, due, skipped, jumps, run, start, slots }
}

const HOURLY = { id: 'a', frequency: 60 }

describe('slots', () => {
  test('each is reported once, at most two milliseconds late', () => {
    const { clock, due, start, slots } = setUp()
    const first = slotAtOrAfter(slotsOf(every(1)), clock.now())
    start([[every(1), 'a']], 10_000)
    expect(slots()).toEqual(Array.from({ length: 10 }, (_, n) => first + n * 1000))
    expect(Math.max(...due.map(({ at, slot }) => at - slot))).toBeLessThanOrEqual(2)
  })

  test('nothing is reported before the start and after the stop', () => {
    const { timetable, due, run, set } = setUp()
    set([[every(1), 'a']])
    run(900)
    expect(due).toEqual([])
    timetable.start()
    run(2000)
    timetable.stop()
    const { length } = due
    run(5000)
    expect(length).toBeGreaterThanOrEqual(2)
    expect(due).toHaveLength(length)
  })
})

describe('first runs', () => {
  test('come within three seconds, for the newest slot that has passed, and only once', () => {
    const { clock, due, run, start, slots } = setUp()
    const startedAt = clock.now()
    start([[HOURLY, 'slow']], 3000)
    expect(slots()).toEqual([slotAtOrBefore(slotsOf(HOURLY), startedAt)])
    expect(due[0]?.plannedAt).toBeGreaterThan(startedAt)
    run(10_000)
    expect(due).toHaveLength(1)
  })

  test('are spread and not all at once', () => {
    const { due, run, start } = setUp()
    const many = Array.from({ length: 300 }, (_, n) => [{ ...HOURLY, id: `m${n}` }, ''] as const)
    start(many, 1500)
    expect(due.length).toBeGreaterThan(100)
    expect(due.length).toBeLessThan(200)
    run(1501)
    expect(due).toHaveLength(300)
  })
})

describe('a new set', () => {
  test('keeps the place of a monitor with the same timing', () => {
    const { due, run, start, slots, set } = setUp()
    start([[every(10), 'old']], 15_000)
    const before = due.length
    set([[every(10), 'new']])
    run(10_000)
    expect(due.slice(before).map(({ id }) => id)).toEqual(['new'])
    slots()
  })

  test.each([
    ['within one interval', 30_000, HOURLY],
    ['in the very millisecond', 0, HOURLY],
    ['with an interval that is short', 3000, every(10)],
  ])('gives no slot again to what was out of it, %s', (_, awayMs, timing) => {
    const { due, run, start, slots, set } = setUp()
    start([[timing, 'old']], 0)
    while (due.length === 0) run(1)
    set([])
    run(awayMs)
    set([[timing, 'back']])
    run(15_000)
    expect(slots()).not.toEqual([])
  })

  test('gives a monitor that returns after an interval the newest slot at once', () => {
    const { clock, clocks, due, run, start, set } = setUp()
    start([[HOURLY, 'old']], 3000)
    set([])
    clocks.pass(3_600_000)
    set([])
    set([[HOURLY, 'back']])
    const passed = slotAtOrBefore(slotsOf(HOURLY), clock.now())
    run(3000)
    expect(due.map(({ id }) => id)).toEqual(['old', 'back'])
    expect(due[1]?.slot).toBe(passed)
  })

  test('gives a changed timing its new slots', () => {
    const { clock, due, run, start, slots, set } = setUp()
    start([[HOURLY, 'a']], 4000)
    due.length = 0
    const first = slotAtOrAfter(slotsOf(every(2)), clock.now())
    set([[every(2), 'a']])
    run(4000)
    expect(slots()).toEqual([first, first + 2000])
  })
})

describe('time that passes unnoticed', () => {
  test.each<[string, (clocks: FakeClocks) => void, number, string]>([
    ['a machine that slept', (clocks) => clocks.sleep(60_000), 61, 'suspended'],
    ['a process that was stopped', (clocks) => clocks.pass(30_000), 31, 'suspended'],
    ['a clock that was set', (clocks) => clocks.setWall(60_000), 61, 'clock-set'],
    ['a thread that was busy', (clocks) => clocks.work(30_000), 31, 'overloaded'],
    ['a mostly busy thread', (one) => (one.work(6000), one.pass(3000)), 10, 'overloaded'],
    ['a mostly stopped thread', (one) => (one.work(3000), one.pass(6000)), 10, 'suspended'],
  ])('%s skips past slots and runs the newest one', (_, move, slots, reason) => {
    const { clocks, clock, due, skipped, run, start } = setUp()
    const subjects = [every(1, 'a'), every(2, 'b')].map((timing) => [timing, timing.id] as const)
    start(subjects, 3000)
    due.length = 0
    move(clocks)
    run(1000)
    const dueOfA = due.filter(({ id }) => id === 'a')
    const skippedOfA = skipped.find(({ id }) => id === 'a')?.count ?? 0
    expect(dueOfA.length + skippedOfA).toBe(slots)
    expect(dueOfA[0]?.slot).toBeLessThanOrEqual(clock.now())
    const reasons = skipped.map((one) => `${one.id} ${one.reason}`)
    expect(reasons.toSorted()).toEqual([`a ${reason}`, `b ${reason}`])
  })

  test('work before a stop does not count', () => {
    const { clocks, skipped, run, start } = setUp()
    start([[every(1), 'a']], 0)
    for (let ms = 0; ms < 10_000; ms++) {
      clocks.work(0.9)
      run(1)
    }
    clocks.pass(5000)
    run(1000)
    expect(skipped.at(-1)?.reason).toBe('suspended')
  })

  test('a machine that slept is one jump of the clock', () => {
    const { clocks, jumps, run, start } = setUp()
    start([], 3000)
    clocks.sleep(60_000)
    run(1000)
    expect(jumps).toEqual([60_000])
  })

  test('a clock that is set back brings no slot twice', () => {
    const { clocks, run, start, slots } = setUp()
    start([[every(1), 'a']], 3000)
    clocks.setWall(-30_000)
    run(5000)
    expect(slots().length).toBeGreaterThanOrEqual(7)
  })
})

test('it ticks at least every second, with nothing to do', () => {
  const { clocks, timetable, start } = setUp()
  start([], 5000)
  expect(clocks.monotonicMs() - timetable.tickedAtMs()).toBeLessThanOrEqual(1000)
})

describe('slots that another party assigned', () => {
  const assigned = { everyMs: 10_000, offsetMs: 3000 }
  /** The subject with these slots. */
  const from = (at: number, until?: number) =>
    [{ id: 'a', slots: assigned, from: at, ...(until && { until }) }, 'a'] as const

  test('begin with the newest that has passed since `from`, in time before the next', () => {
    const { clock, due, skipped, start, slots } = setUp()
    const passed = slotAtOrBefore(assigned, clock.now())
    start([from(passed - 50_000)], 10_000)
    expect(slots()).toEqual([passed, passed + 10_000])
    expect(due[0]?.at).toBeLessThan(passed + 10_000)
    expect(skipped).toEqual([])
  })

  test('are reported although the next one comes soon', () => {
    const { clock, clocks, start, slots } = setUp()
    const passed = slotAtOrBefore(assigned, clock.now())
    clocks.pass(passed + 9000 - clock.now())
    start([from(passed)], 2000)
    expect(slots()).toEqual([passed, passed + 10_000])
  })

  test('do not begin before `from`', () => {
    const { clock, start, slots } = setUp()
    const next = slotAtOrAfter(assigned, clock.now())
    start([from(next + 1)], 25_000)
    expect(slots()).toEqual([next + 10_000, next + 20_000])
  })

  test('end before `until`, by themselves', () => {
    const { clock, timetable, start, slots } = setUp()
    const next = slotAtOrAfter(assigned, clock.now())
    start([from(next, next + 10_000)], 25_000)
    expect(slots()).toEqual([next])
    expect(timetable.size()).toBe(0)
  })

  test('continue where the end is withdrawn, and none is reported twice', () => {
    const { clock, run, start, slots, set } = setUp()
    const next = slotAtOrAfter(assigned, clock.now())
    start([from(next)], 11_000)
    set([from(next, next + 10_000)])
    run(10_000)
    set([from(next)])
    run(10_000)
    expect(slots()).toEqual(expect.arrayContaining([next + 10_000, next + 20_000]))
  })

  test('that have passed and were not reported can be queried', () => {
    const { clock, timetable, run, set } = setUp()
    const hourly = { everyMs: 3_600_000, offsetMs: 1_800_000 }
    const passed = slotAtOrBefore(hourly, clock.now())
    set([[{ id: 'a', slots: hourly, from: 0 }, 'a']])
    expect(timetable.unreported(clock.now())).toEqual([{ subject: 'a', slot: passed }])
    timetable.start()
    run(3000)
    expect(timetable.unreported(clock.now())).toEqual([])
  })

  test('go on when the clock that is followed goes far back', () => {
    const { clock, due, run, start, slots } = setUp()
    clock.follow(clock.now())
    start([from(0)], 30_000)
    clock.follow(clock.now() - 3_600_000)
    due.length = 0
    run(30_000)
    expect(slots().length).toBeGreaterThanOrEqual(2)
    expect(Math.max(...slots())).toBeLessThanOrEqual(clock.now())
  })

  test.each([-3800, 3800])('are reported once when the clock is corrected by %i ms', (byMs) => {
    const { clock, due, skipped, jumps, run, start, slots } = setUp()
    const everySecond = { everyMs: 1000, offsetMs: 300 }
    clock.follow(clock.now() + 3_600_000, 4000)
    const since = slotAtOrAfter(everySecond, clock.now())
    start([[{ id: 'a', slots: everySecond, from: since }, 'a']], 5000)
    clock.follow(clock.now() + byMs, 2)
    const correctedAt = clock.now()
    const before = due.length
    run(10_000)
    expect(jumps).toEqual([])
    const skips = skipped.reduce((sum, { count }) => sum + count, 0)
    const [first = 0] = slots()
    expect(due.length + skips).toBe(slotsBetween(everySecond, first, clock.now() + 1))
    expect(skips > 0).toBe(byMs > 0)
    const inTime = due.slice(before).filter(({ slot }) => slot > correctedAt)
    expect(inTime.length).toBeGreaterThanOrEqual(5)
    expect(Math.max(...inTime.map(({ at, slot }) => at - slot))).toBeLessThanOrEqual(2)
  })

  test('that were reported a day too early are reported again when the clock is right', () => {
    const { clock, due, jumps, run, start, slots } = setUp()
    const now = clock.now()
    clock.follow(now + 86_400_000)
    start([from(now - 60_000)], 25_000)
    expect(Math.min(...slots())).toBeGreaterThan(now + 60_000_000)
    due.length = 0
    clock.follow(now + 25_000, 2)
    run(25_000)
    expect(jumps).toEqual([])
    const first = slotAtOrAfter(assigned, now + 25_000)
    expect(slots()).toEqual([first, first + 10_000].filter((one) => one <= clock.now()))
  })
})
