// Aim: faults are reported once each and within bounds, and a receiver never blocks the program.
import { Registry } from 'prom-client'
import { describe, expect, test } from 'vitest'
import type { FaultEvent } from '../../../src/process/faults/event.ts'
import { Fault } from '../../../src/process/faults/fault.ts'
import { FaultReports } from '../../../src/process/faults/reports.ts'
import { type FaultReceiver, pauseMsOf } from '../../../src/process/faults/sentry-envelope.ts'
import { eventually } from '../../support/eventually.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

function recorder() {
  const made = {
    events: [] as FaultEvent[],
    answer: undefined as (() => ReturnType<FaultReceiver['take']>) | undefined,
    take(event: FaultEvent) {
      made.events.push(event)
      return made.answer?.() ?? Promise.resolve({ status: 200, headers: {} })
    },
  }
  return made
}

/** Faults that differ by their texts. */
const fault = (text: string) => new Fault('Error', [], { text })

function reportsTo(open: () => Promise<FaultReceiver>) {
  const clock = { nowMs: 0 }
  const options = { release: 'vedette-agent@8.4.0', open, now: () => clock.nowMs }
  const reports = new FaultReports(options)
  const registry = new Registry()
  reports.registerMetrics(registry)
  const report = (...texts: string[]) => {
    for (const text of texts) reports.report(fault(text))
  }
  /** Resolves with the outcomes when there are so many. */
  const outcomes = async (total: number): Promise<unknown> => {
    const counted = async () => {
      const [metric] = await registry.getMetricsAsJSON()
      const some = (metric?.values ?? []).filter(({ value }) => value > 0)
      const sum = some.reduce((before, { value }) => before + value, 0)
      return sum >= total && some.map(({ labels, value }) => [labels['outcome'], value] as const)
    }
    return Object.fromEntries(await eventually(counted, { everyMs: 2 }))
  }
  return { reports, report, clock, outcomes }
}

const sendingTo = (receiver: FaultReceiver) => reportsTo(() => Promise.resolve(receiver))
const numbered = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => `fault ${from + at}`)

describe('sending', () => {
  test('the same fault is sent once an hour; errors of one place are the same', async () => {
    const { reports, report, clock, outcomes } = sendingTo(recorder())
    report('a row is bad', 'a row is bad', 'a row is bad')
    expect(await outcomes(3)).toEqual({ repeated: 2, sent: 1 })
    clock.nowMs += 3_600_000
    report('a row is bad')
    expect(await outcomes(4)).toEqual({ repeated: 2, sent: 2 })
    for (const text of ['one', 'two']) reports.report(new Error(text))
    expect(await outcomes(6)).toEqual({ repeated: 3, sent: 3 })
  })

  test('ten are sent at once, then one in six seconds', async () => {
    const { report, clock, outcomes } = sendingTo(recorder())
    report(...numbered(0, 15))
    expect(await outcomes(15)).toEqual({ sent: 10, limited: 5 })
    clock.nowMs += 12_000
    report(...numbered(15, 19))
    expect(await outcomes(19)).toEqual({ sent: 12, limited: 7 })
  })

  test('a hanging receiver fills a bounded queue', async () => {
    const receiver = recorder()
    receiver.answer = () => new Promise(() => {})
    const { report, clock, outcomes } = sendingTo(receiver)
    for (const text of numbered(0, 45)) {
      clock.nowMs += 6000
      report(text)
    }
    expect(await outcomes(14)).toEqual({ overflow: 14 })
    await eventually(() => receiver.events.length > 0, { everyMs: 2 })
    expect(receiver.events).toHaveLength(1)
  })

  test.each([
    ['refuses it', () => Promise.resolve({ status: 503, headers: {} })],
    ['breaks off', () => Promise.reject(new Error('broken'))],
  ])('a fault is sent when it happens again, if its receiver %s', async (_, answer) => {
    const receiver = recorder()
    receiver.answer = answer
    const { report, outcomes } = sendingTo(receiver)
    report('a')
    expect(await outcomes(1)).toEqual({ failed: 1 })
    receiver.answer = undefined
    report('a')
    expect(await outcomes(2)).toEqual({ failed: 1, sent: 1 })
  })

  test('after 429 nothing is sent until its end', async () => {
    const receiver = recorder()
    receiver.answer = () => Promise.resolve({ status: 429, headers: { 'retry-after': '30' } })
    const { reports, report, clock, outcomes } = sendingTo(receiver)
    report('a')
    expect(await outcomes(1)).toEqual({ failed: 1 })
    receiver.answer = undefined
    clock.nowMs = 29_999
    report('b')
    await reports.last(fault('c'))
    expect(await outcomes(3)).toEqual({ failed: 1, limited: 2 })
    clock.nowMs = 30_000
    report('b')
    expect(await outcomes(4)).toEqual({ failed: 1, limited: 2, sent: 1 })
  })
})

const now = Date.parse('2026-11-21T12:00:00Z')
const LIMITS = 'x-sentry-rate-limits'
test.each([
  ['503 says nothing', 503, {}, 0],
  ['429 alone is a minute', 429, {}, 60_000],
  ['Retry-After in seconds', 429, { 'retry-after': '7' }, 7000],
  ['Retry-After as a date', 429, { 'retry-after': 'Sat, 21 Nov 2026 12:00:09 GMT' }, 9000],
  ['Retry-After that is no time', 429, { 'retry-after': 'soon' }, 60_000],
  ['a day at most', 429, { 'retry-after': '99999999' }, 86_400_000],
  ['a limit for all', 429, { [LIMITS]: '60::organization' }, 60_000],
  ['a limit for errors', 200, { [LIMITS]: '5:transaction:key, 9:error;security:key:why' }, 9000],
  ['the longest of those', 429, { [LIMITS]: '5::key,2.5:error:key' }, 5000],
  ['a limit for others', 429, { [LIMITS]: '60:transaction:key', 'retry-after': '60' }, 0],
  ['a limit without a time', 429, { [LIMITS]: ':error:key' }, 0],
  ['a limit that is no number', 429, { [LIMITS]: 'x:error:key' }, 60_000],
])('the pause that a receiver requests: %s', (_, status, headers, pauseMs) => {
  expect(pauseMsOf({ status, headers }, now)).toBe(pauseMs)
})

test('an error that is logged several times is reported once', async () => {
  const receiver = recorder()
  const { reports, report, outcomes } = sendingTo(receiver)
  const error = new Error('x')
  await reports.last(error)
  reports.logged(error)
  reports.report(error)
  report('another')
  expect(await outcomes(2)).toEqual({ sent: 2 })
  expect(receiver.events.map(({ level }) => level)).toEqual(['fatal', 'error'])
})

test.each([
  ['the system’s', Object.assign(new Error('no space'), { code: 'ENOSPC' })],
  ['our own', Object.assign(new Error('no answer'), { code: 'UNREACHABLE' })],
])('logged operational errors are not reported: %s', async (_, error) => {
  const receiver = recorder()
  const { reports, outcomes } = sendingTo(receiver)
  reports.logged(error)
  reports.logged(Object.assign(new Error('bad'), { code: 'ERR_INVALID_ARG_TYPE' }))
  expect(await outcomes(1)).toEqual({ sent: 1 })
  expect(receiver.events[0]?.exception.values[0]?.value).toBe('ERR_INVALID_ARG_TYPE')
})

test('the last report times out', async () => {
  const { reports } = reportsTo(() => new Promise(() => {}))
  const ownMs = startStopwatch()
  await reports.last(new Error('x'))
  expect(ownMs()).toBeLessThan(3500)
})

test('a failed connection is counted, and opened again for the next', async () => {
  let isOpen = false
  const { reports, report, outcomes } = reportsTo(() =>
    isOpen ? Promise.resolve(recorder()) : Promise.reject(new Error('not yet')),
  )
  await reports.last(new Error('x'))
  expect(await outcomes(1)).toEqual({ failed: 1 })
  isOpen = true
  report('y')
  expect(await outcomes(2)).toEqual({ failed: 1, sent: 1 })
})
