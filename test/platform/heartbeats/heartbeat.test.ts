// Aim: which result each ping and each passed deadline gives, and when the next ping is late.
import { describe, expect, test } from 'vitest'
import {
  expireDeadline,
  type HeartbeatState,
  receivePing,
  reschedule,
} from '../../../src/platform/heartbeats/heartbeat.ts'

const PERIOD = 60_000
const GRACE = 10_000
const WELL = { exitCode: 0 }
const timing = { periodMs: PERIOD, graceMs: GRACE, isActive: true }
/** A heartbeat whose last ping came at 1,000,000. */
const pinged = receivePing(reschedule(undefined, timing, 900_000), WELL, 1_000_000).state

describe('a ping', () => {
  test.each([
    [0.9 * PERIOD - 1, 'EARLY'],
    [0.9 * PERIOD, 'RECEIVED'],
    [PERIOD, 'RECEIVED'],
    [PERIOD + 1, 'GRACE'],
    [PERIOD + GRACE - 1, 'GRACE'],
  ])('%i ms after the last one is %s', (afterMs, state) => {
    const { events } = receivePing(pinged, WELL, 1_000_000 + afterMs)
    expect(events.map((one) => one.state)).toEqual([state])
    expect(events[0]?.failure).toBeUndefined()
  })

  test('at the deadline it is LATE, after a failure at the deadline', () => {
    const at = 1_000_000 + PERIOD + GRACE
    const { state, events } = receivePing(pinged, WELL, at)
    expect(events).toMatchObject([
      { slotMs: at, state: 'FAILING', failure: { code: 'HEARTBEAT_MISSED' } },
      { slotMs: at + 1, state: 'LATE' },
    ])
    expect(state).toMatchObject({ isLate: false, deadlineMs: at + PERIOD + GRACE })
  })

  test.each([255, null])('with exit code %s it fails', (exitCode) => {
    const { state, events } = receivePing(pinged, { exitCode }, 1_030_000)
    expect(events).toMatchObject([{ state: 'FAILING', failure: { code: 'HEARTBEAT_FAILED' } }])
    // `fail` reports none.
    expect(events[0]?.failure?.message.includes('exit code')).toBe(exitCode !== null)
    expect(state.deadlineMs).toBe(1_030_000 + PERIOD + GRACE)
  })

  test('after a start it has the time since then; a start alone moves no deadline', () => {
    const started = receivePing(pinged, 'start', 1_050_000)
    expect(started).toEqual({ state: { ...pinged, startedMs: 1_050_000 }, events: [] })
    const ended = receivePing(started.state, WELL, 1_058_000)
    expect(ended.events).toMatchObject([{ durationMs: 8_000 }])
    expect(ended.state.startedMs).toBeNull()
  })
})

describe('a deadline', () => {
  const at = 1_000_000 + PERIOD + GRACE

  test.each([
    [0, 1],
    [PERIOD - 1, 1],
    [PERIOD, 2],
  ])('seen %i ms later gives one failure; the next one lies %i periods on', (lateMs, periods) => {
    const { state, events } = expireDeadline(pinged, at + lateMs)
    expect(events).toMatchObject([{ slotMs: at, state: 'FAILING' }])
    expect(state).toMatchObject({ isLate: true, deadlineMs: at + periods * PERIOD })
  })
})

describe('a changed definition', () => {
  const later = { ...timing, periodMs: 2 * PERIOD }
  const off = reschedule(pinged, { ...timing, isActive: false }, 1_010_000)

  test.each<[string, HeartbeatState | undefined, typeof timing, number | null]>([
    ['is watched from its creation on', undefined, timing, 1_020_000 + PERIOD + GRACE],
    ['that changes no time keeps the deadline', pinged, timing, pinged.deadlineMs],
    ['counts a new period from the last ping', pinged, later, 1_000_000 + 2 * PERIOD + GRACE],
    ['that is not active has no deadline', pinged, { ...timing, isActive: false }, null],
    ['begins anew when it is active again', off, timing, 1_020_000 + PERIOD + GRACE],
  ])('%s', (_, before, to, deadlineMs) => {
    expect(reschedule(before, to, 1_020_000).deadlineMs).toBe(deadlineMs)
  })

  test('never has a deadline that has passed', () => {
    const now = 1_000_000 + PERIOD
    const short = { periodMs: 30_000, graceMs: 0, isActive: true }
    expect(reschedule(pinged, short, now).deadlineMs).toBe(now + 30_000)
  })
})
