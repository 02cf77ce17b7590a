// Aim: a check suite runs as its own configuration says, in the sandbox; every way in which it can end is reported
// apart, with whom it is about; and what was recorded is handed over, however it ends.
import { readdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { aboutWhom } from '../../../src/monitors/definitions.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import type { SuiteWatcher } from '../../../src/suites/run.ts'
import { freePort } from '../../support/network/free-port.ts'
import { testContext } from '../../support/monitors/monitor-context.ts'
import { processesIn } from '../../support/processes-in.ts'
import { runFolder, suiteHost, suiteProject } from '../../support/suites/suite-runs.ts'

const HEAD = `import { test, expect } from '@playwright/test'\n`
const GOOD = `${HEAD}test('adds', { tag: '@smoke' }, async () => {
  await test.step('by hand', () => expect(1 + 1).toBe(2))
})\n`
const FAST = `export default { retries: 0, workers: 1, reporter: 'line' }`
const MANIFEST = JSON.stringify({ name: 'shop-tests', private: true })

const host = suiteHost()

function project(spec: string, more: Record<string, string> = {}): string {
  const files = { 'package.json': MANIFEST, 'playwright.config.ts': FAST, 'a.spec.ts': spec }
  return suiteProject({ ...files, ...more })
}

interface Attempt {
  steps: { title: string }[]
  attachments: { file?: string }[]
}
interface Results {
  tests: { title: string; attempts: Attempt[] }[]
}

const textOf = (file: Buffer | undefined) => file?.toString() ?? ''

describe('a suite that runs', () => {
  test('hands over every test with its attempts and steps, as JSON, JUnit and HTML', async () => {
    const spec = `${GOOD}
      test('at the second go', ({}, info) => expect(info.retry).toBe(1))
      test('never', () => { console.log('said'); expect(1).toBe(2) })
      test.skip('not now', () => {}) // a test that is skipped, for the counts below
      test('attached', async ({}, info) => { await info.attach('note', { body: 'seen' }) })`
    const config = `export default { retries: 1, workers: 2 }`
    const folder = project(spec, { 'playwright.config.ts': config })
    const run = await runFolder(host, folder)
    expect(run.codes).toEqual(['TESTS_FAILED'])
    const never = { test: 'never', at: 'a.spec.ts:7' }
    expect(run.failures[0]?.details).toMatchObject({ tests: [never] })
    expect(run.observed).toMatchObject({
      engine: 'node@24',
      packages: 'brought',
      stats: { total: 5, expected: 2, flaky: 1, unexpected: 1, skipped: 1, unfinished: 0 },
      layers: { network: true },
    })
    const results = JSON.parse(textOf(run.files['results.json'])) as Results
    const attempts = results.tests.map((one) => `${one.title}: ${one.attempts.length}`)
    const expected = ['adds: 1', 'at the second go: 2', 'never: 2', 'not now: 1', 'attached: 1']
    expect(attempts).toEqual(expected)
    const steps = results.tests[0]?.attempts[0]?.steps.map(({ title }) => title)
    expect(steps).toContain('by hand')
    // A trace of every test, whether the project asks for it or not.
    const trace = results.tests[2]?.attempts[1]?.attachments.find((one) =>
      one.file?.endsWith('.zip'),
    )
    expect(run.files[trace?.file ?? '']?.subarray(0, 2).toString()).toBe('PK')
    const note = Object.keys(run.files).find((name) => name.endsWith('attached-note.txt'))
    expect(textOf(run.files[note ?? ''])).toBe('seen')
    const junit = textOf(run.files['junit.xml'])
    expect(junit).toMatch(/<testsuites tests="5" failures="1" errors="0" skipped="1"/)
    expect(junit).toContain('<failure message="Error: expect(received).toBe(expected)')
    expect(run.files['playwright-report.zip']?.includes('index.html')).toBe(true)
    const phases = run.progress
      .map(({ phase }) => phase)
      .filter((one, at, all) => one !== all[at - 1])
    expect(phases).toEqual(['prepare', 'install', 'test', 'upload'])
    expect(run.progress.at(-2)?.line).toMatch(/^\S+\.spec\.\w+ › /)
    // Nothing of the run is in the project itself.
    const own = ['a.spec.ts', 'node_modules', 'package.json', 'playwright.config.ts']
    expect(readdirSync(folder).sort()).toEqual(own)
  })

  test('hands over large attachments and errors of one test', async () => {
    const spec = `${HEAD}test('large', async ({}, info) => {
      for (let n = 0; n < 5; n++) await info.attach('part', { body: Buffer.alloc(1_000_000, 65) })
      for (let n = 0; n < 40; n++) expect.soft('x'.repeat(60_000), 'y'.repeat(60_000)).toBe('z')
    })`
    const run = await runFolder(host, project(spec))
    expect(run.codes).toEqual(['TESTS_FAILED'])
    expect(run.observed).toMatchObject({ stats: { total: 1, unexpected: 1, unfinished: 0 } })
    expect(run.observed['leftOut']).toBeGreaterThan(0)
    expect(Object.keys(run.files).filter((name) => name.includes('large-part'))).toHaveLength(5)
  })

  test('gets what it leaves open, and the environment that suites have', async () => {
    const spec = `${HEAD}test('sees', ({}, info) => {
      const { project, config } = info
      const { CHECKLY, CHECK_NAME, CHECKLY_REGION, API_KEY, TOKEN, PATH } = process.env
      const { ACCOUNT_ID, CHECKLY_RUN_SOURCE, CHECKLY_CHECK_ID, CI } = process.env
      console.log('SAW' + JSON.stringify({
        retries: project.retries, workers: config.workers, use: [project.use.trace, project.use.screenshot],
        CHECKLY, CHECK_NAME, CHECKLY_REGION, TOKEN, API_KEY, ACCOUNT_ID, CHECKLY_RUN_SOURCE,
        CHECKLY_CHECK_ID, CI,
      }))
    })`
    const folder = suiteProject({ 'package.json': MANIFEST, 'a.spec.ts': spec })
    const around = { variables: { TOKEN: 'of the monitor' }, accountId: 'mine' }
    const run = await runFolder(host, folder, {}, { ...around, source: 'TRIGGER_API' })
    const { tests } = run.observed as { tests: { attempts: { output: string }[] }[] }
    const saw = /SAW(.*)/.exec(tests[0]?.attempts[0]?.output ?? '')?.[1] ?? '{}'
    expect(run.codes).toEqual([])
    expect(JSON.parse(saw)).toEqual({
      retries: 2,
      workers: 4,
      use: ['on', 'only-on-failure'],
      CHECKLY: '1',
      CHECK_NAME: 'Shop',
      CHECKLY_REGION: 'here',
      TOKEN: 'of the monitor',
      ACCOUNT_ID: 'mine',
      CHECKLY_RUN_SOURCE: 'TRIGGER_API',
      CHECKLY_CHECK_ID: 'suite',
    })
  })

  test('waits for its own web server', async () => {
    const port = await freePort()
    const folder = project(
      `${HEAD}test('asks', async ({ request }) => {
        expect(await (await request.get('http://localhost:${port}/')).text()).toBe('open')
      })`,
      {
        'package.json': JSON.stringify({ private: true, scripts: { start: 'node shop.mjs' } }),
        'shop.mjs': `import { createServer } from 'node:http'
          createServer((_, response) => response.end('open')).listen(${port})`,
        'playwright.config.ts': `export default { retries: 0, workers: 1,
          webServer: { command: 'npm run start', port: ${port}, timeout: 20_000 } }`,
      },
    )
    const run = await runFolder(host, folder)
    expect(run.codes).toEqual([])
    expect(processesIn(run.folder)).toEqual([])
  })

  test('goes straight to its targets, and learns which of them the network policy forbids', async () => {
    const spec = `${HEAD}test('reaches', async ({ request }) => {
      expect(Object.keys(process.env).filter((one) => /proxy/i.test(one))).toEqual([])
      await expect(request.get('http://203.0.113.9:8080/')).rejects.toThrow('EACCES')
    })`
    const held = suiteHost({ blocked: ['203.0.113.0/24'] })
    const run = await runFolder(held, project(spec))
    expect(run.codes).toEqual([])
    const blocked = { address: '203.0.113.9', port: 8080, network: '203.0.113.0/24' }
    expect(run.observed['blocked']).toEqual([blocked])
    held.close()
  })

  test('is degraded when a test passes only at the second go', async () => {
    const spec = `${HEAD}test('flaky', ({}, info) => expect(info.retry).toBe(1))`
    const retrying = { 'playwright.config.ts': 'export default { retries: 1 }' }
    const run = await runFolder(host, project(spec, retrying))
    expect(run).toMatchObject({ codes: [], degraded: true })
  })

  const common = { 'playwright.config.js': `module.exports = { retries: 0, metadata: {} }` }
  const apart = { 'conf/pw.config.ts': `export default { retries: 0, testDir: '..' }` }
  const fast = { 'playwright.config.ts': FAST }
  test.each<[string, Record<string, string>, string?]>([
    ['a CommonJS configuration', common],
    ['a configuration that the command names', apart, 'npx playwright test -c conf/pw.config.ts'],
    ['a shell', fast, 'echo first && node node_modules/@playwright/test/cli.js test'],
  ])('runs with %s', async (_, files, testCommand = 'npx playwright test') => {
    const folder = suiteProject({ 'package.json': MANIFEST, 'a.spec.ts': GOOD, ...files })
    const run = await runFolder(host, folder, { testCommand })
    expect(run.codes).toEqual([])
    expect(run.observed).toMatchObject({ stats: { total: 1, expected: 1 } })
    // Ours stands in the place of the project's own, and adds what that one leaves open.
    expect(Object.keys(run.files).some((name) => name.endsWith('trace.zip'))).toBe(true)
  })
})

const configured = (config: string, more: Record<string, string> = {}) =>
  project(GOOD, { 'playwright.config.ts': config, ...more })
const setUp = { 'setup.ts': `export default () => { throw new Error('cannot log in') }` }
const failingSetUp = () => configured(`export default { globalSetup: './setup.ts' }`, setUp)
const neverEnding = () =>
  project(`${HEAD}test('slow', () => new Promise(() => {}))`, {
    'playwright.config.ts': 'export default { globalTimeout: 1500, retries: 0 }',
  })
const good = () => project(GOOD)
const locked = () => project(GOOD, { 'pnpm-lock.yaml': '' })
const failingInstall = { installCommand: 'echo no registry; exit 3' }
const dying = () => project(`${HEAD}test('dies', () => process.exit(9))`)
const command = (testCommand: string) => ({ testCommand })
test.each<[string, () => string, Record<string, unknown>, string, string?]>([
  ['a folder that is not there', () => '/nowhere/at/all', {}, 'BUNDLE_INVALID'],
  ['a working folder outside', good, { workingDir: '../..' }, 'BUNDLE_INVALID'],
  ['an engine that is not installed', good, { engineVersion: '22' }, 'ENGINE_MISSING'],
  ['a package manager that is not there', locked, { engineVersion: '24' }, 'PACKAGE_TOOL_MISSING'],
  ['an installation that fails', good, failingInstall, 'INSTALL_FAILED'],
  ['a test that does not parse', () => project(`${HEAD}test('', () => {`), {}, 'SUITE_INVALID'],
  ['no test', () => project(HEAD), {}, 'NO_TESTS'],
  ['skipped tests alone', () => project(`${HEAD}test.skip('a', () => {})`), {}, 'NO_TESTS'],
  ['a command that runs no test', good, command('true'), 'NO_TESTS'],
  ['a set-up that fails', failingSetUp, {}, 'SUITE_FAILED', 'target'],
  ['a globalTimeout', neverEnding, {}, 'TIMEOUT_RUN', 'target'],
  ['a worker that dies', dying, {}, 'TESTS_FAILED', 'target'],
])('failures are distinguished: %s', async (_, folder, options, code, about = 'agent') => {
  const run = await runFolder(host, folder(), options)
  expect(run.codes).toContain(code)
  expect(new Set(run.failures.map((one) => aboutWhom(one)))).toEqual(new Set([about]))
})

test.each([
  ['npx nosuchtool run', 'nosuchtool'],
  ['CI=1 npx --no-install @shop/tool@2 && true', '@shop/tool'],
])('%s: what the project does not have is not downloaded', async (testCommand, lacking) => {
  const run = await runFolder(host, project(GOOD), { testCommand })
  expect(run.codes).toEqual(['SUITE_INVALID'])
  expect(run.failures[0]?.details).toEqual({ command: testCommand, lacking })
})

describe('a run that is ended', () => {
  const slow = `${HEAD}test('first', () => {})
    test('slow', async () => { console.log('begun'); await new Promise(() => {}) })`

  test.each<[string, Error]>([
    ['by somebody', new Error('cancelled')],
    ['by its deadline', new DeadlineReached(1)],
  ])('%s, hands over what was recorded until then', async (_, reason) => {
    const stop = new AbortController()
    let askedAt = 0
    const watcher: SuiteWatcher = {
      onEvent(event) {
        if (event.event !== 'output' || !event.text.includes('begun')) return
        askedAt = performance.now()
        stop.abort(reason)
      },
    }
    const run = await runFolder(host, project(slow), {}, { signal: stop.signal, watcher })
    expect(performance.now() - askedAt).toBeLessThan(5000)
    expect(run.observed).toMatchObject({
      stats: { total: 2, expected: 1, unfinished: 1 },
      tests: [
        { title: 'first', outcome: 'expected', attempts: [{ status: 'passed' }] },
        { title: 'slow', outcome: 'unfinished', attempts: [{ status: 'interrupted' }] },
      ],
    })
    expect(textOf(run.files['results.json'])).toContain('"first"')
    const isDeadline = reason instanceof DeadlineReached
    expect(run.codes.includes('TIMEOUT_RUN')).toBe(isDeadline)
    expect(processesIn(run.folder)).toEqual([])
  })

  test('while packages are installed, ends at once', async () => {
    const stop = new AbortController()
    const watcher = { onOutput: () => stop.abort(new DeadlineReached(1)) }
    const installing = { installCommand: 'echo begun; sleep 60' }
    const run = await runFolder(host, project(GOOD), installing, { signal: stop.signal, watcher })
    expect(run.codes).toEqual(['TIMEOUT_RUN'])
    expect(processesIn(run.folder)).toEqual([])
  })
})

test('an agent without a script host says so', async () => {
  const type = MONITOR_TYPES.get('PLAYWRIGHT')
  const observation = await type?.prepare({})(testContext())
  expect(observation?.failures[0]?.code).toBe('SCRIPT_UNSUPPORTED')
})

test('a path of the machine is refused to what does not come from a file of monitors', async () => {
  const strict = { ...host, ownProjects: false }
  const run = await runFolder(strict, project(GOOD))
  expect(run.codes).toEqual(['BUNDLE_INVALID'])
})
