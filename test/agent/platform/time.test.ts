// The platform's time is found by the shortest call; waits between tries are spread, bounded, and obey the platform.
import { describe, expect, test } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { collectingLog } from '../../support/collecting-log.ts'
import { fakeClocks } from '../../support/fake-clock.ts'
import { PlatformTime } from '../../../src/agent/platform/time.ts'
import { Backoff, retryAfterMs } from '../../../src/agent/platform/backoff.ts'

type Call = [thereMs: number, heldMs: number, backMs: number, aheadMs: number]

describe('the platform’s time', () => {
  const { log } = collectingLog()
  /** Measures with calls that take so long there, at the platform, and back; ahead of this machine. */
  function measured(calls: Call[]) {
    const clocks = fakeClocks()
    const clock = createClock(clocks)
    const time = new PlatformTime(clock, log)
    for (const [thereMs, heldMs, backMs, aheadMs] of calls) {
      const sentAtMs = clocks.monotonicMs()
      clocks.pass(thereMs)
      const receivedAt = clocks.wallMs() + aheadMs
      clocks.pass(heldMs)
      const replySentAt = clocks.wallMs() + aheadMs
      clocks.pass(backMs)
      time.add({ sentAtMs, answeredAtMs: clocks.monotonicMs(), receivedAt, replySentAt })
      clock.observe()
    }
    return clock.now() - clocks.wallMs()
  }

  test('is found through a call that was held', () => {
    expect(measured([[20, 20_000, 20, 5000]])).toBe(5000)
  })

  test('stays that of the shortest call however many longer ones follow', () => {
    const longer = Array.from({ length: 50 }, (): Call => [900, 100, 5, 5000])
    expect(measured([[5, 100, 5, 5000], ...longer])).toBeCloseTo(5000, 0)
  })

  test('is not found through a call of half a minute', () => {
    expect(measured([[30_000, 10, 0, 60_000]])).toBe(0)
  })
})

describe('the wait for the next try', () => {
  test('doubles up to half a minute, and is spread', () => {
    const longest = new Backoff(() => 0.999999)
    const waits = Array.from({ length: 12 }, () => Math.round(longest.next(undefined)))
    expect(waits.slice(0, 4)).toEqual([250, 500, 1000, 2000])
    expect(Math.max(...waits)).toBe(30_000)
    longest.reset()
    expect(Math.round(longest.next(undefined))).toBe(250)
    expect(new Backoff(() => 0).next(undefined)).toBe(0)
  })

  test.each([
    [7000, 7000],
    [3_600_000, 60_000],
  ])('is at least what the platform asks for, %i ms, within a minute', (asked, least) => {
    expect(new Backoff(() => 0).next(asked)).toBe(least)
    expect(new Backoff(() => 0.99).next(asked)).toBeLessThan(least + 8000)
  })

  test('is long for what only people can fix', () => {
    expect(new Backoff(() => 0).slow(undefined)).toBe(30_000)
    expect(new Backoff(() => 1).slow(undefined)).toBe(60_000)
  })

  test.each<[string | undefined, number | undefined]>([
    [undefined, undefined],
    ['7', 7000],
    ['soon', undefined],
    ['Thu, 01 Jan 1970 00:00:20 GMT', 10_000],
    ['Thu, 01 Jan 1970 00:00:05 GMT', 0],
  ])('Retry-After %j asks for %j ms', (header, ms) => {
    expect(retryAfterMs(header, 10_000)).toBe(ms)
  })
})
