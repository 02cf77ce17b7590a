// Aim: a public date that is taken can be written down and read again as it was meant.
import { expect, test } from 'vitest'
import { IncidentUpdateInput } from '../../../src/contract/api/incident.ts'

test.each([
  ['whose offset leads past the year 9999', '9999-12-31T23:59:59-14:00', false],
  ['whose offset leads before 1970', '1970-01-01T00:00:00+14:00', false],
  ['on a day that no month has', '2026-02-30T00:00:00Z', false],
  ['with an offset that no clock has', '2026-01-01T00:00:00+99:99', false],
  ['of the last instant', '9999-12-31T23:59:59.999Z', true],
  ['of the first instant', '1970-01-01T00:00:00Z', true],
  ['with an offset', '2026-01-01T00:00:00+14:00', true],
])('a date %s, %s, is accepted: %s', (_, publicIncidentUpdateDate, isAccepted) => {
  const parsed = IncidentUpdateInput.safeParse({ description: 'x', publicIncidentUpdateDate })
  expect(parsed.success).toBe(isAccepted)
})
