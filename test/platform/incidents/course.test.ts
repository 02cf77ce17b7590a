// Aim: duration and last status follow from the updates of an incident as the contract says, also when it
// is opened again, reported afterwards, or closed twice.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { courseOf, type Turn } from '../../../src/platform/incidents/course.ts'
import { INCIDENT_STATUSES, type IncidentStatus } from '../../../src/contract/api/incident.ts'

type Row = [string, [number, IncidentStatus?][], IncidentStatus, number | null]

const TABLE: Row[] = [
  ['one update leaves it open', [[0, 'INVESTIGATING']], 'INVESTIGATING', null],
  ['a first update without status investigates', [[0]], 'INVESTIGATING', null],
  [
    'resolving closes it',
    [
      [0, 'INVESTIGATING'],
      [90, 'RESOLVED'],
    ],
    'RESOLVED',
    90,
  ],
  [
    'one more resolved update does not extend it',
    [
      [0, 'INVESTIGATING'],
      [90, 'RESOLVED'],
      [500, 'RESOLVED'],
    ],
    'RESOLVED',
    90,
  ],
  [
    'an update without status after the end does not open it',
    [[0, 'INVESTIGATING'], [90, 'RESOLVED'], [500]],
    'RESOLVED',
    90,
  ],
  [
    'opened again it is open',
    [
      [0, 'INVESTIGATING'],
      [90, 'RESOLVED'],
      [100, 'MONITORING'],
    ],
    'MONITORING',
    null,
  ],
  [
    'opened and resolved again it lasted until the later end',
    [
      [0, 'INVESTIGATING'],
      [90, 'RESOLVED'],
      [100, 'MONITORING'],
      [700, 'RESOLVED'],
      [900, 'RESOLVED'],
    ],
    'RESOLVED',
    700,
  ],
  ['reported afterwards it has no duration', [[0, 'RESOLVED']], 'RESOLVED', null],
  [
    'reported afterwards and updated again it has none either',
    [
      [0, 'RESOLVED'],
      [50, 'RESOLVED'],
    ],
    'RESOLVED',
    null,
  ],
  [
    'reported afterwards, opened and resolved, it lasted from its first update',
    [
      [0, 'RESOLVED'],
      [50, 'IDENTIFIED'],
      [80, 'RESOLVED'],
    ],
    'RESOLVED',
    80,
  ],
  [
    'resolved in the same instant it lasted no time',
    [
      [0, 'INVESTIGATING'],
      [0, 'RESOLVED'],
    ],
    'RESOLVED',
    0,
  ],
  [
    'seconds are whole',
    [
      [0, 'INVESTIGATING'],
      [1.999, 'RESOLVED'],
    ],
    'RESOLVED',
    1,
  ],
]

const turnsOf = (updates: [number, IncidentStatus?][]): Turn[] =>
  updates.map(([seconds, status]) => ({ at: seconds * 1000, status }))

describe('courseOf', () => {
  test.each(TABLE)('%s', (_sentence, updates, lastUpdateStatus, durationS) => {
    expect(courseOf(turnsOf(updates))).toEqual({ lastUpdateStatus, durationS })
  })

  test('agrees with a model that writes every status out', () => {
    const turn = fc.record({
      after: fc.nat(10_000_000),
      status: fc.option(fc.constantFrom(...INCIDENT_STATUSES), { nil: undefined }),
    })
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 12 }), (steps) => {
        let at = 1_700_000_000_000
        const turns = steps.map(({ after, status }) => ({ at: (at += after), status }))
        expect(courseOf(turns)).toEqual(model(turns))
      }),
      { numRuns: 2000 },
    )
  })
})

/** Slow and plain: the last run of resolved updates at the end begins with the one that closed it. */
function model(turns: Turn[]) {
  const written: IncidentStatus[] = []
  for (const turn of turns) written.push(turn.status ?? written.at(-1) ?? 'INVESTIGATING')
  const last = written.at(-1)
  if (last !== 'RESOLVED') return { lastUpdateStatus: last, durationS: null }
  const opened = written.findLastIndex((status) => status !== 'RESOLVED')
  if (opened === -1) return { lastUpdateStatus: last, durationS: null }
  const from = turns[0]?.at ?? 0
  const until = turns[opened + 1]?.at ?? 0
  return { lastUpdateStatus: last, durationS: Math.floor((until - from) / 1000) }
}
