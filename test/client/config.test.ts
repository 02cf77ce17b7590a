// The page that an error about the settings names has all of them.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { APPLY_VARIABLES, readApplyTarget } from '../../src/client/config.ts'
import { createManual } from '../../src/cli/help/manual.ts'
import { problemText } from '../../src/process/env.ts'

test('the table of variables on the page is that of the code', () => {
  const page = readFileSync(new URL('../../src/cli/README.md', import.meta.url), 'utf8')
  const rows = [...page.matchAll(/^\| `([A-Z_]+)` +\| (?:–|`([^`]*)`) +\| /gm)]
  expect(rows.map(([, name, otherwise = '–']) => [name, otherwise])).toEqual(
    APPLY_VARIABLES.map((one) => [one.name, one.default]),
  )
})

test('the page that a missing setting names explains it', () => {
  const { problems } = readApplyTarget({})
  const topic = /^See: vedette help (\S+)$/m.exec(problemText(problems, 'cli'))?.[1] ?? ''
  const page = createManual(100).page(topic)
  expect(problems.map(({ variable }) => variable)).toEqual(['ACCOUNT_ID', 'VEDETTE_API_KEY'])
  for (const { variable } of problems) expect(page).toContain(variable)
})
