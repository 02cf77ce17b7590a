// Aim: `vedette doctor --json` has every finding by its id.
import { expect, test } from 'vitest'
import { doctorJson } from '../../../src/cli/doctor/report.ts'

test('a finding has its earlier names in addition to the new ones', () => {
  const head = { version: '8.4.0', image: 'agent', userId: 0, place: 'machine' } as const
  const said = doctorJson(head, [
    { id: 'sandbox', standing: 'broken', says: 'no', fix: 'a line' },
    { id: 'disk', standing: 'works', says: 'all' },
  ])
  const { findings } = JSON.parse(said) as {
    findings: { id: string; formerId?: string; mend?: string }[]
  }
  expect(findings.map(({ id, formerId, mend }) => [id, formerId, mend])).toEqual([
    ['sandbox', 'cage', 'a line'],
    ['disk', undefined, undefined],
  ])
})
