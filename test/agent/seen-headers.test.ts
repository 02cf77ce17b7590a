// Aim: what sensitive headers held that people's own code sent or got stands in nothing that its run says, not in
// a sentence without its name, whichever client was used and though no trace was recorded; ordinary words stay.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { createClock } from '../../src/agent/clock.ts'
import { createRunner } from '../../src/agent/runner.ts'
import { SCRUBBED } from '../../src/agent/scrub.ts'
import type { Monitor } from '../../src/contract/monitor.ts'
import { MONITOR_TYPES } from '../../src/monitors/registry.ts'
import { INSTALLED_FILE, toolFolder } from '../../src/monitors/toolbox.ts'
import { testContext } from '../support/monitor-context.ts'
import { missing } from '../support/needs.ts'
import { runtimeFolder, testGround } from '../support/script-ground.ts'
import { suiteProject } from '../support/suite-runs.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startHttpServer } from '../support/test-server.ts'

const TIME = { timeout: 90_000 }
const TOKEN = 'eyJ0b2tlbg.71c9f3'
const SESSION = 'c2Vzc2lvbg-40be72'
const KEY = 'a2V5-9917aa04'
const ALL = [TOKEN, SESSION, KEY]

/** A shop that hands out a token and a session, and wants a key. */
const site = await startHttpServer((request, response) => {
  response.setHeader('set-cookie', [`sid=${SESSION}; Path=/; HttpOnly`, 'state=deleted; Path=/'])
  response.setHeader('content-type', request.url === '/' ? 'text/html' : 'application/json')
  response.end(request.url === '/' ? '<h1>shop</h1>' : JSON.stringify([TOKEN, KEY]))
})
const url = `http://${site.authority}`

const tools = runtimeFolder()
const engine = toolFolder(tools, 'engine', 'node@24')
mkdirSync(engine, { recursive: true })
cpSync(process.execPath, join(engine, 'node'))
writeFileSync(join(engine, INSTALLED_FILE), JSON.stringify({ program: 'node', missing: [] }))
const ground = { ...testGround({ tools }), ownProjects: true }
afterAll(async () => {
  ground.close()
  await site.close()
})

async function run(checkType: string, definition: Record<string, unknown>) {
  const kept: Record<string, string> = {}
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock: createClock(),
    workRoot: temporaryFolder(),
    scrubHeaders: ['X-Shop'],
    scripts: ground,
    files: {
      bytesMax: () => 1e9,
      stage(path, { name }) {
        kept[name] = readFileSync(path, 'latin1')
        return Promise.resolve(undefined)
      },
    },
  })
  const monitor = { id: 'shop', name: 'Shop', checkType, environmentVariables: [], ...definition }
  const around = { location: 'home', variables: [], dial: testContext().dial, secrets: [] }
  const job = { monitor: monitor as unknown as Monitor, slot: 1 }
  const result = await runner.run(job, around, new AbortController().signal)
  return { result, text: JSON.stringify(result), kept }
}

/** Says what it knows in sentences, and fails with one. */
const SAY = (session: string) => `
  console.log('signed in with ' + token + ', session ' + ${session} + ' and ' + key)
  console.log('the order was deleted, no-check of undefined')
  throw new Error('no order for ' + token + ' in ' + ${session})`

const FETCH = `
  const [token, key] = await (await fetch('${url}/login')).json()
  const answer = await fetch('${url}/orders', { headers: {
    Authorization: 'Bearer ' + token, 'X-Shop': key, 'X-CSRF-Token': 'no-check' } })
  await fetch('${url}/orders', { headers: { authorization: 'Bearer undefined' } })
  const sid = answer.headers.getSetCookie()[0].slice(4, -18)`

const HTTP = `
  const { request } = require('node:http')
  const get = (path, headers) => new Promise((resolve) => request('${url}' + path, { headers },
    (answer) => { let body = ''; answer.on('data', (one) => (body += one)).on('end', () =>
      resolve({ body, headers: answer.headers })) }).end())
  const [token, key] = JSON.parse((await get('/login', {})).body)
  const { headers } = await get('/orders', { 'X-SHOP': key, authorization: 'Bearer ' + token })
  const sid = headers['set-cookie'][0].slice(4, -18)`

const TEST = `import { test } from '@playwright/test'\n`

const SAID = [
  `signed in with ${SCRUBBED}, session ${SCRUBBED} and ${SCRUBBED}`,
  'the order was deleted, no-check of undefined',
  `no order for ${SCRUBBED} in ${SCRUBBED}`,
]

/** What is told that should not be, and what is not that should. */
function wrongIn(text: string): string[] {
  const told = ALL.filter((one) => text.includes(one))
  return [...told, ...SAID.filter((one) => !text.includes(one))]
}

test.each([
  ['fetch', `(async () => {${FETCH}${SAY('sid')}})()`],
  ['node:http', `(async () => {${HTTP}${SAY('sid')}})()`],
])('a plain script with %s', TIME, async (_, script) => {
  const { text } = await run('MULTI_STEP', { script })
  expect(wrongIn(text)).toEqual([])
})

test('a test of requests that records no trace', TIME, async () => {
  const { text } = await run('MULTI_STEP', {
    playwrightConfig: { use: { trace: 'off' } },
    script: `${TEST}test('orders', async ({ request }) => {
      const [token, key] = await (await request.get('${url}/login')).json()
      await request.get('${url}/orders', { headers: { authorization: 'Bearer ' + token, 'x-shop': key } })
      const sid = (await request.storageState()).cookies.find(({ name }) => name === 'sid').value
      ${SAY('sid')} })`,
  })
  expect(wrongIn(text)).toEqual([])
})

const why = missing('chromium')
test.skipIf(why !== undefined)(
  `pages of a browser that record no trace, and a file beside it ${why ?? ''}`,
  TIME,
  async () => {
    const { text, kept } = await run('BROWSER', {
      playwrightConfig: { use: { trace: 'off', screenshot: 'off', video: 'off' } },
      script: `${TEST}test('orders', async ({ page, context }, info) => {
        await page.goto('${url}/')
        const [token, key] = await page.evaluate(async () => {
          const [token, key] = await (await fetch('/login')).json()
          await fetch('/orders', { headers: { authorization: 'Bearer ' + token, 'x-shop': key } })
          return [token, key]
        })
        const sid = (await context.cookies()).find(({ name }) => name === 'sid').value
        const path = info.outputPath('said.txt')
        require('node:fs').writeFileSync(path, 'token ' + token + ' session ' + sid)
        await info.attach('said', { path })
        ${SAY('sid')} })`,
    })
    expect(wrongIn(text)).toEqual([])
    expect(Object.values(kept)).toContain(`token ${SCRUBBED} session ${SCRUBBED}`)
  },
)

test('scripts of an API monitor', TIME, async () => {
  const { text } = await run('API', {
    request: { method: 'GET', url: `${url}/orders` },
    localSetupScript: `${FETCH}${SAY('sid')}`,
  })
  expect(wrongIn(text)).toEqual([])
})

test('a suite, though its own requests are in no trace', TIME, async () => {
  const codeBundlePath = suiteProject({
    'package.json': '{}',
    'playwright.config.js': 'module.exports = { retries: 0, reporter: "line" }',
    'shop.spec.js': `const { test } = require('@playwright/test')
      test('orders', async () => {${FETCH}${SAY('sid')}})`,
  })
  const on = { engine: 'node', engineVersion: '24' }
  const { text, kept } = await run('PLAYWRIGHT', { codeBundlePath, ...on })
  for (const one of ALL) expect(text + Object.values(kept).join('')).not.toContain(one)
  expect(text).toContain(`no order for ${SCRUBBED} in ${SCRUBBED}`)
})
