// The platform's time is found within half of the shortest call's length, whatever the machine's clock shows,
// and waits between tries are spread, bounded, and obey the platform.
import { describe, expect, test } from 'vitest'
import { createPlatformTime } from '../../../src/agent/platform/time.ts'
import { createSyncWait, retryAfterMs } from '../../../src/agent/platform/sync/wait.ts'

/** The platform's clock minus the monotonic clock. */
const OFFSET = 1_700_000_000_000

/** A call sent at `at`, held for `held`, with a way there and a way back. */
function call(at: number, there: number, held: number, back: number, offset = OFFSET) {
  const receivedAt = at + there + offset
  const replySentAt = receivedAt + held
  return { sentAtMs: at, answeredAtMs: at + there + held + back, receivedAt, replySentAt }
}

describe('the platform’s time', () => {
  test('is not known at first', () => {
    expect(createPlatformTime().at(0)).toBeUndefined()
  })

  test('is found through a call that was held', () => {
    const time = createPlatformTime()
    time.add(call(1000, 20, 20_000, 20))
    expect(time.at(30_000)).toBe(OFFSET + 30_000)
  })

  test('is that of the shortest call', () => {
    const time = createPlatformTime()
    time.add(call(0, 5, 100, 5))
    time.add(call(1000, 900, 100, 5))
    time.add(call(3000, 5, 100, 1500))
    expect(Math.abs((time.at(5000) ?? 0) - OFFSET - 5000)).toBeLessThan(1)
  })

  test('stays that of the shortest call however many longer ones follow', () => {
    const time = createPlatformTime()
    time.add(call(0, 5, 100, 5))
    for (let n = 1; n < 50; n++) time.add(call(n * 20_000, 900, 100, 5))
    expect(Math.abs((time.at(1_000_000) ?? 0) - OFFSET - 1_000_000)).toBeLessThan(1)
    expect(time.uncertaintyMs(1_000_000)).toBeLessThan(60)
  })

  test.each([[3_600_000], [-3_600_000]])(
    'is taken anew when the platform’s clock is set by %i ms',
    (by) => {
      const time = createPlatformTime()
      for (let n = 0; n < 5; n++) time.add(call(n * 1000, 5, 100, 5))
      time.add(call(6000, 50, 100, 50, OFFSET + by))
      expect(time.at(7000)).toBe(OFFSET + by + 7000)
    },
  )

  test('is not found through a call during which a clock was set', () => {
    const time = createPlatformTime()
    expect(time.add({ sentAtMs: 0, answeredAtMs: 100, receivedAt: 0, replySentAt: 5000 })).toBe(
      false,
    )
    expect(time.add({ sentAtMs: 0, answeredAtMs: 90_000, receivedAt: 0, replySentAt: 5 })).toBe(
      false,
    )
  })
})

describe('the wait for the next try', () => {
  test('doubles up to half a minute, and is spread', () => {
    const longest = createSyncWait(() => 0.999999)
    const waits = Array.from({ length: 12 }, () => Math.round(longest.next(undefined)))
    expect(waits.slice(0, 4)).toEqual([250, 500, 1000, 2000])
    expect(Math.max(...waits)).toBe(30_000)
    longest.reset()
    expect(Math.round(longest.next(undefined))).toBe(250)
    expect(createSyncWait(() => 0).next(undefined)).toBe(0)
  })

  test.each([
    [7000, 7000],
    [3_600_000, 60_000],
  ])('is at least what the platform asks for, %i ms, within a minute', (asked, least) => {
    expect(createSyncWait(() => 0).next(asked)).toBe(least)
    expect(createSyncWait(() => 0.99).next(asked)).toBeLessThan(least + 8000)
  })

  test('is long for what only people can fix', () => {
    expect(createSyncWait(() => 0).slow(undefined)).toBe(30_000)
    expect(createSyncWait(() => 1).slow(undefined)).toBe(60_000)
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
