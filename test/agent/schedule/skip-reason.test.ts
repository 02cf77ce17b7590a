// Why slots were skipped: the timetable on clocks that are moved by hand.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunningTimetable } from '../../../src/agent/schedule/running-timetable.ts'
import { fakeClocks } from '../../support/fake-clock.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

const every = (seconds: number, id = 'a') => ({ id, frequency: 0, frequencyOffset: seconds })

function setUp() {
  const clocks = fakeClocks()
  const skipped: { id: string; reason: string }[] = []
  const timetable = createRunningTimetable<string>(createClock(clocks), {
    onDue: () => undefined,
    onSkipped: (id, _slots, _from, _to, reason) => skipped.push({ id, reason }),
    onClockJump: () => undefined,
  })
  const run = (ms: number) => {
    for (let passed = 0; passed < ms; passed++) {
      clocks.pass(1)
      vi.advanceTimersByTime(1)
    }
  }
  return { clocks, timetable, skipped, run }
}

describe('slots that were skipped', () => {
  test('a clock that is set forward is no sleep', () => {
    const { clocks, timetable, skipped, run } = setUp()
    timetable.set([[every(1), 'a']])
    timetable.start()
    run(3000)
    clocks.setWall(60_000)
    run(1000)
    expect(skipped).toEqual([{ id: 'a', reason: 'clock-set' }])
  })

  test('a thread that was busy all that time was not stopped', () => {
    const { clocks, timetable, skipped, run } = setUp()
    timetable.set([
      [every(1, 'a'), 'a'],
      [every(2, 'b'), 'b'],
    ])
    timetable.start()
    run(3000)
    clocks.work(30_000)
    run(1000)
    expect(new Map(skipped.map(({ id, reason }) => [id, reason]))).toEqual(
      new Map([
        ['a', 'overloaded'],
        ['b', 'overloaded'],
      ]),
    )
  })

  test.each([
    [6000, 'overloaded'],
    [3000, 'suspended'],
  ])('of 9 s, %i ms of them at work, the larger part counts: %s', (workMs, expected) => {
    const { clocks, timetable, skipped, run } = setUp()
    timetable.set([[every(1), 'a']])
    timetable.start()
    run(3000)
    clocks.work(workMs)
    clocks.pass(9000 - workMs)
    run(1000)
    expect(skipped.map(({ reason }) => reason)).toEqual([expected])
  })

  test('work before the stop does not count', () => {
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
})
