// Aim: a process of a run reports more values of sensitive headers than a run may know, so that the agent learns of
// an excess and scrubs everything.
import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'

type Watch = (
  source: string,
  report: (name: string, value: string) => void,
) => (name: string, values: string[]) => void
const watchHeaders = createRequire(import.meta.url)(
  '../../../src/scripts/playwright/header-watch.cjs',
) as Watch

test('more values than a run may know are reported, and not without end', () => {
  let count = 0
  const see = watchHeaders('^cookie$', () => count++)
  see(
    'Cookie',
    Array.from({ length: 2 * LIMITS.secretValuesMax }, (_, at) => `value ${at}`),
  )
  expect(count).toBe(LIMITS.secretValuesMax + 1)
})

test('more characters than a run may know are reported, and not without end', () => {
  let chars = 0
  const see = watchHeaders('^cookie$', (_, value) => (chars += value.length))
  const value = 'x'.repeat(LIMITS.secretCharactersMax)
  const count = (2 * LIMITS.secretsCharactersMax) / value.length
  see(
    'Cookie',
    Array.from({ length: count }, (_, at) => `${at} ${value}`),
  )
  expect(chars).toBeGreaterThan(LIMITS.secretsCharactersMax)
  expect(chars).toBeLessThan(1.1 * LIMITS.secretsCharactersMax)
})
