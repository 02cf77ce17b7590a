// Aim: duration and last status follow from the updates of an incident as the contract says, also when it
// is opened again, reported afterwards, or closed twice.
import { describe, expect, test } from 'vitest'
import { courseOf, type Turn } from '../../../src/platform/incidents/course.ts'
import type { IncidentStatus } from '../../../src/contract/api/incident.ts'

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
})
