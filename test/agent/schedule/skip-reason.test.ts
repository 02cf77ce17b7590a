// Why slots were skipped: the timetable on clocks that are moved by hand.
import { describe, expect, test } from 'vitest'
import { every, movedTimetable as setUp, moveTimers } from '../../support/agent/moved-timetable.ts'

moveTimers()

describe('slots that were skipped', () => {
  test('a clock that is set forward is no sleep', () => {
    const { clocks, timetable, skipped, run } = setUp()
    timetable.set([[every(1), 'a']])
    timetable.start()
    run(3000)
    clocks.setWall(60_000)
    run(1000)
    expect(skipped).toMatchObject([{ id: 'a', reason: 'clock-set' }])
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
