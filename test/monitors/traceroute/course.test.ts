// Aim: on any network, however it answers, the course of a trace comes to its end, sends no more than it
// may, and finds what a patient person would; hops that lose, routers that do not say what they answer, and
// targets far away are distinguished.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  TraceCourse,
  type Answer,
  type CourseSettings,
  type Probe,
} from '../../../src/monitors/traceroute/course.ts'
import { reportOf } from '../../../src/monitors/traceroute/report.ts'

/** Fate of a probe: its answer, no answer, or an answer that names no probe. */
type Fate = Answer | 'unanswered' | 'unattributed'
type Network = (probe: Probe) => Fate

const BOTH = ['one', 'each'] as const
const settingsOf = (changes: Partial<CourseSettings>): CourseSettings => ({
  maxHops: 30,
  unknownHopsMax: 15,
  probesPerHop: 3,
  flows: 'one',
  patienceMs: 1000,
  ...changes,
})

/** A simulated minute is more than any trace may last. */
const LONGEST_MS = 600_000

/** Runs the course on a network in simulated time; the time when it ends. */
function play(course: TraceCourse, network: Network): number {
  const coming: { atMs: number; probe: Probe; fate: Fate }[] = []
  for (let nowMs = 0; nowMs < LONGEST_MS;) {
    course.expire(nowMs)
    for (let probe = course.nextProbe(nowMs); probe; probe = course.nextProbe(nowMs)) {
      const fate = network(probe)
      if (fate === 'unanswered') continue
      const rttMs = typeof fate === 'object' ? fate.rttMs : 1
      coming.push({ atMs: nowMs + rttMs, probe, fate })
    }
    coming.sort((one, other) => one.atMs - other.atMs)
    const next = Math.min(course.wakeAtMs, coming[0]?.atMs ?? Infinity)
    if (next === Infinity) return nowMs
    nowMs = Math.max(nowMs, next)
    while ((coming[0]?.atMs ?? Infinity) <= nowMs) {
      const { probe, fate } = coming.shift() as (typeof coming)[number]
      if (typeof fate === 'object') course.answer(probe, fate)
      if (fate !== 'unattributed') continue
      const only = course.onlyProbe
      if (only === undefined) course.doubt()
      else course.answer(only, { kind: 'hop', from: `r${only.ttl}`, rttMs: 1 })
    }
  }
  throw new Error('the course did not end')
}

/** Routers r1, r2, … that answer after as many milliseconds, and the target behind them. */
const chain =
  (distance: number, changes: Record<number, Fate> = {}): Network =>
  ({ ttl, round }) =>
    (round >= 0 ? changes[Math.min(ttl, distance)] : undefined) ??
    (ttl < distance
      ? { kind: 'hop', from: `r${ttl}`, rttMs: ttl }
      : { kind: 'target', from: 'target', rttMs: distance })

describe.each(BOTH)('with %s flow', (flows) => {
  test('twenty silent hops before a target that answers do not end the search', () => {
    const course = new TraceCourse(settingsOf({ flows, probesPerHop: 1 }))
    const unanswered: Record<number, Fate> = {}
    for (let hop = 2; hop < 22; hop++) unanswered[hop] = 'unanswered'
    play(course, chain(22, unanswered))
    expect(course.isReached).toBe(true)
    expect(course.end).toBe(22)
  })

  test('a target that is slow is waited for as long as it takes', () => {
    const course = new TraceCourse(settingsOf({ flows }))
    const slow: Network = ({ ttl }) =>
      ttl < 3
        ? { kind: 'hop', from: `r${ttl}`, rttMs: 0.1 }
        : { kind: 'target', from: 'target', rttMs: 700 }
    play(course, slow)
    const { hops } = reportOf(course).facts
    expect(hops).toHaveLength(3)
    expect(hops[2]).toMatchObject({ lossPercent: 0, responseTime: { avg: 700 } })
    expect(hops[2]?.sent).toBeLessThanOrEqual(8)
  })

  test.each([2, 2.95, 3.5])('a router that can send %s errors is found at its hop', (allowed) => {
    const course = new TraceCourse(settingsOf({ flows }))
    let [allowance, lastMs] = [allowed, 0]
    // Linux without a route: one a second, five at most; each of two limits takes its share, if there is any.
    play(course, ({ ttl, sentAtMs }) => {
      if (ttl < 2) return { kind: 'hop', from: 'r1', rttMs: 1 }
      allowance = Math.min(5, allowance + (sentAtMs - lastMs) / 1000)
      lastMs = sentAtMs
      for (let limit = 0; limit < 2; limit++) {
        if (allowance < 1) return 'unanswered'
        allowance--
      }
      return { kind: 'refused', from: 'r2', rttMs: 1 }
    })
    expect(course.end).toBe(2)
    expect(reportOf(course).facts.hops.map(({ address }) => address)).toEqual(['r1', 'r2'])
  })

  test('any network at all', () => {
    const fate: fc.Arbitrary<Fate> = fc.oneof(
      { weight: 4, arbitrary: fc.constant('unanswered' as const) },
      { weight: 1, arbitrary: fc.constant('unattributed' as const) },
      {
        weight: 6,
        arbitrary: fc.record({
          kind: fc.constantFrom('hop', 'target', 'refused'),
          from: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
          rttMs: fc.integer({ min: 0, max: 4000 }),
        }) as fc.Arbitrary<Answer>,
      },
    )
    const options = fc.record({
      maxHops: fc.integer({ min: 1, max: 64 }),
      unknownHopsMax: fc.integer({ min: 1, max: 30 }),
      probesPerHop: fc.integer({ min: 1, max: 10 }),
    })
    fc.assert(
      fc.property(options, fc.infiniteStream(fate), (changes, fates) => {
        const settings = settingsOf({ ...changes, flows })
        const course = new TraceCourse(settings)
        let asked = 0
        play(course, () => (asked++ < 3000 ? (fates.next().value as Fate) : 'unanswered'))
        const { facts, path } = reportOf(course)
        const { hops } = facts
        expect(path.length).toBeGreaterThanOrEqual(hops.length)
        expect(hops.length).toBeLessThanOrEqual(settings.maxHops)
        for (const { sent, received } of hops) expect(received).toBeLessThanOrEqual(sent)
        expect(course.probes.filter(({ state }) => state === 'under-way')).toEqual([])
        // Doubts are asked again once; everything else at most as often as was asked for, and once in a gap. A probe
        // that was withdrawn was not sent.
        const most = settings.maxHops * settings.probesPerHop * 4 + 20
        const sent = course.probes.filter(({ state }) => state !== 'withdrawn')
        expect(sent.length).toBeLessThanOrEqual(most)
      }),
      { numRuns: 300 },
    )
  })
})

describe('one flow', () => {
  test('no more than four probes are ahead of the first answer', () => {
    const course = new TraceCourse(settingsOf({}))
    const first: number[] = []
    for (let probe = course.nextProbe(0); probe; probe = course.nextProbe(0)) first.push(probe.ttl)
    expect(first).toEqual([30, 1, 2, 3, 4])
  })

  test('a gap in the first flow is asked again in that flow', () => {
    const course = new TraceCourse(settingsOf({ flows: 'each' }))
    let losses = 0
    play(course, (probe) => {
      const isLost = probe.flow === 0 && probe.ttl === 2 && losses++ === 0
      if (isLost) return 'unanswered'
      if (probe.ttl >= 4) return { kind: 'target', from: 'target', rttMs: 1 }
      // The first flow goes another way than the others.
      return { kind: 'hop', from: `${probe.flow === 0 ? 'a' : 'b'}${probe.ttl}`, rttMs: 1 }
    })
    const { facts, path } = reportOf(course)
    const { hops } = facts
    expect(path).toEqual(['a1', 'a2', 'a3', 'target'])
    expect(hops[1]).toMatchObject({ address: 'a2', otherAddresses: ['b2'], sent: 4, received: 3 })
  })

  test('a router that is asked often is given time', () => {
    const course = new TraceCourse(settingsOf({ probesPerHop: 8 }))
    const endedMs = play(course, chain(3))
    const times = course.probes.filter(({ ttl }) => ttl === 1).map(({ sentAtMs }) => sentAtMs)
    expect(times).toHaveLength(8)
    for (let at = 5; at < 8; at++) {
      expect((times[at] as number) - (times[at - 1] as number)).toBeGreaterThanOrEqual(1000)
    }
    expect(endedMs).toBeLessThan(4000)
  })
})

test('answers that do not say to what are believed when only one probe is under way', () => {
  const course = new TraceCourse(settingsOf({ probesPerHop: 1, maxHops: 8 }))
  play(course, ({ ttl }) =>
    ttl >= 5
      ? { kind: 'target', from: 'target', rttMs: 1 }
      : ttl === 2
        ? 'unattributed'
        : { kind: 'hop', from: `r${ttl}`, rttMs: 1 },
  )
  const { hops } = reportOf(course).facts
  expect(hops.map(({ address }) => address)).toEqual(['r1', 'r2', 'r3', 'r4', 'target'])
  expect(hops.map(({ lossPercent }) => lossPercent)).toEqual([0, 0, 0, 0, 0])
})
