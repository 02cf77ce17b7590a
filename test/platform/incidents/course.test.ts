// Aim: duration and last status follow from the updates of an incident as the contract says, also when it
// is opened again, reported afterwards, or closed twice.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { courseOf, type Turn } from '../../../src/platform/incidents/course.ts'
import { INCIDENT_STATUSES, type IncidentStatus } from '../../../src/contract/api/incident.ts'

// The seconds and statuses of updates: I investigating, D identified, M monitoring, R resolved, - none.
const TABLE: [string, string, IncidentStatus, number | null][] = [
  ['one update leaves it open', '0I', 'INVESTIGATING', null],
  ['a first update without status investigates', '0-', 'INVESTIGATING', null],
  ['resolving closes it', '0I 90R', 'RESOLVED', 90],
  ['one more resolved update does not extend it', '0I 90R 500R', 'RESOLVED', 90],
  ['an update without status after the end does not open it', '0I 90R 500-', 'RESOLVED', 90],
  ['opened again it is open', '0I 90R 100M', 'MONITORING', null],
  ['resolved again it lasted until the later end', '0I 90R 100M 700R 900R', 'RESOLVED', 700],
  ['reported afterwards it has no duration', '0R', 'RESOLVED', null],
  ['reported afterwards and updated again it has none', '0R 50R', 'RESOLVED', null],
  ['reported afterwards and opened it lasted from its first update', '0R 50D 80R', 'RESOLVED', 80],
  ['resolved in the same instant it lasted no time', '0I 0R', 'RESOLVED', 0],
  ['seconds are whole', '0I 1.999R', 'RESOLVED', 1],
]
const STATUSES: Record<string, IncidentStatus> = {
  I: 'INVESTIGATING',
  D: 'IDENTIFIED',
  M: 'MONITORING',
  R: 'RESOLVED',
}

const turnsOf = (updates: string): Turn[] =>
  updates.split(' ').map((one) => ({
    at: Number(one.slice(0, -1)) * 1000,
    status: STATUSES[one.slice(-1)],
  }))

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
