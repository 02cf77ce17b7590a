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
  const { observed, failures, codes, responseTimeMs, workRoot } = await run(
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
  expect(codes).toEqual([])
  expect(observed).toMatchObject({ runtime: '2026.04', playwright: '1.58.2' })
  const [only] = observed.tests
  expect(only).toMatchObject({ title: 'shop', status: 'passed' })
  const own = only?.steps.filter(({ category }) => category === 'test.step') ?? []
  expect(own.map(({ title }) => title)).toEqual(['list', 'look'])
  expect(observed.network).toMatchObject([
    { method: 'GET', url: `${site.url}/api/items`, type: 'api', status: 200 },
  ])
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
  const slow = testing('test.setTimeout(300); await new Promise(() => {})')
  const dying = testing(`process.kill(process.pid, 'SIGKILL')`)
  const hungry = testing('const all = []; for (;;) all.push(Buffer.alloc(2 ** 24, 1))')
  const filling = testing(
    `for (let at = 0; ; at++) require('node:fs').writeFileSync('f' + at, Buffer.alloc(2 ** 24))`,
  )
  const failing = testing('expect(1).toBe(2)')
  const place = { test: 'a', file: 'script.spec.ts', line: 2 }
  const killed = 'a signal ended the script (SIGKILL)'
  test.each<[string, string, string[], object?, string?]>([
    ['an assertion that fails', failing, ['SCRIPT_FAILED'], place],
    ['a syntax error', `${HEAD}test('a', () => {`, ['SCRIPT_INVALID']],
    ['an import that is not there', `${HEAD}import 'no-such-package'`, ['SCRIPT_INVALID']],
    ['no test', `${HEAD}console.log(1)`, ['SCRIPT_INVALID']],
    ['an error in a hook', hook, ['SCRIPT_FAILED'], { test: 'a' }],
    ['a test that takes too long', slow, ['SCRIPT_FAILED'], { test: 'a' }],
    ['a worker that kills itself', dying, ['RUN_CRASHED'], { test: 'a' }, killed],
    ['all memory', hungry, ['RUN_OUT_OF_MEMORY'], {}, 'the limit is 2 GiB'],
    ['files without end', filling, ['RUN_OUT_OF_DISK']],
    ['a skipped test', `${HEAD}test.skip('a', () => {})`, []],
  ])('%s', async (_, script, wanted, details = {}, excerpt = '') => {
    const { codes, failures } = await run(script)
    expect(codes).toEqual(wanted)
    expect(failures[0]?.message ?? '').toContain(excerpt)
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

  test.each(['../x.ts', 'a/../../x.ts'])('the path %s is refused', async (path) => {
    const { codes } = await run(HEAD, { dependencies: [{ path, content: '' }] })
    expect(codes).toEqual(['SETTINGS_INVALID'])
  })

  test('braces in a script are its own', async () => {
    const body = `expect('{{NAME}}').toContain('NA' + 'ME')`
    expect((await run(`${HEAD}test('a', () => { ${body} })`)).codes).toEqual([])
  })
})

describe('plain scripts', () => {
  const module = `import { request } from 'playwright'
    const api = await request.newContext()
    console.log((await api.get('{site}/api/items')).status())
    await api.dispose()`
  const talkative = `void (async () => {
    for (;;) await new Promise((wrote) => process.stdout.write('x'.repeat(2 ** 16), wrote))
  })()`
  const rejecting = `Promise.reject(new Error('broken'))`
  test.each<[string, string, string[], string?]>([
    ['one that is through', `console.log('done')`, []],
    ['an ES module', module, []],
    ['an error', rejecting, ['SCRIPT_FAILED'], 'broken'],
    ['an exit code', `process.exit(3)`, ['SCRIPT_FAILED'], 'the script ended with exit code 3'],
    ['a syntax error', `const = 1`, ['SCRIPT_INVALID']],
    ['an import that is not there', `require('no-such-package')`, ['SCRIPT_INVALID']],
    ['JSON that is none', `JSON.parse('{')`, ['SCRIPT_FAILED']],
    ['output without end', talkative, ['RUN_OUT_OF_OUTPUT']],
    ['a signal', `process.kill(process.pid, 'SIGKILL')`, ['RUN_CRASHED']],
  ])('%s', async (_, script, wanted, message = '') => {
    const { codes, failures } = await run(script)
    expect(codes).toEqual(wanted)
    expect(failures[0]?.message ?? '').toContain(message)
  })
})

const install = 'vedette runtime install 2026.04'
const noRuntime = testScriptHost({ tools: temporaryFolder() })
test.each([
  ['a runtime that is not installed', noRuntime, 'RUNTIME_MISSING', install],
  [
    'an agent without a script host',
    undefined,
    'SCRIPT_UNSUPPORTED',
    'this agent does not run scripts',
  ],
])('%s is reported', async (_, lent, code, way) => {
  const { codes, failures } = await runScriptMonitor(multistep, { script: HEAD }, { host: lent })
  expect(codes).toEqual([code])
  expect(failures[0]?.message).toContain(way)
})

test.each<[string, string, { codes: string[]; said?: string; details?: Record<string, unknown> }]>([
  [
    'runs with `require` and `await` outside of functions',
    `const { join } = require('node:path')\nconst one = await Promise.resolve('a')
      console.log(join(one, 'b'), typeof module.exports)`,
    { codes: [], said: 'a/b object' },
  ],
  [
    'that mixes both fails where it fails',
    `const { join } = require('node:path')\nawait Promise.resolve()\nthrow new Error(join('a', 'b'))`,
    { codes: ['SCRIPT_FAILED'] },
  ],
  [
    'is CommonJS, though it speaks of an import',
    `// we import the orders here, from "a" to 'b'\nconst text = \`\n  import socket\`\nconsole.log(require('node:path').basename('x/import it'))`,
    { codes: [], said: 'import it' },
  ],
  [
    'imports over several lines',
    `'use strict'; import {\n  basename,\n  join,\n} from 'node:path'\nconsole.log(join('a', basename('x/b')))`,
    { codes: [], said: 'a/b' },
  ],
  [
    'that cannot be read is reported with its place',
    `const { join } = require('node:path')\nawait Promise.resolve()\nconst b = = 2`,
    { codes: ['SCRIPT_INVALID'], details: { file: 'script.js', line: 3, column: 11 } },
  ],
  [
    'with imports that cannot be read is reported with its place',
    `import { join } from 'node:path'\nconst b = = 2`,
    { codes: ['SCRIPT_INVALID'], details: { file: 'script.mjs', line: 2, column: 11 } },
  ],
])('a plain script %s', async (_what, script, { codes: expected, said, details }) => {
  const { codes, failures, observed } = await run(script)
  expect(codes).toEqual(expected)
  expect(observed.console.find(({ type }) => type === 'stdout')?.text).toEqual(said)
  const { file, line, column } = failures[0]?.details ?? {}
  expect({ file, line, column }).toEqual(details ?? {})
})
