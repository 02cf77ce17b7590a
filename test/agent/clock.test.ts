// The agent's clock follows the wall clock forward and never goes back, whoever sets it.
import { describe, expect, test } from 'vitest'
import { createClock } from '../../src/agent/clock.ts'
import { fakeClocks } from '../support/fake-clock.ts'

function setUp() {
  const clocks = fakeClocks()
  return { clocks, clock: createClock(clocks), start: clocks.wallMs() }
}

test('runs with the monotonic clock between observations', () => {
  const { clocks, clock, start } = setUp()
  clocks.pass(1234.5)
  expect(clock.now()).toBe(start + 1234.5)
  expect(clock.observe()).toBeUndefined()
})

describe('a wall clock that goes forward', () => {
  test('is followed at once, and reported once', () => {
    const { clocks, clock, start } = setUp()
    clocks.setWall(3_600_000)
    expect(clock.now()).toBe(start)
    expect(clock.observe()).toEqual({ byMs: 3_600_000 })
    expect(clock.now()).toBe(start + 3_600_000)
    expect(clock.observe()).toBeUndefined()
    expect(clock.offsetMs()).toBe(0)
  })
})

describe('a wall clock that is set back', () => {
  test('is reported once and not followed', () => {
    const { clocks, clock, start } = setUp()
    clocks.setWall(-60_000)
    expect(clock.observe()).toEqual({ byMs: -60_000 })
    expect(clock.observe()).toBeUndefined()
    expect(clock.now()).toBe(start)
    expect(clock.offsetMs()).toBe(-60_000)
  })

  test('is waited for, one per cent slower, and never backwards', () => {
    const { clocks, clock, start } = setUp()
    clocks.setWall(-60_000)
    let last = clock.now()
    for (let second = 0; second < 100; second++) {
      clock.observe()
      clocks.pass(1000)
      expect(clock.now()).toBeGreaterThan(last)
      last = clock.now()
    }
    expect(last - start).toBeCloseTo(99_000, 3)
    clock.observe()
    expect(clock.offsetMs()).toBeCloseTo(-59_000, 3)
  })

  test('a second setting is reported again once the first has been made good', () => {
    const { clocks, clock } = setUp()
    clocks.setWall(-1000)
    expect(clock.observe()).toEqual({ byMs: -1000 })
    for (let second = 0; second < 200; second++) {
      clocks.pass(1000)
      clock.observe()
    }
    clocks.setWall(-2000)
    expect(clock.observe()?.byMs).toBeLessThan(-2000)
  })
})

test('drift is slewed away without a jump and without swinging around', () => {
  const { clocks, clock } = setUp()
  clocks.setWall(400)
  const offsets: number[] = []
  for (let second = 0; second < 120; second++) {
    expect(clock.observe()).toBeUndefined()
    offsets.push(clock.offsetMs())
    clocks.pass(1000)
  }
  expect(offsets.at(-1)).toBeLessThan(5)
  expect(Math.min(...offsets)).toBeGreaterThanOrEqual(0)
})

describe('somebody else’s clock', () => {
  test.each([[3_600_000], [-7_200_000]])(
    'is taken over at once the first time, by %i ms',
    (byMs) => {
      const { clock, start } = setUp()
      clock.follow(start + byMs)
      expect(clock.now()).toBe(start + byMs)
      expect(clock.observe()).toBeUndefined()
    },
  )

  test.each([[3_600_000], [-3_600_000]])(
    'is what counts when somebody sets the machine’s own by %i ms',
    (byMs) => {
      const { clocks, clock, start } = setUp()
      clock.follow(start + 5000)
      clocks.setWall(byMs)
      clocks.pass(1000)
      expect(clock.observe()).toBeUndefined()
      expect(clock.now()).toBe(start + 6000)
    },
  )

  test('goes on while the machine sleeps', () => {
    const { clocks, clock, start } = setUp()
    clock.follow(start)
    clocks.sleep(60_000)
    expect(clock.observe()).toEqual({ byMs: 60_000 })
    expect(clock.now()).toBe(start + 60_000)
    expect(clock.observe()).toBeUndefined()
  })

  test('is followed forward at once, and slewed to when it differs little', () => {
    const { clocks, clock, start } = setUp()
    clock.follow(start)
    clock.follow(start + 10_000)
    expect(clock.observe()).toEqual({ byMs: 10_000 })
    clock.follow(clock.now() - 100)
    expect(clock.observe()).toBeUndefined()
    for (let second = 0; second < 120; second++) {
      clocks.pass(1000)
      expect(clock.observe()).toBeUndefined()
    }
    expect(Math.abs(clock.offsetMs())).toBeLessThan(5)
  })

  test('that is set back a little is waited for, and followed back when it is far', () => {
    const { clock, start } = setUp()
    clock.follow(start)
    clock.follow(start - 4000)
    expect(clock.observe()).toEqual({ byMs: -4000 })
    expect(clock.now()).toBe(start)
    clock.follow(start - 60_000)
    expect(clock.observe()).toEqual({ byMs: -60_000, wentBack: true })
    expect(clock.now()).toBe(start - 60_000)
    expect(clock.observe()).toBeUndefined()
  })
})
