// Playwright's code is compiled once, without a project's own code, and lent read-only to later runs.
import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type CompilingRun, compiledCode } from '../../../src/scripts/playwright/compiled-code.ts'
import { ROOMY } from '../../support/sandbox/sandboxed.ts'
import { testScriptHost } from '../../support/scripts/script-host.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const MODULES = join(import.meta.dirname, '../../../node_modules')
const CODE = { modules: MODULES, program: process.execPath, isBun: false }
const NONE = { environment: {}, readable: [] }

function runOf(signal = new AbortController().signal): CompilingRun {
  const folder = join(temporaryFolder(), 'run')
  mkdirSync(folder)
  return {
    host: testScriptHost({ compilesAnew: true }),
    context: { signal },
    folder,
    readable: [MODULES, dirname(process.execPath)],
    limits: ROOMY,
  }
}

/** The same run, in which nothing may be compiled. */
function unused(run: CompilingRun): CompilingRun {
  const sandbox = () => expect.fail('there is nothing to compile')
  return { ...run, host: { ...run.host, sandbox } }
}

test('is made at the first run, and found by the next', async () => {
  const run = runOf()
  const made = await compiledCode(CODE, run)
  const folder = made.environment['NODE_COMPILE_CACHE'] ?? ''
  expect(made.readable).toEqual([folder])
  const { version, arch } = process
  const code = readdirSync(folder).filter((name) => name.startsWith(`${version}-${arch}-`))
  for (const userId of (await run.host.sandbox()).userIds) {
    expect(code.some((name) => name.endsWith(`-${userId}`))).toBe(true)
  }
  expect(readdirSync(join(folder, code[0] ?? '')).length).toBeGreaterThan(10)
  expect(existsSync(join(run.folder, '.vedette/compiling'))).toBe(false)
  expect(await compiledCode(CODE, unused(run))).toEqual(made)
})

test('is not made of code whose path is the run’s own', async () => {
  const run = runOf()
  const modules = join(run.folder, 'node_modules')
  mkdirSync(join(modules, '@playwright/test'), { recursive: true })
  symlinkSync('elsewhere', join(modules, '@playwright/test/cli.js'))
  expect(await compiledCode({ ...CODE, modules }, unused(run))).toEqual(NONE)
})

test('ends with the run that it is made for', async () => {
  const signal = AbortSignal.abort(new Error('cancelled'))
  await expect(compiledCode(CODE, runOf(signal))).rejects.toThrow('cancelled')
})

test('is tried again some time after a try that was cut short', async () => {
  const run = runOf()
  expect(await compiledCode(CODE, { ...run, limits: { ...ROOMY, cpuMs: 50 } })).toEqual(NONE)
  expect(await compiledCode(CODE, unused(run))).toEqual(NONE)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 600_000 })
  onTestFinished(() => void vi.useRealTimers())
  expect((await compiledCode(CODE, run)).readable).toHaveLength(1)
})
