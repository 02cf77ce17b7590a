// Aim: values of sensitive headers that user code sent or received appear in no output of its run, not even without
// their names, with any client and without a recorded trace, however long, many or odd they are; ordinary text stays.
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import type { Monitor } from '../../../src/contract/monitor.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { INSTALLED_FILE, toolFolder } from '../../../src/scripts/toolchains.ts'
import { testContext } from '../../support/monitors/monitor-context.ts'
import { missing } from '../../support/needs.ts'
import { runtimeFolder, testScriptHost } from '../../support/scripts/script-host.ts'
import { suiteProject } from '../../support/suites/suite-runs.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

const TOKEN = 'eyJ0b2tlbg.71c9f3'
const SESSION = 'c2Vzc2lvbg-40be72'
const KEY = 'a2V5-9917aa04'
const ALL = [TOKEN, SESSION, KEY]

let hostile: string[] = []
/** A shop that hands out a token and a session, and wants a key. */
const site = await startHttpServer((request, response) => {
  const usual = [`sid=${SESSION}; Path=/; HttpOnly`, 'state=deleted; Path=/']
  response.setHeader('set-cookie', request.url === '/hostile' ? hostile : usual)
  response.setHeader('content-type', request.url === '/' ? 'text/html' : 'application/json')
  response.end(request.url === '/' ? '<h1>shop</h1>' : JSON.stringify([TOKEN, KEY]))
})
const url = `http://${site.authority}`
/** The same for HTTP/2. */
const site2 = createServer((_, response) => {
  response.setHeader('set-cookie', [`sid=${SESSION}; Path=/; HttpOnly`, 'state=deleted; Path=/'])
  response.end(JSON.stringify([TOKEN, KEY]))
}).listen(0, '127.0.0.1')
await once(site2, 'listening')
const url2 = `http://127.0.0.1:${(site2.address() as AddressInfo).port}`

const tools = runtimeFolder()
const engine = toolFolder(tools, 'engine', 'node@24')
mkdirSync(engine, { recursive: true })
cpSync(process.execPath, join(engine, 'node'))
writeFileSync(join(engine, INSTALLED_FILE), JSON.stringify({ program: 'node', missing: [] }))
const host = { ...testScriptHost({ tools }), ownProjects: true }
afterAll(async () => {
  host.close()
  await site.close()
  site2.close()
})

async function run(checkType: string, definition: Record<string, unknown>) {
  const fileTexts: Record<string, string> = {}
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock: createClock(),
    workRoot: temporaryFolder(),
    scrubHeaders: ['X-Shop'],
    scripts: host,
    files: {
      bytesMax: () => 1e9,
      stage(path, { name }) {
        fileTexts[name] = readFileSync(path, 'latin1')
        return Promise.resolve(undefined)
      },
    },
  })
  const monitor = { id: 'shop', name: 'Shop', checkType, environmentVariables: [], ...definition }
  const around = { location: 'home', variables: [], dial: testContext().dial, secrets: [] }
  const job = { monitor: monitor as unknown as Monitor, slot: 1 }
  const result = await runner.run(job, around, new AbortController().signal)
  return { result, text: JSON.stringify(result), fileTexts }
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

/** Secrets that leaked, and expected text that is missing. */
function wrongIn(text: string): string[] {
  const leaked = ALL.filter((one) => text.includes(one))
  return [...leaked, ...SAID.filter((one) => !text.includes(one))]
}

test.each([
  ['fetch', `(async () => {${FETCH}${SAY('sid')}})()`],
  ['node:http', `(async () => {${HTTP}${SAY('sid')}})()`],
])('a plain script with %s', async (_, script) => {
  const { text } = await run('MULTI_STEP', { script })
  expect(wrongIn(text)).toEqual([])
})

test('a test of requests that records no trace', async () => {
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
  `pages of a browser that record no trace, and a file next to it ${why ?? ''}`,
  async () => {
    const { text, fileTexts } = await run('BROWSER', {
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
    expect(Object.values(fileTexts)).toContain(`token ${SCRUBBED} session ${SCRUBBED}`)
  },
)

test('scripts of an API monitor', async () => {
  const { text } = await run('API', {
    request: { method: 'GET', url: `${url}/orders` },
    localSetupScript: `${FETCH}${SAY('sid')}`,
  })
  expect(wrongIn(text)).toEqual([])
})

/** As `HTTP`, over a connection for many requests. */
const HTTP2 = `
  const client = http2.connect('${url2}')
  const get = (path, headers) => new Promise((resolve, reject) => {
    let [head, body] = [{}, '']
    client.request({ ':path': path, ...headers }).on('error', reject)
      .on('response', (one) => (head = one)).on('data', (one) => (body += one))
      .on('end', () => resolve({ body, headers: head })).end() })
  const [token, key] = JSON.parse((await get('/login', {})).body)
  const { headers } = await get('/orders', { 'x-shop': key, authorization: 'Bearer ' + token })
  client.close()
  const sid = headers['set-cookie'][0].slice(4, -18)`

/** As a list of names and values, which has no other place than the head that is sent. */
const LIST = HTTP.replace(
  /\{ 'X-SHOP'.*?\}/,
  "['Host', 'shop', 'X-SHOP', key, 'Authorization', 'Bearer ' + token]",
)

async function runSuite(
  body: string,
  first = '',
  files: Record<string, string> = {},
  fields: Record<string, unknown> = {},
) {
  const codeBundlePath = suiteProject({
    'package.json': '{}',
    // Its own file loads them before the tests do.
    'playwright.config.ts': `import 'node:http'\nimport 'node:http2'
      export default { retries: 0, reporter: 'line' }`,
    'shop.spec.ts': `
      import { chromium, test } from '@playwright/test'\n${first}
      test('orders', async () => {${body}${SAY('sid')}})`,
    ...files,
  })
  return run('PLAYWRIGHT', { codeBundlePath, engine: 'node', engineVersion: '24', ...fields })
}

/** What of all that left the agent should not be there, or is not there that should. */
function leakedFrom({ text, fileTexts }: Awaited<ReturnType<typeof run>>): string[] {
  const whole = text + Object.values(fileTexts).join('')
  const said = `no order for ${SCRUBBED} in ${SCRUBBED}`
  return [...ALL.filter((one) => whole.includes(one)), ...(text.includes(said) ? [] : [said])]
}

const HTTP2_NAMES = `import http2 from 'node:http2'`

describe('a suite, though its own requests are in no trace,', () => {
  test.each([
    ['fetch', FETCH, ''],
    ['headers as a list', LIST, ''],
    ['node:http2', HTTP2, HTTP2_NAMES],
    [
      'functions of its own in node:fs',
      `fs.writeFileSync = () => {}\n${FETCH}`,
      `import fs from 'node:fs'`,
    ],
  ])('with %s', async (_, body, first) => {
    expect(leakedFrom(await runSuite(body, first))).toEqual([])
  })
})

/** What a page signs in with: a token and a key that it sends, and a session that it is given. */
const SIGN_IN = `
  const page = await (await browser.newContext()).newPage()
  await page.goto('${url}/')
  const [token, key] = await page.evaluate(async () => {
    const [token, key] = await (await fetch('/login')).json()
    await fetch('/orders', { headers: { authorization: 'Bearer ' + token, 'x-shop': key } })
    return [token, key]
  })
  const sid = (await page.context().cookies()).find(({ name }) => name === 'sid').value`

/** Starts a browser, and says what its page knows. */
const PAGE = `const browser = await chromium.launch()${SIGN_IN}`

/** Hands over what another process knows, in a file. */
const FROM_FILE = `const [token, key, sid] = JSON.parse(readFileSync('known.json', 'utf8'))`
const READ = `import { readFileSync } from 'node:fs'`
const INTO_FILE = `require('node:fs').writeFileSync('known.json', JSON.stringify([token, key, sid]))`

/** A server that is asked as a shop's customer asks, and what it knows then. */
const SERVER = `
  const server = require('node:http').createServer((request, response) => {
    response.setHeader('Set-Cookie', 'sid=' + request.headers['x-is'].slice(4))
    response.end(JSON.stringify(request.headers))
  }).listen(0, '127.0.0.1')
  await require('node:events').once(server, 'listening')
  const socket = require('node:net').connect(server.address().port, '127.0.0.1')
  const [token, key, sid] = ${JSON.stringify(ALL.map((one) => Buffer.from(one).toString('hex')))}
    .map((one) => Buffer.from(one, 'hex').toString())
  socket.write('GET / HTTP/1.1\\r\\nHost: a\\r\\nAuthorization: Bearer ' + token +
    '\\r\\nX-Shop: ' + key + '\\r\\nX-Is: sid=' + sid + '\\r\\n\\r\\n')
  await require('node:events').once(socket, 'data')
  server.closeAllConnections()
  server.close()`

describe.skipIf(why !== undefined)(`a suite whose pages are in no trace ${why ?? ''}`, () => {
  test.each([
    ['as its browser is closed first', `${PAGE}; await browser.close()`, '', {}],
    ['as its file turns traces off', PAGE, `test.use({ trace: 'off' })`, {}],
    [
      'as its worker is killed',
      FROM_FILE,
      `${READ}
       test('sign in', async () => { ${PAGE}; ${INTO_FILE}; process.kill(process.pid, 'SIGKILL') })`,
      {},
    ],
    [
      'as the browser is of another program',
      `const { execFileSync } = require('node:child_process')
       execFileSync('node', ['sign-in.cjs'])\n${FROM_FILE}`,
      READ,
      {
        'sign-in.cjs': `const { chromium } = require('@playwright/test');
          (async () => { ${PAGE}; ${INTO_FILE}; await browser.close() })()`,
      },
    ],
    [
      'as they belong to its global set-up',
      FROM_FILE,
      READ,
      {
        'playwright.config.ts': `export default { retries: 0, globalSetup: './set-up.ts' }`,
        'set-up.ts': `import { chromium } from '@playwright/test'
          export default async () => { ${PAGE}; ${INTO_FILE} }`,
      },
    ],
  ])('%s', async (_, body, first, files) => {
    expect(leakedFrom(await runSuite(body, first, files))).toEqual([])
  })
})

const START = `execFileSync('node', ['program.cjs'])`

describe('a suite with other programs and servers', () => {
  test.each([
    ['in a child process', START, FETCH, {}],
    [
      'in a child process, though the command sets options of its own',
      START,
      FETCH,
      { testCommand: 'NODE_OPTIONS=--no-warnings node node_modules/@playwright/test/cli.js test' },
    ],
    [
      'in a child process with an environment of its own',
      `await once(spawn(process.execPath, ['program.cjs'], { env: {} }), 'exit')`,
      FETCH,
      {},
    ],
    [
      'in one that is started synchronously',
      `execFileSync(process.execPath, ['program.cjs'], { env: { NODE_OPTIONS: '--no-warnings' } })`,
      FETCH,
      {},
    ],
    ['in a server of its own', START, SERVER, {}],
  ])('%s', async (_, start, work, fields) => {
    const program = `(async () => { ${work}; ${INTO_FILE} })()`
    const first = `${READ}
      import { once } from 'node:events'
      import { execFileSync, spawn } from 'node:child_process'`
    const body = `${start}\n${FROM_FILE}`
    expect(leakedFrom(await runSuite(body, first, { 'program.cjs': program }, fields))).toEqual([])
  })

  test('whose environment is another one', async () => {
    const body = `process.env = { PATH: process.env.PATH }; ${FETCH}`
    expect(leakedFrom(await runSuite(body))).toEqual([])
  })

  test.skipIf(why !== undefined)(`with Chromium in a shell ${why ?? ''}`, async () => {
    hostile = ['sid=shell-4711-secret']
    const { text } = await runSuite(
      `execSync('chromium --headless --dump-dom ${url}/hostile')
       console.log('it is ' + ['shell', '4711', 'secret'].join('-')); ${FETCH}`,
      `import { execSync } from 'node:child_process'`,
    )
    expect(text).toContain(`it is ${SCRUBBED}`)
  })
})

const COOKIES: Record<string, string[]> = {
  'one of 8 KiB': [`sid=${'k7Qz-x9_'.repeat(1024)}`],
  'marks of regular expressions': [
    String.raw`a=(((((((((((((([[[[Zq7Rk2+)*+)*?{1,9}`,
    String.raw`b=\\(?<n>.*)+$|^\k<n>[^]{99999}`,
    `c=${'(a+)+'.repeat(300)}`,
  ],
  'one hundred with one beginning': Array.from(
    { length: 100 },
    (_, at) => `s${at}=session_${'a'.repeat(40)}${1000 + at}`,
  ),
}

const SHOW_COOKIES = `(async () => {
  const answer = await fetch('${url}/hostile')
  const all = answer.headers.getSetCookie().map((one) => one.slice(one.indexOf('=') + 1))
  for (const one of all) console.log('a cookie <' + one + '> was set')
  throw new Error('no order in <' + all.at(-1) + '>')
})()`

test.each(Object.entries(COOKIES))('cookies: %s', { timeout: 60_000 }, async (_, given) => {
  hostile = given
  const { result, text } = await run('MULTI_STEP', { script: SHOW_COOKIES })
  expect(result.verdict).toBe('failed')
  // A long message is cut, with what follows the cookie.
  expect(text).toContain(`no order in <${SCRUBBED}`)
  const values = given.map((one) => one.slice(one.indexOf('=') + 1))
  const left = values.filter((one) => text.includes(JSON.stringify(one.slice(0, 24)).slice(1, -1)))
  expect(left).toEqual([])
})
