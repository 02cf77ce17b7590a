// Aim: a multistep monitor says what its script says: which steps it took, what it asked for, whether it
// failed, was degraded, could not be begun or was cut off; with runtime, variables and imports as promised.
import { readdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { multistep } from '../../../src/monitors/multistep/index.ts'
import type { RunProgress } from '../../../src/scripts/host.ts'
import { eventually } from '../../support/eventually.ts'
import { testScriptHost } from '../../support/scripts/script-host.ts'
import {
  runScriptMonitor,
  startScript,
  type ScriptOptions,
} from '../../support/scripts/script-runs.ts'
import { startSmallSite } from '../../support/monitors/small-site.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const host = testScriptHost()
const site = await startSmallSite()
const HEAD = `import { test, expect } from '@playwright/test'\n`

function run(
  script: string,
  definition: Record<string, unknown> = {},
  options: Partial<ScriptOptions> = {},
) {
  const written = script.replaceAll('{site}', site.url)
  return runScriptMonitor(multistep, { script: written, ...definition }, { host, ...options })
}

test('steps, requests, console and the environment of a script are reported', async () => {
  const { observed, failures, responseTimeMs, workRoot } = await run(
    `${HEAD}import { getAPIResponseTime } from '@checkly/playwright-helpers'
    test('shop', async ({ request }) => {
      const items = await test.step('list', async () => {
        const response = await request.get('{site}/api/items', {
          headers: { 'x-token': process.env.TOKEN },
        })
        expect(getAPIResponseTime(response)).toBeGreaterThan(0)
        return response.json()
      })
      await test.step('look', () => expect(items.items).toContain('pen'))
      console.log('saw', items.saw, process.env.CHECKLY, process.env.CHECK_NAME)
    })`,
    {},
    { variables: { TOKEN: 'abc', NODE_OPTIONS: '--no-such-option' } },
  )
  expect(failures).toEqual([])
  expect(observed).toMatchObject({
    runtime: '2026.04',
    playwright: '1.58.2',
    tests: [{ title: 'shop', status: 'passed' }],
    network: [{ method: 'GET', url: `${site.url}/api/items`, type: 'api', status: 200 }],
  })
  const own = observed.tests[0]?.steps.filter(({ category }) => category === 'test.step') ?? []
  expect(own.map(({ title }) => title)).toEqual(['list', 'look'])
  expect(observed.console).toContainEqual({ type: 'stdout', text: 'saw abc 1 A script' })
  expect(responseTimeMs).toBeGreaterThan(0)
  expect(readdirSync(workRoot)).toEqual([])
})

test('the progress of the tests is reported while they run', async () => {
  const reported: RunProgress[] = []
  const script = `${HEAD}test('first', () => {})\ntest('second', () => {})`
  await run(script, {}, { progress: (at) => reported.push(at) })
  expect(reported[0]).toEqual({ phase: 'test' })
  const at = (done: number, title: string) =>
    ({ phase: 'test', done, total: 2, line: `script.spec.ts › ${title}` }) as const
  expect(reported).toContainEqual(at(0, 'first'))
  expect(reported.at(-1)).toEqual(at(2, 'second'))
})

describe('verdicts', () => {
  const testing = (body: string) => `${HEAD}test('a', async () => { ${body} })`
  const hook = `${HEAD}test.beforeAll(() => { throw new Error('no') })\ntest('a', () => {})`
  const dying = testing(`process.kill(process.pid, 'SIGKILL')`)
  const hungry = testing('const all = []; for (;;) all.push(Buffer.alloc(2 ** 24, 1))')
  const filling = testing(
    `for (let at = 0; ; at++) require('node:fs').writeFileSync('f' + at, Buffer.alloc(2 ** 24))`,
  )
  const failing = testing('expect(1).toBe(2)')
  const place = { test: 'a', file: 'script.spec.ts', line: 2 }
  test.each<[string, string, string[], object?]>([
    ['an assertion that fails', failing, ['SCRIPT_FAILED'], place],
    ['a syntax error', `${HEAD}test('a', () => {`, ['SCRIPT_INVALID']],
    ['an import that is not there', `${HEAD}import 'no-such-package'`, ['SCRIPT_INVALID']],
    ['an error in a hook', hook, ['SCRIPT_FAILED'], { test: 'a' }],
    ['a worker that kills itself', dying, ['RUN_CRASHED'], { test: 'a' }],
    ['all memory', hungry, ['RUN_OUT_OF_MEMORY']],
    ['files without end', filling, ['RUN_OUT_OF_DISK']],
  ])('%s', async (_, script, wanted, details = {}) => {
    const { codes, failures } = await run(script)
    expect(codes).toEqual(wanted)
    expect(failures[0]?.details ?? {}).toMatchObject(details)
  })

  test('a script that times out is distinguished from a cancelled one', async () => {
    const script = `${HEAD}test.setTimeout(0)
      test('a', async ({ request }) => { await request.get('{site}/'); await new Promise(() => {}) })`
    const before = site.requests.length
    const deadline = eventually(() => site.requests.length > before)
    const late = await run(script, {}, { deadline })
    expect(late.codes).toEqual(['TIMEOUT_RUN'])
    expect(late.abandoned).toBe(false)
    expect(late.observed.tests).toMatchObject([{ title: 'a' }])

    const asked = site.requests.length
    const running = startScript(multistep, { script: script.replace('{site}', site.url) }, { host })
    await expect.poll(() => site.requests.length).toBeGreaterThan(asked)
    running.cancel('enough')
    const { observation } = await running.outcome
    expect(observation.failures.map(({ code }) => code)).toEqual(['CANCELLED'])
  })
})

describe('markCheckAsDegraded', () => {
  const MARK = `import { markCheckAsDegraded } from '@checkly/playwright-helpers'\n`
  const mark = `markCheckAsDegraded('slow')`
  const failed = ['SCRIPT_FAILED', 'SCRIPT_FAILED']
  test.each<[string, string, string[], boolean]>([
    ['of a check that passes', mark, [], true],
    ['of one whose soft assertions fail', `expect.soft(1).toBe(2); ${mark}`, [], true],
    ['of one that fails', `${mark}; expect.soft(1).toBe(2); expect(1).toBe(2)`, failed, false],
  ])('%s', async (_, body, wanted, degraded) => {
    const result = await run(`${HEAD}${MARK}test('a', () => { ${body} })`)
    expect(result.codes).toEqual(wanted)
    expect(result.degraded).toBe(degraded)
    expect(result.observed.degradedReasons).toEqual(['slow'])
  })

  test('soft assertions alone fail the check', async () => {
    const body = 'expect.soft(1).toBe(2); expect.soft(2).toBe(3)'
    expect((await run(`${HEAD}test('a', () => { ${body} })`)).codes).toEqual(failed)
  })
})

describe('projects', () => {
  test('a script imports what it brings, from where it lay', async () => {
    const { codes } = await run(
      `import { shop } from '../pages/shop'
      import { test, expect } from '@playwright/test'
      test('a', () => { expect(shop as string).toBe('pen') })`,
      {
        scriptPath: 'src/checks/[shop].check.ts',
        dependencies: [{ path: 'src/pages/shop.ts', content: `export const shop: string = 'pen'` }],
      },
    )
    expect(codes).toEqual([])
  })

  test('settings of the monitor reach Playwright', async () => {
    const body = `expect((await request.get('/api/items')).ok()).toBe(true)`
    const playwrightConfig = { use: { baseURL: site.url } }
    const script = `${HEAD}test('a', async ({ request }) => { ${body} })`
    expect((await run(script, { playwrightConfig })).codes).toEqual([])
  })

  test('a path that leads out is refused', async () => {
    const { codes } = await run(HEAD, { dependencies: [{ path: 'a/../../x.ts', content: '' }] })
    expect(codes).toEqual(['SETTINGS_INVALID'])
  })

  test('braces in a script are its own', async () => {
    const body = `expect('{{NAME}}').toContain('NA' + 'ME')`
    expect((await run(`${HEAD}test('a', () => { ${body} })`)).codes).toEqual([])
  })
})

const module = `import { request } from 'playwright'
    const api = await request.newContext()
    console.log((await api.get('{site}/api/items')).status())
    await api.dispose()`
const talkative = `void (async () => {
    for (;;) await new Promise((wrote) => process.stdout.write('x'.repeat(2 ** 16), wrote))
  })()`
const JOIN = `const { join } = require('node:path')\n`
const mixed = `${JOIN}const one = await Promise.resolve('a')
    console.log(join(one, 'b'), typeof module.exports)`
const speaking = `// we import the orders here, from "a" to 'b'\nconst text = \`\n  import socket\`
    console.log(require('node:path').basename('x/import it'))`
const unreadable = `${JOIN}await Promise.resolve()\nconst b = = 2`
const unreadableModule = `import { join } from 'node:path'\nconst b = = 2`
const INVALID = ['SCRIPT_INVALID']
const at = (file: string, line: number) => ({ details: { file, line, column: 11 } })
const said = expect.any(String) as string
type Expected = { said?: string; details?: Record<string, unknown> }
test.each<[string, string, string[], Expected?]>([
  ['an ES module', module, [], { said: '200' }],
  ['CommonJS that mixes `require` and `await`', mixed, [], { said: 'a/b object' }],
  ['CommonJS that speaks of an import', speaking, [], { said: 'import it' }],
  ['an error', `Promise.reject(new Error('broken'))`, ['SCRIPT_FAILED']],
  ['an exit code', `process.exit(3)`, ['SCRIPT_FAILED']],
  ['an import that is not there', `require('no-such-package')`, INVALID],
  ['JSON that is none', `JSON.parse('{')`, ['SCRIPT_FAILED']],
  ['output without end', talkative, ['RUN_OUT_OF_OUTPUT'], { said }],
  ['a signal', `process.kill(process.pid, 'SIGKILL')`, ['RUN_CRASHED']],
  ['one that cannot be read', unreadable, INVALID, at('script.js', 3)],
  ['a module that cannot be read', unreadableModule, INVALID, at('script.mjs', 2)],
])('plain scripts: %s', async (_, script, wanted, expected = {}) => {
  const { codes, failures, observed } = await run(script)
  expect(codes).toEqual(wanted)
  expect(observed.console.find(({ type }) => type === 'stdout')?.text).toEqual(expected.said)
  expect(failures[0]?.details ?? {}).toMatchObject(expected.details ?? {})
})

const noRuntime = testScriptHost({ tools: temporaryFolder() })
test.each([
  ['a runtime that is not installed', noRuntime, 'RUNTIME_MISSING'],
  ['an agent without a script host', undefined, 'SCRIPT_UNSUPPORTED'],
])('%s is reported', async (_, lent, code) => {
  const { codes } = await runScriptMonitor(multistep, { script: HEAD }, { host: lent })
  expect(codes).toEqual([code])
})
