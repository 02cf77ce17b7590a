// Aim: the watch in people's processes tells as much of a header as the agent has to know, and the agent takes it.
import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { SeenHeader } from '../../../src/scripts/playwright/seen-headers.ts'

const require = createRequire(import.meta.url)

type Tell = (name: string, value: string) => void
const watchHeaders = require('../../../src/scripts/playwright/header-watch.cjs') as (
  source: string,
  tell: Tell,
) => Tell

test('that a value is longer than a secret may be shows after a scheme, too', () => {
  const told: { name: string; value: string }[] = []
  const see = watchHeaders('cookie', (name, value) => told.push({ name, value }))
  see('cookie', `Bearer ${'x'.repeat(2 * LIMITS.secretCharactersMax)}`)
  const [seen] = told.map((one) => SeenHeader.parse(one))
  expect(seen?.value.slice('Bearer '.length).length).toBeGreaterThan(LIMITS.secretCharactersMax)
})
