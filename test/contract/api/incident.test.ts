// Aim: a public date that is taken can be written down and read again as it was meant.
import { expect, test } from 'vitest'
import { IncidentUpdateInput } from '../../../src/contract/api/incident.ts'

const isTaken = (publicIncidentUpdateDate: string) =>
  IncidentUpdateInput.safeParse({ description: 'x', publicIncidentUpdateDate }).success

test.each([
  ['of which the offset leads past the year 9999', '9999-12-31T23:59:59-14:00'],
  ['of which the offset leads before 1970', '1970-01-01T00:00:00+14:00'],
  ['on a day that no month has', '2026-02-30T00:00:00Z'],
  ['with an offset that no clock has', '2026-01-01T00:00:00+99:99'],
])('a date %s is refused', (_sentence, date) => {
  expect(isTaken(date)).toBe(false)
})

test.each([
  ['the last instant', '9999-12-31T23:59:59.999Z'],
  ['the first instant', '1970-01-01T00:00:00Z'],
  ['an instant with an offset', '2026-01-01T00:00:00+14:00'],
])('%s is taken', (_sentence, date) => {
  expect(isTaken(date)).toBe(true)
})
