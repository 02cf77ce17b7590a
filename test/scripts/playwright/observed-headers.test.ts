// Aim: the watch in the processes of user code reports as much of a header as the agent needs, and more values than a run
// may know, so that the agent learns of an excess and scrubs everything.
import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { ObservedHeader } from '../../../src/scripts/playwright/observed-headers.ts'

type Watch = (
  source: string,
  report: (name: string, value: string) => void,
) => (name: string, values: string | string[]) => void
const watchHeaders = createRequire(import.meta.url)(
  '../../../src/scripts/in-run/header-watch.cjs',
) as Watch

/** The values that the watch reports of these. */
function reportedOf(values: string | string[]): string[] {
  const reported: string[] = []
  watchHeaders('^cookie$', (_, value) => reported.push(value))('Cookie', values)
  return reported
}

test('that a value is longer than a secret may be shows after a scheme, too', () => {
  const [value] = reportedOf(`Bearer ${'x'.repeat(2 * LIMITS.secretCharactersMax)}`)
  const observed = ObservedHeader.parse({ name: 'cookie', value })
  expect(observed.value.slice('Bearer '.length).length).toBeGreaterThan(LIMITS.secretCharactersMax)
})

test('more values than a run may know are reported, and not without end', () => {
  const values = Array.from({ length: 2 * LIMITS.secretValuesMax }, (_, at) => `value ${at}`)
  expect(reportedOf(values)).toHaveLength(LIMITS.secretValuesMax + 1)
})

test('more characters than a run may know are reported, and not without end', () => {
  const value = 'x'.repeat(LIMITS.secretCharactersMax)
  const count = (2 * LIMITS.secretsCharactersMax) / value.length
  const chars = reportedOf(Array.from({ length: count }, (_, at) => `${at} ${value}`)).join(
    '',
  ).length
  expect(chars).toBeGreaterThan(LIMITS.secretsCharactersMax)
  expect(chars).toBeLessThan(1.1 * LIMITS.secretsCharactersMax)
})
