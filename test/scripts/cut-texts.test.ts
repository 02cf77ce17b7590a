// Texts of programs are cut with an ellipsis: scrubbing knows that the end may be a part of a secret.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { ScriptConsole } from '../../src/scripts/console.ts'
import { parseRunEvent } from '../../src/scripts/playwright/events.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const events = join(temporaryFolder(), 'events.ndjson')
vi.stubEnv('VEDETTE_EVENTS', events)
const load = createRequire(import.meta.url)
const Reporter = load('../../src/scripts/in-run/reporter.cjs') as new () => {
  onError(error: { message: string }): void
}
const watch = load('../../src/scripts/in-run/page-watch.cjs') as {
  writeOwnRequest(request: Record<string, unknown>): void
}

/** The event that `report` writes, as the agent reads it. */
function eventOf(report: () => void) {
  const before = readFileSync(events, { flag: 'a+' }).length
  report()
  return parseRunEvent(readFileSync(events).subarray(before).toString())
}

test('an error of a test', () => {
  const reporter = new Reporter()
  const event = eventOf(() => reporter.onError({ message: 'x'.repeat(100_000) }))
  expect(event).toMatchObject({ error: { message: expect.stringMatching(/^x{65535}…$/) } })
})

test.each([
  ['of a page', `http://shop.test/?${'x'.repeat(3000)}`, 2048],
  ['with data', `data:text/html,${'x'.repeat(3000)}`, 40],
])('an address %s', (_, url, length) => {
  const request = { method: 'GET', url, at: 0, ms: 1 }
  const event = eventOf(() => watch.writeOwnRequest(request))
  expect(event).toMatchObject({ url: `${url.slice(0, length - 1)}…` })
})

test.each([
  ['a long line', 3000, Infinity, 2000],
  ['a line for which little room is left', 30, 20, 20],
])('%s of a console', (_, length, room, chars) => {
  const lines = new ScriptConsole(room)
  lines.add('x'.repeat(length), 'stdout')
  lines.end()
  expect(lines.lines).toEqual([{ type: 'stdout', text: `${'x'.repeat(chars)}…` }])
})
