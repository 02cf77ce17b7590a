// The agent's clock never goes back; a remote clock is followed both ways, as far as its uncertainty allows.
import { describe, expect, test } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { fakeClocks } from '../../support/fake-clock.ts'
import { randomFrom } from '../../support/random.ts'

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

test('a wall clock that goes forward is followed at once, and reported once', () => {
  const { clocks, clock, start } = setUp()
  clocks.setWall(3_600_000)
  expect(clock.now()).toBe(start)
  expect(clock.observe()).toEqual({ byMs: 3_600_000, isStep: true })
  expect(clock.now()).toBe(start + 3_600_000)
  expect(clock.observe()).toBeUndefined()
  expect(clock.offsetMs()).toBe(0)
})

describe('a wall clock that is set back', () => {
  test('is reported once and not followed', () => {
    const { clocks, clock, start } = setUp()
    clocks.setWall(-60_000)
    expect(clock.observe()).toEqual({ byMs: -60_000, isStep: false })
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
    expect(clock.observe()).toEqual({ byMs: -1000, isStep: false })
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

describe('a remote clock', () => {
  test.each([3_600_000, -7_200_000])('is followed at once the first time: by %i ms', (byMs) => {
    const { clock, start } = setUp()
    clock.follow(start + byMs, 2)
    expect(clock.now()).toBe(start + byMs)
    expect(clock.observe()).toBeUndefined()
  })

  test.each([3_600_000, -3_600_000])('counts where the machine’s own is set by %i ms', (byMs) => {
    const { clocks, clock, start } = setUp()
    clock.follow(start + 5000, 2)
    clocks.setWall(byMs)
    clocks.pass(1000)
    expect(clock.observe()).toBeUndefined()
    expect(clock.now()).toBe(start + 6000)
  })

  test('goes on while the machine sleeps', () => {
    const { clocks, clock, start } = setUp()
    clock.follow(start, 2)
    clocks.sleep(60_000)
    expect(clock.observe()).toEqual({ byMs: 60_000, isStep: true })
    expect(clock.now()).toBe(start + 60_000)
    expect(clock.observe()).toBeUndefined()
  })

  test.each([10_000, -4000, -60_000])('that was set by %i ms is followed, a jump', (byMs) => {
    const { clock, start } = setUp()
    clock.follow(start, 2)
    clock.follow(start + byMs, 2)
    expect(clock.observe()).toEqual({ byMs, isStep: true })
    expect(clock.now()).toBe(start + byMs)
    expect(clock.observe()).toBeUndefined()
  })

  test('is slewed to when it differs little for no known reason', () => {
    const { clocks, clock, start } = setUp()
    clock.follow(start, 2)
    clock.follow(start - 100, 2)
    expect(clock.now()).toBe(start)
    expect(clock.uncertaintyMs()).toBeCloseTo(102)
    for (let second = 0; second < 120; second++) {
      expect(clock.observe()).toBeUndefined()
      clocks.pass(1000)
    }
    expect(Math.abs(clock.offsetMs())).toBeLessThan(5)
  })
})

describe('the uncertainty of a remote clock', () => {
  test('does not explain more than it is', () => {
    const { clock, start } = setUp()
    clock.follow(start + 60_000, 1000)
    clock.follow(start + 57_000, 2)
    expect(clock.observe()).toEqual({ byMs: -3000, isStep: true })
  })

  test('grows with time, and explains the drift of a long outage', () => {
    const { clocks, clock, start } = setUp()
    clock.follow(start, 2)
    clocks.pass(10 * 3_600_000)
    expect(clock.uncertaintyMs()).toBeCloseTo(1802)
    clock.follow(clock.now() - 1500, 2)
    expect(clock.observe()).toBeUndefined()
    expect(clock.now()).toBe(start + 10 * 3_600_000 - 1500)
  })

  test('always covers how far the clock is off', () => {
    const { clocks, clock } = setUp()
    const random = randomFrom(16)
    let drifted = 60_000
    for (let step = 0; step < 2000; step++) {
      const passedMs = random.below(30_000)
      clocks.pass(passedMs)
      drifted += passedMs * 50e-6 * (random.below(3) - 1)
      const trueMs = clocks.wallMs() + drifted
      const boundMs = clock.uncertaintyMs() ?? Infinity
      expect(Math.abs(clock.now() - trueMs)).toBeLessThanOrEqual(boundMs + 1e-3)
      if (random.below(4) === 0) {
        const uncertaintyMs = 2 + random.below(random.below(2) === 0 ? 20 : 5000)
        const error = (random.below(2001) / 1000 - 1) * uncertaintyMs
        clock.follow(trueMs + error, uncertaintyMs)
      }
      clock.observe()
    }
  })
})
