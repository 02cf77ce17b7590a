// How long to wait before the next attempt, and when there must be none.
import { describe, expect, test } from 'vitest'
import { failure, type FailureCode } from '../../src/contract/failure.ts'
import { RetryStrategy, retryWaitMs } from '../../src/contract/retry.ts'

const strategy = (given: Record<string, unknown>) => RetryStrategy.parse(given)
const after = (attempts: number, elapsedMs = 0, code: FailureCode = 'HTTP_STATUS') => {
  return { attempts, elapsedMs, failures: [failure(code, 'seen')] }
}

describe('waits', () => {
  const waits = (type: string, baseBackoffSeconds: number) => {
    const given = strategy({ type, baseBackoffSeconds, maxRetries: 3 })
    return [1, 2, 3, 4].map((attempts) => retryWaitMs(given, after(attempts)))
  }
  test.each([
    ['fixed waits are all alike', 'FIXED', 5, [5000, 5000, 5000, undefined]],
    ['linear waits grow by the base', 'LINEAR', 5, [5000, 10_000, 15_000, undefined]],
    ['exponential waits are powers of the base', 'EXPONENTIAL', 3, [3000, 9000, 27_000, undefined]],
    ['a single retry is one', 'SINGLE_RETRY', 5, [5000, undefined, undefined, undefined]],
    ['a base of 0 retries at once', 'FIXED', 0, [0, 0, 0, undefined]],
    ['no retries are none', 'NO_RETRIES', 5, [undefined, undefined, undefined, undefined]],
  ])('%s', (_, type, base, expected) => expect(waits(type, base)).toEqual(expected))

  test('no strategy means no retries', () => {
    expect(retryWaitMs(null, after(1))).toBeUndefined()
    expect(retryWaitMs(undefined, after(1))).toBeUndefined()
  })
})

test('a wait is begun that ends within the longest duration, and no other', () => {
  const given = strategy({ type: 'FIXED', baseBackoffSeconds: 10, maxDurationSeconds: 30 })
  expect(retryWaitMs(given, after(1, 19_999))).toBe(10_000)
  expect(retryWaitMs(given, after(1, 20_000))).toBeUndefined()
})

describe('only on network errors', () => {
  const given = strategy({ type: 'FIXED', baseBackoffSeconds: 1, onlyOn: ['NETWORK_ERROR'] })
  test.each<[string, FailureCode, number | undefined]>([
    ['a refused connection is one', 'CONNECT_REFUSED', 1000],
    ['a timeout is one', 'TIMEOUT_FIRST_BYTE', 1000],
    ['a reset stream is one', 'HTTP2_STREAM_RESET', 1000],
    ['a status is none', 'HTTP_STATUS', undefined],
    ['a certificate is none', 'TLS_EXPIRED', undefined],
  ])('%s', (_, code, expected) => expect(retryWaitMs(given, after(1, 0, code))).toBe(expected))

  test('a single value instead of a list means the same', () => {
    const single = strategy({ type: 'FIXED', onlyOn: 'NETWORK_ERROR' })
    expect(retryWaitMs(single, after(1))).toBeUndefined()
  })
})
