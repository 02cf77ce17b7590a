// Aim: the watch in the processes of user code reports as much of a header as the agent needs, and the agent accepts it.
import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { ObservedHeader } from '../../../src/scripts/playwright/observed-headers.ts'

const require = createRequire(import.meta.url)

type Report = (name: string, value: string) => void
const watchHeaders = require('../../../src/scripts/playwright/header-watch.cjs') as (
  source: string,
  report: Report,
) => Report

test('that a value is longer than a secret may be shows after a scheme, too', () => {
  const reported: { name: string; value: string }[] = []
  const see = watchHeaders('cookie', (name, value) => reported.push({ name, value }))
  see('cookie', `Bearer ${'x'.repeat(2 * LIMITS.secretCharactersMax)}`)
  const [observed] = reported.map((one) => ObservedHeader.parse(one))
  expect(observed?.value.slice('Bearer '.length).length).toBeGreaterThan(LIMITS.secretCharactersMax)
})
