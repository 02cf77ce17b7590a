// What is done about each answer, and how long is waited before the next attempt.
import { describe, expect, test } from 'vitest'
import {
  actionForError,
  actionForStatus,
  HOLD_MS_MAX,
  RETRY_AFTER_MS_MAX,
  waitBefore,
} from '../../../src/agent/delivery/batch-sender.ts'

describe('the action', () => {
  test.each([
    [200, 'done'],
    [204, 'done'],
    [299, 'done'],
    [302, 'hold'],
    [400, 'halve'],
    [401, 'hold'],
    [403, 'hold'],
    [404, 'hold'],
    [405, 'hold'],
    [407, 'hold'],
    [408, 'retry'],
    [409, 'halve'],
    [413, 'halve'],
    [415, 'hold'],
    [422, 'halve'],
    [425, 'retry'],
    [429, 'retry'],
    [499, 'hold'],
    [500, 'retry'],
    [503, 'retry'],
    [599, 'retry'],
    [999, 'retry'],
  ])('for status %i is %s', (status, action) => expect(actionForStatus(status)).toBe(action))

  test.each([
    ['UNREACHABLE', 'retry'],
    ['TIMEOUT', 'retry'],
    ['TLS', 'retry'],
    ['PROXY', 'retry'],
    ['TRUNCATED', 'retry'],
    ['REDIRECTED', 'hold'],
  ])('for %s is %s', (code, action) => expect(actionForError(code)).toBe(action))
})

describe('the wait', () => {
  const nowMs = Date.UTC(2030, 0, 1)
  const retry = { action: 'retry', nowMs } as const
  test.each([
    ['doubles', { ...retry, failures: 1 }, 0, 1000],
    ['and doubles', { ...retry, failures: 3 }, 0, 4000],
    ['up to half a minute', { ...retry, failures: 50 }, 0, 30_000],
    ['is as asked for, in seconds', { ...retry, failures: 1, retryAfter: '7' }, 7000, 8000],
    [
      'is as asked for, by a date',
      { ...retry, failures: 1, retryAfter: 'Tue, 01 Jan 2030 00:00:09 GMT' },
      9000,
      10_000,
    ],
    [
      'is never for ever',
      { ...retry, failures: 1, retryAfter: '999999999' },
      RETRY_AFTER_MS_MAX,
      RETRY_AFTER_MS_MAX + 1000,
    ],
    ['does not mind nonsense', { ...retry, failures: 1, retryAfter: 'soon' }, 0, 1000],
    ['does not mind the past', { ...retry, failures: 1, retryAfter: '-4' }, 0, 1000],
    [
      'of a hold is long from the start',
      { action: 'hold', failures: 1, nowMs } as const,
      HOLD_MS_MAX / 2,
      HOLD_MS_MAX,
    ],
  ])('%s', (_, attempted, least, most) => {
    expect(waitBefore(attempted, () => 0)).toBe(least)
    expect(waitBefore(attempted, () => 1)).toBe(most)
  })
})
