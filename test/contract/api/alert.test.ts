// Aim: alerts begin and end when their settings say so, once each, whatever order and however often results come.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as alert from '../../../src/contract/api/alert.ts'
import { AlertSettings } from '../../../src/contract/monitor.ts'
import type { TargetVerdict } from '../../../src/contract/result.ts'

const { alertRulesOf, freshAlertState, stepAlert } = alert
type AlertRules = alert.AlertRules
type TargetRun = alert.TargetRun
const MINUTE = 60_000
const LETTERS: Record<string, TargetVerdict> = { p: 'passed', d: 'degraded', f: 'failed' }

const rulesFor = (settings: object = {}, { parallel = false } = {}) =>
  alertRulesOf(AlertSettings.parse(settings), { parallel, locations: ['a', 'b'], muted: false })

/**
 * Runs a story: `a1f` is location a, minute 1, failed; `@7` only lets time pass until minute 7; `muted` and
 * `unmuted` change the rules. Answers with the kinds of events by minute.
 */
function story(script: string, rules: AlertRules): string {
  let state = freshAlertState()
  let now = rules
  const notified: string[] = []
  for (const instruction of script.split(' ').filter((one) => one !== '')) {
    if (instruction.endsWith('muted')) {
      now = { ...now, muted: instruction === 'muted' }
      continue
    }
    if (instruction.startsWith('-')) {
      now = { ...now, locations: now.locations.filter((one) => one !== instruction.slice(1)) }
      continue
    }
    const [, where = '', minute = '', letter = ''] = /^([ab@c])(\d+)(.?)$/.exec(instruction) ?? []
    const at = Number(minute) * MINUTE
    const verdict = LETTERS[letter] as TargetVerdict
    const run = where === '@' ? undefined : { location: where, slot: at, verdict }
    const step = stepAlert(state, at, now, run)
    ;({ state } = step)
    for (const { kind, quiet } of step.events) notified.push(`${minute}:${quiet ? '(' : ''}${kind}`)
  }
  return notified.join(' ')
}

const RUNS = (failedRunThreshold: number) => ({ runBasedEscalation: { failedRunThreshold } })
const TIME = { escalationType: 'TIME_BASED', timeBasedEscalation: { minutesFailingThreshold: 5 } }
const REMINDERS = (amount: number) => ({ reminders: { amount, interval: 5 } })
const SHARE = (percentage: number, more: object = {}) => ({
  parallelRunFailureThreshold: { enabled: true, percentage },
  ...more,
})
const PLAIN = rulesFor()
const BEGINS = 'b8f a12f b9p b11f b13f'
const parallel = (settings: object = {}) => rulesFor(settings, { parallel: true })
const remind = (amount: number) => rulesFor(REMINDERS(amount))
const runs = (threshold: number) => rulesFor(RUNS(threshold))

test.each<[string, string, AlertRules, string]>([
  ['a failed run alerts, a passed one recovers', 'a1f a2f a3p', PLAIN, '1:failure 3:recovery'],
  ['three runs in a row', 'a1f a2f a3p a4f a5f a6f a7p', runs(3), '6:failure 7:recovery'],
  ['failed runs of two locations add up', 'a1f b2f', runs(2), '2:failure'],
  ['a passed run hides no other', 'a1p b2f a3p b4f a5p b6p', runs(2), '4:failure 6:recovery'],
  ['in parallel one slot is one run', 'a1f b1f a2f', parallel(RUNS(2)), '2:failure'],
  ['half of two locations is one', 'a1f', parallel(SHARE(50)), '1:failure'],
  ['60 % of two is both', 'a1f b1p a2f b2f a3p', parallel(SHARE(60)), '2:failure 3:recovery'],
  ['each fails enough', 'a1f b1p a2f b2f a3f b3f', parallel(SHARE(100, RUNS(2))), '3:failure'],
  ['no share where locations take turns', 'a1f', rulesFor(SHARE(100)), '1:failure'],
  ['recovery if too few fail', 'a1f b1f a2p b2f', parallel(SHARE(100)), '1:failure 2:recovery'],
  ['by time, not before', 'a1f a2f a3f @5 @6 a7p', rulesFor(TIME), '6:failure 7:recovery'],
  ['by time, a recovery begins anew', 'a1f a5p a6f @10 @11', rulesFor(TIME), '11:failure'],
  ['by time a run may come first', 'a1f a7f', rulesFor(TIME), '7:failure'],
  ['two reminders', 'a1f @5 @6 @11 @16 @21', remind(2), '1:failure 6:reminder 11:reminder'],
  ['more', 'a1f @6 @11 @16', remind(100_000), '1:failure 6:reminder 11:reminder 16:reminder'],
  ['late reminders come once', 'a1f @60 @61 @65', remind(5), '1:failure 60:reminder 65:reminder'],
  ['a failing run brings a reminder', 'a1f a6f', remind(1), '1:failure 6:reminder'],
  ['degraded and its end, once each', 'a1d a2d a3p', PLAIN, '1:degraded 3:degraded-recovery'],
  ['degraded, then failed', 'a1d a2f a3p', PLAIN, '1:degraded 2:failure 3:recovery'],
  ['failed, then degraded', 'a1f a2d', PLAIN, '1:failure 2:recovery 2:degraded'],
  ['a short failure does not end degraded', 'a1d a2f a3d', runs(2), '1:degraded'],
  ['a degraded run ends a row of failed ones', 'a1f a2d a3f', runs(2), '2:degraded'],
  ['an older slot changes nothing', 'a2f a1p a3p a2f', PLAIN, '2:failure 3:recovery'],
  ['the same slot twice counts once', 'a1f a1f', runs(2), ''],
  ['muted, no notification is sent', 'muted a1f a2p', remind(5), ''],
  ['unmuted while failing', 'muted a1f @6 unmuted a7f a8p', remind(5), '7:failure 8:recovery'],
  ['a quiet end', 'a1f muted a2p unmuted a3f', PLAIN, '1:failure 2:(recovery 3:failure'],
  ['muted reminders rest', 'a1f muted @6 unmuted a7f @12', remind(1), '1:failure 12:reminder'],
  ['muted, degraded is not notified', 'muted a1d unmuted a2d', PLAIN, '2:degraded'],
  ['a removed location does not fail', 'a1p b2f -b a3p', PLAIN, '2:failure 3:recovery'],
  ['a location where the monitor does not stand says nothing', 'c1f', PLAIN, ''],
  ['an older failure', 'a1f a2f a3p b1f b2f b3p', parallel(), '1:failure 3:recovery'],
  ['the slot of its end', 'a1f a3p b3f b4f', parallel(), '1:failure 3:recovery 4:failure'],
  ['a degraded past opens nothing', 'a1f a3p b2d b3p', PLAIN, '1:failure 3:recovery'],
  ['no two begin with one slot', BEGINS, parallel(SHARE(100)), '12:failure 9:recovery 13:failure'],
])('%s', (_, script, rules, expected) => {
  expect(story(script, rules)).toBe(expected)
})

test('what is due is due when time alone changes something', () => {
  const run: TargetRun = { location: 'a', slot: MINUTE, verdict: 'failed' }
  const rules = [rulesFor(TIME), remind(1), runs(2), PLAIN]
  const due = rules.map((one) => stepAlert(freshAlertState(), MINUTE, one, run).dueAt)
  expect(due).toEqual([6 * MINUTE, 6 * MINUTE, null, null])
})

describe('whatever comes', () => {
  const anyRuns = fc.array(
    fc.record({
      location: fc.constantFrom('a', 'b', 'c'),
      slot: fc.integer({ min: 1, max: 40 }).map((n) => n * MINUTE),
      verdict: fc.constantFrom<TargetVerdict>('passed', 'degraded', 'failed'),
    }),
    { maxLength: 60 },
  )
  const everyMs = fc.constantFrom(MINUTE, 5 * MINUTE)
  const rules = fc.record({
    escalation: fc.oneof(
      fc.record({ runs: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ failingMs: fc.constantFrom(5 * MINUTE, 10 * MINUTE) }),
    ),
    reminders: fc.record({ amountMax: fc.constantFrom(0, 1, 5, Infinity), everyMs }),
    parallel: fc.boolean(),
    failingShare: fc.constantFrom(0, 0.1, 0.5, 1),
    locations: fc.constant(['a', 'b', 'c']),
    muted: fc.constant(false),
  })

  const play = (all: readonly TargetRun[], by: AlertRules, mutedAt: (index: number) => boolean) => {
    let state = freshAlertState()
    const events: alert.AlertEvent[] = []
    let at = 0
    for (const [index, run] of all.entries()) {
      at = Math.max(at, run.slot)
      const step = stepAlert(state, at, { ...by, muted: mutedAt(index) }, run)
      ;({ state } = step)
      events.push(...step.events)
      // What was kept as JSON is what was kept.
      expect(JSON.parse(JSON.stringify(state))).toEqual(state)
      if (step.well) expect(state.alert).toBeNull()
    }
    return events
  }

  /** A mark for each event of these kinds, in their order. */
  const marksOf = (events: alert.AlertEvent[], marks: Record<string, string>) =>
    events.map(({ kind }) => marks[kind] ?? '').join('')

  test('failure and recovery take turns, and reminders stand between them', () => {
    fc.assert(
      fc.property(anyRuns, rules, fc.array(fc.boolean()), (all, by, muted) => {
        const events = play(all, by, (index) => muted[index] ?? false)
        const marks = marksOf(events, { failure: '<', reminder: '.', recovery: '>' })
        expect(marks).toMatch(/^(<\.*>)*(<\.*)?$/)
      }),
    )
  })

  test('degraded and its end take turns, unless a failure comes between', () => {
    fc.assert(
      fc.property(anyRuns, rules, (all, by) => {
        const events = play(all, by, () => false)
        const marks = marksOf(events, { degraded: '<', failure: '|', 'degraded-recovery': '>' })
        expect(marks).toMatch(/^(<>|<?\|)*<?$/)
      }),
    )
  })

  test('runs that come again, any of them at any later time, change nothing', () => {
    fc.assert(
      fc.property(anyRuns, rules, fc.array(fc.nat(), { maxLength: 60 }), (all, by, picks) => {
        const again = all.flatMap((run, index) => {
          const pick = picks[index]
          const earlier = pick === undefined ? undefined : all[pick % (index + 1)]
          return earlier === undefined ? [run] : [run, earlier]
        })
        const still = { ...by, reminders: { amountMax: 0, everyMs: MINUTE } }
        expect(play(again, still, () => false)).toEqual(play(all, still, () => false))
      }),
    )
  })
})
