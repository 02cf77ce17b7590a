// What machines read of `vedette doctor --json`: every finding by its id.
import { expect, test } from 'vitest'
import { doctorJson } from '../../../src/cli/doctor/report.ts'

test('a finding whose id was renamed has its earlier one beside it', () => {
  const head = { version: '8.4.0', image: 'agent', userId: 0, place: 'machine' } as const
  const said = doctorJson(head, [
    { id: 'sandbox', standing: 'works', says: 'all' },
    { id: 'disk', standing: 'works', says: 'all' },
  ])
  const { findings } = JSON.parse(said) as { findings: { id: string; formerId?: string }[] }
  expect(findings.map(({ id, formerId }) => [id, formerId])).toEqual([
    ['sandbox', 'cage'],
    ['disk', undefined],
  ])
})
