// The timetable reports every slot once, in time, and accounts for those that passed unnoticed. Time is
// moved by hand: timers and clocks together.
import { describe, expect, test } from 'vitest'
import {
  slotAtOrAfter,
  slotAtOrBefore,
  slotsBetween,
  slotsOf,
} from '../../../src/contract/timetable.ts'
import { every, movedTimetable as setUp, moveTimers } from '../../support/agent/moved-timetable.ts'
import type { FakeClocks } from '../../support/fake-clock.ts'

moveTimers()

describe('slots', () => {
  test('each is reported once, at most two milliseconds late', () => {
    const { clock, timetable, due, run } = setUp()
    const start = clock.now()
    timetable.set([[every(1), 'a']])
    timetable.start()
    run(10_000)
    const slots = due.map(({ slot }) => slot)
    const first = slotAtOrAfter(slotsOf(every(1)), start)
    expect(slots).toEqual(Array.from({ length: 10 }, (_, n) => first + n * 1000))
    expect(Math.max(...due.map(({ at, slot }) => at - slot))).toBeLessThanOrEqual(2)
  })

  test('nothing is reported before the start and after the stop', () => {
    const { timetable, due, run } = setUp()
    timetable.set([[every(1), 'a']])
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
    const { clock, timetable, due, run } = setUp()
    const start = clock.now()
    const timing = { id: 'slow', frequency: 60 }
    timetable.set([[timing, 'slow']])
    timetable.start()
    run(3000)
    const passed = slotAtOrBefore(slotsOf(timing), start)
    expect(due.map(({ slot }) => slot)).toEqual([passed])
    expect(due[0]?.plannedAt).toBeGreaterThan(start)
    run(10_000)
    expect(due).toHaveLength(1)
  })

  test('are spread and not all at once', () => {
    const { timetable, due, run } = setUp()
    timetable.set(
      Array.from({ length: 300 }, (_, n) => [{ id: `m${n}`, frequency: 60 }, `m${n}`] as const),
    )
    timetable.start()
    run(1500)
    expect(due.length).toBeGreaterThan(100)
    expect(due.length).toBeLessThan(200)
    run(1501)
    expect(due).toHaveLength(300)
  })
})

describe('a new set', () => {
  test('keeps the place of a monitor with the same timing', () => {
    const { timetable, due, run } = setUp()
    timetable.set([[every(10), 'old']])
    timetable.start()
    run(15_000)
    const before = due.length
    timetable.set([[every(10), 'new']])
    run(10_000)
    expect(due.slice(before).map(({ id }) => id)).toEqual(['new'])
    const slots = due.map(({ slot }) => slot)
    expect(new Set(slots).size).toBe(slots.length)
  })

  test.each<[string, number, { id: string; frequency: number; frequencyOffset?: number }]>([
    ['within one interval', 30_000, { id: 'a', frequency: 60 }],
    ['in the very millisecond', 0, { id: 'a', frequency: 60 }],
    ['with an interval that is short', 3000, every(10)],
  ])('gives no slot again to what was out of it, %s', (_, awayMs, timing) => {
    const { timetable, due, run } = setUp()
    timetable.set([[timing, 'old']])
    timetable.start()
    while (due.length === 0) run(1)
    timetable.set([])
    run(awayMs)
    timetable.set([[timing, 'back']])
    run(15_000)
    const slots = due.map(({ slot }) => slot)
    expect(new Set(slots).size).toBe(slots.length)
  })

  test('gives a monitor that returns after an interval the newest slot at once', () => {
    const { clock, clocks, timetable, due, run } = setUp()
    const timing = { id: 'a', frequency: 60 }
    timetable.set([[timing, 'old']])
    timetable.start()
    run(3000)
    timetable.set([])
    clocks.pass(3_600_000)
    timetable.set([])
    timetable.set([[timing, 'back']])
    const passed = slotAtOrBefore(slotsOf(timing), clock.now())
    run(3000)
    expect(due.map(({ id }) => id)).toEqual(['old', 'back'])
    expect(due[1]?.slot).toBe(passed)
  })

  test('gives a changed timing its new slots', () => {
    const { clock, timetable, due, run } = setUp()
    timetable.set([[{ id: 'a', frequency: 60 }, 'a']])
    timetable.start()
    run(4000)
    due.length = 0
    const changed = clock.now()
    timetable.set([[every(2), 'a']])
    run(4000)
    const first = slotAtOrAfter(slotsOf(every(2)), changed)
    expect(due.map(({ slot }) => slot)).toEqual([first, first + 2000])
  })
})

describe('time that passes unnoticed', () => {
  test.each<[string, (clocks: FakeClocks) => void, number, string]>([
    ['a machine that slept', (clocks) => clocks.sleep(60_000), 61, 'suspended'],
    ['a process that was stopped', (clocks) => clocks.pass(30_000), 31, 'suspended'],
    ['a clock that was set', (clocks) => clocks.setWall(60_000), 61, 'clock-set'],
    ['a thread that was busy', (clocks) => clocks.work(30_000), 31, 'overloaded'],
    [
      'a thread that was busy for the larger part',
      (clocks) => (clocks.work(6000), clocks.pass(3000)),
      10,
      'overloaded',
    ],
    [
      'a thread that was stopped for the larger part',
      (clocks) => (clocks.work(3000), clocks.pass(6000)),
      10,
      'suspended',
    ],
  ])('%s skips past slots and runs the newest one', (_, move, slots, reason) => {
    const { clocks, clock, timetable, due, skipped, run } = setUp()
    timetable.set([
      [every(1, 'a'), 'a'],
      [every(2, 'b'), 'b'],
    ])
    timetable.start()
    run(3000)
    due.length = 0
    move(clocks)
    run(1000)
    const dueOfA = due.filter(({ id }) => id === 'a')
    const skippedOfA = skipped.find(({ id }) => id === 'a')?.count ?? 0
    expect(dueOfA.length + skippedOfA).toBe(slots)
    expect(dueOfA[0]?.slot).toBeLessThanOrEqual(clock.now())
    expect(new Map(skipped.map((one) => [one.id, one.reason]))).toEqual(
      new Map([
        ['a', reason],
        ['b', reason],
      ]),
    )
    expect(skipped).toHaveLength(2)
  })

  test('work before a stop does not count', () => {
    const { clocks, timetable, skipped, run } = setUp()
    timetable.set([[every(1), 'a']])
    timetable.start()
    for (let ms = 0; ms < 10_000; ms++) {
      clocks.work(0.9)
      run(1)
    }
    clocks.pass(5000)
    run(1000)
    expect(skipped.at(-1)?.reason).toBe('suspended')
  })

  test('a machine that slept is one jump of the clock', () => {
    const { clocks, timetable, jumps, run } = setUp()
    timetable.start()
    run(3000)
    clocks.sleep(60_000)
    run(1000)
    expect(jumps).toEqual([60_000])
  })

  test('a clock that is set back brings no slot twice', () => {
    const { clocks, timetable, due, run } = setUp()
    timetable.set([[every(1), 'a']])
    timetable.start()
    run(3000)
    clocks.setWall(-30_000)
    run(5000)
    const slots = due.map(({ slot }) => slot)
    expect(new Set(slots).size).toBe(slots.length)
    expect(slots.length).toBeGreaterThanOrEqual(7)
  })
})

test('it ticks at least every second, with nothing to do', () => {
  const { clocks, timetable, run } = setUp()
  timetable.start()
  run(5000)
  expect(clocks.monotonicMs() - timetable.tickedAtMs()).toBeLessThanOrEqual(1000)
})

describe('slots that another party assigned', () => {
  const slots = { everyMs: 10_000, offsetMs: 3000 }

  test('begin with the newest that has passed since `from`, in time before the next', () => {
    const { clock, timetable, due, skipped, run } = setUp()
    const passed = slotAtOrBefore(slots, clock.now())
    timetable.set([[{ id: 'a', slots, from: passed - 50_000 }, 'a']])
    timetable.start()
    run(10_000)
    expect(due.map(({ slot }) => slot)).toEqual([passed, passed + 10_000])
    expect(due[0]?.at).toBeLessThan(passed + 10_000)
    expect(skipped).toEqual([])
  })

  test('are reported although the next one comes soon', () => {
    const { clock, clocks, timetable, due, run } = setUp()
    const passed = slotAtOrBefore(slots, clock.now())
    clocks.pass(passed + 9000 - clock.now())
    timetable.set([[{ id: 'a', slots, from: passed }, 'a']])
    timetable.start()
    run(2000)
    expect(due.map(({ slot }) => slot)).toEqual([passed, passed + 10_000])
  })

  test('do not begin before `from`', () => {
    const { clock, timetable, due, run } = setUp()
    const next = slotAtOrAfter(slots, clock.now())
    timetable.set([[{ id: 'a', slots, from: next + 1 }, 'a']])
    timetable.start()
    run(25_000)
    expect(due.map(({ slot }) => slot)).toEqual([next + 10_000, next + 20_000])
  })

  test('end before `until`, by themselves', () => {
    const { clock, timetable, due, run } = setUp()
    const next = slotAtOrAfter(slots, clock.now())
    timetable.set([[{ id: 'a', slots, from: next, until: next + 10_000 }, 'a']])
    timetable.start()
    run(25_000)
    expect(due.map(({ slot }) => slot)).toEqual([next])
    expect(timetable.size()).toBe(0)
  })

  test('continue where the end is withdrawn, and none is reported twice', () => {
    const { clock, timetable, due, run } = setUp()
    const next = slotAtOrAfter(slots, clock.now())
    timetable.set([[{ id: 'a', slots, from: next }, 'a']])
    timetable.start()
    run(11_000)
    timetable.set([[{ id: 'a', slots, from: next, until: next + 10_000 }, 'a']])
    run(10_000)
    timetable.set([[{ id: 'a', slots, from: next }, 'a']])
    run(10_000)
    const reported = due.map(({ slot }) => slot)
    expect(reported).toEqual([...new Set(reported)])
    expect(reported).toContain(next + 10_000)
    expect(reported).toContain(next + 20_000)
  })

  test('that have passed and were not reported can be queried', () => {
    const { clock, timetable, run } = setUp()
    const hourly = { everyMs: 3_600_000, offsetMs: 1_800_000 }
    const passed = slotAtOrBefore(hourly, clock.now())
    timetable.set([[{ id: 'a', slots: hourly, from: 0 }, 'a']])
    expect(timetable.unreported(clock.now())).toEqual([{ subject: 'a', slot: passed }])
    timetable.start()
    run(3000)
    expect(timetable.unreported(clock.now())).toEqual([])
  })

  test('go on when the clock that is followed goes far back', () => {
    const { clock, timetable, due, run } = setUp()
    clock.follow(clock.now())
    timetable.set([[{ id: 'a', slots, from: 0 }, 'a']])
    timetable.start()
    run(30_000)
    clock.follow(clock.now() - 3_600_000)
    due.length = 0
    run(30_000)
    expect(due.length).toBeGreaterThanOrEqual(2)
    expect(Math.max(...due.map(({ slot }) => slot))).toBeLessThanOrEqual(clock.now())
  })

  test.each([[-3800], [3800]])(
    'are reported once each when a correction of %i ms shows that the clock was wrong',
    (byMs) => {
      const { clock, timetable, due, skipped, jumps, run } = setUp()
      const everySecond = { everyMs: 1000, offsetMs: 300 }
      clock.follow(clock.now() + 3_600_000, 4000)
      timetable.set([
        [{ id: 'a', slots: everySecond, from: slotAtOrAfter(everySecond, clock.now()) }, 'a'],
      ])
      timetable.start()
      run(5000)
      clock.follow(clock.now() + byMs, 2)
      const correctedAt = clock.now()
      const before = due.length
      run(10_000)
      expect(jumps).toEqual([])
      const reported = due.map(({ slot }) => slot)
      expect(new Set(reported).size).toBe(reported.length)
      const skips = skipped.reduce((sum, { count }) => sum + count, 0)
      const first = reported[0] ?? 0
      expect(reported.length + skips).toBe(slotsBetween(everySecond, first, clock.now() + 1))
      expect(skips > 0).toBe(byMs > 0)
      const inTime = due.slice(before).filter(({ slot }) => slot > correctedAt)
      expect(inTime.length).toBeGreaterThanOrEqual(5)
      expect(Math.max(...inTime.map(({ at, slot }) => at - slot))).toBeLessThanOrEqual(2)
    },
  )

  test('that were reported a day too early are reported again when the clock is right', () => {
    const { clock, timetable, due, jumps, run } = setUp()
    const now = clock.now()
    clock.follow(now + 86_400_000)
    timetable.set([[{ id: 'a', slots, from: now - 60_000 }, 'a']])
    timetable.start()
    run(25_000)
    expect(Math.min(...due.map(({ slot }) => slot))).toBeGreaterThan(now + 60_000_000)
    due.length = 0
    clock.follow(now + 25_000, 2)
    run(25_000)
    expect(jumps).toEqual([])
    const first = slotAtOrAfter(slots, now + 25_000)
    expect(due.map(({ slot }) => slot)).toEqual(
      [first, first + 10_000].filter((one) => one <= clock.now()),
    )
  })
})
