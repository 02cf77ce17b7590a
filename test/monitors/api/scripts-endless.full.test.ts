// Aim: scripts of an API monitor that do not end are ended at their time limit, with nothing left of them.
import { afterAll, expect, test } from 'vitest'
import { startScriptedChecks } from '../../support/scripts/api-script-runs.ts'

const { run, close } = await startScriptedChecks()
afterAll(close)

test.each<[does: string, setUp: string, tearDown?: string]>([
  ['a loop', `for (;;);`],
  ['a timer', `await new Promise(() => setInterval(() => {}, 1e6))`],
  ['a promise of nothing', `await new Promise(() => {})`],
  ['a getter that loops', `request = { get url() { for (;;); } }`],
  ['a loop after the request', '', `for (;;);`],
])('%s', async (_, setUp, tearDown) => {
  const { verdict, codes, received, left } = await run(setUp, tearDown)
  expect([verdict, codes]).toEqual(['failed', ['TIMEOUT_RUN']])
  expect(received).toHaveLength(tearDown === undefined ? 0 : 1)
  expect(left).toEqual([])
})

test('what a script made secret stays in when it is ended', async () => {
  const { lines, codes } = await run(
    `process.env.LOGIN_TOKEN = 'made-' + 'token-42'
      console.log(process.env.LOGIN_TOKEN)
      await new Promise(() => {})`,
  )
  expect(codes).toEqual(['TIMEOUT_RUN'])
  expect(lines).toEqual(['[scrubbed]'])
})
