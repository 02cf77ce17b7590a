// Aim: cookies of a server, however long, many or odd, end no run, and are nowhere in its results.
import { afterAll, expect, test } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import type { Monitor } from '../../../src/contract/monitor.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { testContext } from '../../support/monitors/monitor-context.ts'
import { testScriptHost } from '../../support/scripts/script-host.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

const COOKIES: Record<string, string[]> = {
  'one of 8 KiB': [`sid=${'k7Qz-x9_'.repeat(1024)}`],
  'marks of regular expressions': [
    String.raw`a=(((((((((((((([[[[x+)*+)*?{1,9}`,
    String.raw`b=\\(?<n>.*)+$|^\k<n>[^]{99999}`,
    `c=${'(a+)+'.repeat(300)}`,
  ],
  'one hundred with one beginning': Array.from(
    { length: 100 },
    (_, at) => `s${at}=session_${'a'.repeat(40)}${1000 + at}`,
  ),
}

let cookies: string[] = []
const site = await startHttpServer((_, response) => {
  response.setHeader('set-cookie', cookies)
  response.end('ok')
})
const host = testScriptHost()
afterAll(async () => {
  host.close()
  await site.close()
})

const SCRIPT = `(async () => {
  const answer = await fetch('http://${site.authority}/')
  const all = answer.headers.getSetCookie().map((one) => one.slice(one.indexOf('=') + 1))
  for (const one of all) console.log('a cookie <' + one + '> was set')
  throw new Error('no order in <' + all.at(-1) + '>')
})()`

test.each(Object.entries(COOKIES))('cookies: %s', { timeout: 60_000 }, async (_, given) => {
  cookies = given
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock: createClock(),
    workRoot: temporaryFolder(),
    scrubHeaders: [],
    scripts: host,
  })
  const monitor = {
    id: 'a',
    name: 'a',
    checkType: 'MULTI_STEP',
    environmentVariables: [],
    script: SCRIPT,
  }
  const around = { location: 'home', variables: [], dial: testContext().dial, secrets: [] }
  const job = { monitor: monitor as unknown as Monitor, slot: 1 }
  const result = await runner.run(job, around, new AbortController().signal)
  const text = JSON.stringify(result)
  expect(result.verdict).toBe('failed')
  // A long message is cut, with what follows the cookie.
  expect(text).toContain(`no order in <${SCRUBBED}`)
  const values = given.map((one) => one.slice(one.indexOf('=') + 1))
  const left = values.filter((one) => text.includes(JSON.stringify(one.slice(0, 24)).slice(1, -1)))
  expect(left).toEqual([])
})
