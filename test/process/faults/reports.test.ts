// Aim: faults are reported once each and within bounds, the limits of receivers are respected, and a receiver never
// blocks the program.
import { Registry } from 'prom-client'
import { describe, expect, test } from 'vitest'
import {
  Fault,
  type FaultEvent,
  type FaultReceiver,
  type ReceiverAnswer,
} from '../../../src/process/faults/fault.ts'
import {
  createFaultReports,
  FATAL_MS,
  type FaultReports,
} from '../../../src/process/faults/reports.ts'
import { createFaultSending } from '../../../src/process/faults/sending.ts'
import { pauseMsOf } from '../../../src/process/faults/sentry-envelope.ts'
import { eventually } from '../../support/eventually.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

interface Recorder extends FaultReceiver {
  events: FaultEvent[]
  answer: (() => Promise<ReceiverAnswer>) | undefined
}

function recorder(): Recorder {
  const made: Recorder = {
    events: [],
    answer: undefined,
    take(event) {
      made.events.push(event)
      return made.answer?.() ?? Promise.resolve({ status: 200, headers: {} })
    },
  }
  return made
}

/** Resolves with the list when it has so many. */
const counted = <T>(list: T[], count: number) =>
  eventually(() => list.length >= count && list, { everyMs: 2 })

const host = { release: 'vedette-agent@8.4.0' }

function sendingTo(receiver: FaultReceiver) {
  const clock = { nowMs: 0 }
  const outcomes: string[] = []
  const options = { ...host, open: () => Promise.resolve(receiver), now: () => clock.nowMs }
  const sending = createFaultSending(options, (outcome) => outcomes.push(outcome))
  return { sending, clock, outcomes }
}

/** Faults that differ by their texts. */
const fault = (text: string) => new Fault('Error', [], { text })
const letters = Array.from({ length: 52 }, (_, n) =>
  'abcdefghijklmnopqrstuvwxyz'.charAt(n % 26).repeat(n + 1),
)

describe('sending', () => {
  test('the same fault is sent once an hour', async () => {
    const receiver = recorder()
    const { sending, clock, outcomes } = sendingTo(receiver)
    for (let times = 0; times < 3; times++) sending.send(fault('a row is bad'))
    expect((await counted(outcomes, 3)).toSorted()).toEqual(['repeated', 'repeated', 'sent'])
    clock.nowMs += 3_600_000
    sending.send(fault('a row is bad'))
    await counted(outcomes, 4)
    expect(receiver.events).toHaveLength(2)
  })

  test('errors of one place are the same', async () => {
    const receiver = recorder()
    const { sending, outcomes } = sendingTo(receiver)
    for (const text of ['one', 'two']) sending.send(new Error(text))
    expect((await counted(outcomes, 2)).toSorted()).toEqual(['repeated', 'sent'])
  })

  test('ten are sent at once, then one in six seconds', async () => {
    const { sending, clock, outcomes } = sendingTo(recorder())
    for (const text of letters.slice(0, 15)) sending.send(fault(text))
    const first = await counted(outcomes, 15)
    expect(first.filter((one) => one === 'limited')).toHaveLength(5)
    clock.nowMs += 12_000
    for (const text of letters.slice(15, 19)) sending.send(fault(text))
    expect((await counted(outcomes, 19)).slice(15).toSorted()).toEqual([
      'limited',
      'limited',
      'sent',
      'sent',
    ])
  })

  test('a hanging receiver fills a bounded queue', async () => {
    const receiver = recorder()
    receiver.answer = () => new Promise(() => {})
    const { sending, clock, outcomes } = sendingTo(receiver)
    for (const text of letters.slice(0, 45)) {
      clock.nowMs += 6000
      sending.send(fault(text))
    }
    await counted(receiver.events, 1)
    expect(receiver.events).toHaveLength(1)
    expect(outcomes.filter((one) => one === 'overflow').length).toBeGreaterThan(10)
  })

  test.each([
    ['refuses it', () => Promise.resolve({ status: 503, headers: {} })],
    ['breaks off', () => Promise.reject(new Error('broken'))],
  ])(
    'what a receiver does not take since it %s is tried when it happens again',
    async (_, answer) => {
      const receiver = recorder()
      receiver.answer = answer
      const { sending, outcomes } = sendingTo(receiver)
      sending.send(fault('a'))
      expect(await counted(outcomes, 1)).toEqual(['failed'])
      receiver.answer = undefined
      await Promise.resolve()
      sending.send(fault('a'))
      expect(await counted(outcomes, 2)).toEqual(['failed', 'sent'])
    },
  )

  test('after 429 nothing is sent until its end', async () => {
    const receiver = recorder()
    receiver.answer = () => Promise.resolve({ status: 429, headers: { 'retry-after': '30' } })
    const { sending, clock, outcomes } = sendingTo(receiver)
    sending.send(fault('a'))
    await counted(outcomes, 1)
    receiver.answer = undefined
    clock.nowMs = 29_999
    sending.send(fault('b'))
    await sending.sendLast(fault('c'), 1000)
    expect(await counted(outcomes, 3)).toEqual(['failed', 'limited', 'limited'])
    clock.nowMs = 30_000
    sending.send(fault('b'))
    expect(await counted(outcomes, 4)).toEqual(['failed', 'limited', 'limited', 'sent'])
    expect(receiver.events).toHaveLength(2)
  })
})

const LIMITS = 'x-sentry-rate-limits'

describe('the pause that a receiver requests', () => {
  const now = Date.parse('2026-11-21T12:00:00Z')
  test.each([
    ['200 says nothing', 200, {}, 0],
    ['503 says nothing', 503, {}, 0],
    ['429 alone is a minute', 429, {}, 60_000],
    ['Retry-After in seconds', 429, { 'retry-after': '7' }, 7000],
    ['Retry-After as a date', 429, { 'retry-after': 'Sat, 21 Nov 2026 12:00:09 GMT' }, 9000],
    ['a date that has gone', 429, { 'retry-after': 'Sat, 21 Nov 2026 11:00:00 GMT' }, 0],
    ['Retry-After that is no time', 429, { 'retry-after': 'soon' }, 60_000],
    ['a day at most', 429, { 'retry-after': '99999999' }, 86_400_000],
    ['a limit for all', 429, { [LIMITS]: '60::organization' }, 60_000],
    ['a limit for errors', 200, { [LIMITS]: '5:transaction:key, 9:error;security:key:why' }, 9000],
    ['the longest of those', 429, { [LIMITS]: '5::key,2.5:error:key' }, 5000],
    ['a limit for others', 429, { [LIMITS]: '60:transaction:key', 'retry-after': '60' }, 0],
    ['a limit without a time', 429, { [LIMITS]: ':error:key' }, 0],
    ['a limit that is no number', 429, { [LIMITS]: 'x:error:key' }, 60_000],
  ])('%s', (_, status, headers, pauseMs) => {
    expect(pauseMsOf({ status, headers }, now)).toBe(pauseMs)
  })
})

describe('reports', () => {
  const reportsTo = (open: () => Promise<FaultReceiver>): FaultReports =>
    createFaultReports({ ...host, open })
  const metrics = async (reports: FaultReports) => {
    const registry = new Registry()
    reports.registerMetrics(registry)
    return registry.metrics()
  }

  test('an error that is logged several times is reported once', async () => {
    const receiver = recorder()
    const reports = reportsTo(() => Promise.resolve(receiver))
    const error = new Error('x')
    await reports.last(error)
    reports.logged(error)
    reports.report(error)
    reports.report(fault('another'))
    await counted(receiver.events, 2)
    expect(receiver.events.map(({ level }) => level)).toEqual(['fatal', 'error'])
    expect(await metrics(reports)).toContain('vedette_fault_reports_total{outcome="sent"} ')
  })

  test.each([
    ['the system’s', Object.assign(new Error('no space'), { code: 'ENOSPC' })],
    ['our own', Object.assign(new Error('no answer'), { code: 'UNREACHABLE' })],
  ])('logged operational errors are not reported: %s', async (_, error) => {
    const receiver = recorder()
    const reports = reportsTo(() => Promise.resolve(receiver))
    reports.logged(error)
    reports.logged(Object.assign(new Error('bad'), { code: 'ERR_INVALID_ARG_TYPE' }))
    await counted(receiver.events, 1)
    expect(receiver.events.map(({ exception }) => exception.values[0]?.value)).toEqual([
      'ERR_INVALID_ARG_TYPE',
    ])
  })

  test('the last report times out', async () => {
    const reports = reportsTo(() => new Promise(() => {}))
    const ownMs = startStopwatch()
    await reports.last(new Error('x'))
    expect(ownMs()).toBeLessThan(FATAL_MS + 1500)
  })

  test('a failed connection is counted, and opened again for the next', async () => {
    const receiver = recorder()
    let isOpen = false
    const reports = reportsTo(() =>
      isOpen ? Promise.resolve(receiver) : Promise.reject(new Error('not yet')),
    )
    await reports.last(new Error('x'))
    expect(await metrics(reports)).toContain('vedette_fault_reports_total{outcome="failed"} 1')
    isOpen = true
    reports.report(fault('y'))
    await counted(receiver.events, 1)
  })
})
