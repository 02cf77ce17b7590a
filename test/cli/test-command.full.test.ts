// Aim: `vedette test` shows results as they arrive, and the recorded ones after an interruption at a terminal.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { LIMITS } from '../../src/contract/versions.ts'
import { eventually } from '../support/eventually.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { processesIn } from '../support/processes-in.ts'
import { suiteHost, suiteProject } from '../support/suites/suite-runs.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const PACKAGE = { 'package.json': '{"name":"shop","private":true}' }
const CONFIG = 'module.exports = { retries: 0, workers: 1, timeout: 0 }'
const suite = (spec: string, name = 'a.spec.js') => {
  const folder = suiteProject({ ...PACKAGE, 'playwright.config.js': CONFIG, [name]: spec })
  return ['test', folder, '--no-install', '--engine', 'node@24']
}
const SPEC = `import { test, expect } from '@playwright/test'
test('first', () => {})
test('endless', async () => { console.log('begun'); await new Promise(() => {}) })`

test('an interrupted run has the results, the files of the report and the missing tests', async () => {
  const output = join(temporaryFolder(), 'output')
  const env = { TOOLS_DIR: suiteHost().tools.folder, TMPDIR: temporaryFolder() }
  const started = startVedette([...suite(SPEC), '--output', output], env)
  await eventually(() => /✓ .*first/.test(started.stderr), { what: 'the first test' })
  started.kill('SIGINT')
  const { code, stderr } = await started.ended
  expect(code).toBe(130)
  expect(stderr).toMatch(/^CANCELLED: the run was interrupted$/m)
  expect(stderr).toMatch(/^cancelled: 1 passed, 1 unfinished, /m)
  expect(stderr).toContain(`files: ${output}\n`)
  expect(readdirSync(output)).toEqual(expect.arrayContaining(['junit.xml', 'results.json']))
  const results = JSON.parse(readFileSync(join(output, 'results.json'), 'utf8')) as {
    tests: { title: string; outcome?: string }[]
  }
  expect(results.tests.map(({ title, outcome }) => [title, outcome])).toEqual([
    ['first', 'expected'],
    ['endless', undefined],
  ])
  expect(processesIn(env.TMPDIR)).toEqual([])
})

test('values of sensitive headers are neither on the terminal nor in the result', async () => {
  const args = suite(`import { test } from '@playwright/test'
test('fails', () => {
  const headers = { authorization: ['Bearer', 'RESPAUTH98765'].join(' '), accept: 'a/b' }
  console.log(JSON.stringify(headers))
  throw new Error('with ' + headers.authorization + ' in ' + JSON.stringify(headers))
})`)
  const env = { TOOLS_DIR: suiteHost().tools.folder, TMPDIR: temporaryFolder() }
  for (const further of [[], ['--json']]) {
    const { code, stdout, stderr } = await startVedette([...args, ...further], env).ended
    const shown = expect.stringContaining('Error: with [scrubbed] in ') as string
    expect([code, stdout + stderr]).toEqual([1, shown])
    expect(stdout + stderr).not.toContain('RESPAUTH')
  }
})

test('with more values than a run may have, the last line still has the verdict', async () => {
  const args = suite(`import { test } from '@playwright/test'
test('fails', async () => {
  for (let at = 0; at < ${LIMITS.userCodeSecretValuesMax}; at += 100) {
    const headers = Array.from({ length: 200 }, (_, nth) => ['x-token-' + nth, 'Zq7Rk2Lm' + (at + nth)])
    await fetch('http://127.0.0.1:60009/', { headers }).catch(() => {})
  }
  throw new Error('out of stock')
})`)
  const env = { TOOLS_DIR: suiteHost().tools.folder, TMPDIR: temporaryFolder() }
  const { code, stderr } = await startVedette(args, env).ended
  expect(code).toBe(1)
  expect(stderr).toMatch(/^\[scrubbed\]$/m)
  expect(stderr).toMatch(/^failed: 1 failed, /m)
  expect(stderr).not.toContain('out of stock')
})

test('lines during a run have no value of a header that was sent before', async () => {
  const spec = `import { test } from '@playwright/test'
const value = ['LIVE', 'Zq7Rk2'].join('-')
await fetch('http://127.0.0.1:40/', { headers: { 'x-api-key': value } }).catch(() => {})
test('knows ' + value, () => {})`
  const env = { TOOLS_DIR: suiteHost().tools.folder, TMPDIR: temporaryFolder() }
  const { stderr } = await startVedette(suite(spec, 'a.spec.mjs'), env).ended
  expect(stderr).toMatch(/✓ a\.spec\.mjs:4 › knows \[scrubbed\] /)
  expect(stderr).not.toContain('LIVE')
})

test.each(['node@18', 'bun@2', 'deno@2', 'node@new'])('--engine %s is refused', async (engine) => {
  const args = ['test', suiteProject(PACKAGE), '--engine', engine]
  const { code, stderr } = await startVedette(args, {}).ended
  expect(code).toBe(2)
  expect(stderr).toContain('node@22, node@24, node@26, bun@1.3\n')
})

test.each(['--env-file', '--junit'])('a missing file of %s is reported at once', (option) => {
  // As npm starts it, with the flags of its first line.
  const program = fileURLToPath(new URL('../../src/launch.js', import.meta.url))
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:/usr/bin:/bin` }
  const args = ['test', temporaryFolder(), option, '/nonexistent/file']
  const { status, stderr } = spawnSync(program, args, { env, encoding: 'utf8' })
  const message = new RegExp(`^vedette test: ${option} .*does not exist`)
  expect([status, stderr]).toEqual([2, expect.stringMatching(message)])
})
