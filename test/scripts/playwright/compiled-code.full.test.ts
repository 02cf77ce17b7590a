// Aim: what engines make of Playwright's code is made once, by none of a project's own code, and lent to later runs, of
// whatever user, in a place that they cannot write to.
import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type CompileOrder, compiledCode } from '../../../src/scripts/playwright/compiled-code.ts'
import { testScriptHost } from '../../support/scripts/script-host.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url))
const LIMITS = {
  wallMs: 60_000,
  cpuMs: 60_000,
  memoryBytes: 2 ** 31,
  processes: 100,
  outputBytes: 2 ** 20,
  diskBytes: 2 ** 28,
  fileBytes: 2 ** 28,
  openFiles: 1024,
}

async function orderOf(options: Partial<CompileOrder> = {}): Promise<CompileOrder> {
  const host = testScriptHost({ compilesAnew: true })
  const folder = join(temporaryFolder(), 'run')
  mkdirSync(folder)
  return {
    sandbox: await host.sandbox(),
    cacheFolder: host.cacheFolder,
    folder,
    modules: MODULES,
    program: process.execPath,
    isBun: false,
    readable: [MODULES, dirname(process.execPath)],
    limits: LIMITS,
    signal: new AbortController().signal,
    ...options,
  }
}

test('is made at the first run, and found by the next', async () => {
  const order = await orderOf()
  const made = await compiledCode(order)
  const folder = made.environment['NODE_COMPILE_CACHE'] ?? ''
  expect(made.readable).toEqual([folder])
  const { version, arch } = process
  const code = readdirSync(folder).filter((name) => name.startsWith(`${version}-${arch}-`))
  for (const userId of order.sandbox.userIds) {
    expect(code.some((name) => name.endsWith(`-${userId}`))).toBe(true)
  }
  expect(readdirSync(join(folder, code[0] ?? '')).length).toBeGreaterThan(10)
  expect(existsSync(join(order.folder, '.vedette/compiling'))).toBe(false)
  const { sandbox } = order
  const unused = { ...sandbox, run: () => expect.fail('it is there') }
  expect(await compiledCode({ ...order, sandbox: unused })).toEqual(made)
})

test('is not made of code whose path is the run’s own', async () => {
  const order = await orderOf()
  const modules = join(order.folder, 'node_modules')
  mkdirSync(join(modules, '@playwright/test'), { recursive: true })
  symlinkSync('elsewhere', join(modules, '@playwright/test/cli.js'))
  const unused = { ...order.sandbox, run: () => expect.fail('there is nothing to run') }
  expect(await compiledCode({ ...order, modules, sandbox: unused })).toEqual({
    environment: {},
    readable: [],
  })
})

test('ends with the run that it is made for', async () => {
  const signal = AbortSignal.abort(new Error('cancelled'))
  await expect(compiledCode(await orderOf({ signal }))).rejects.toThrow('cancelled')
})

test('is tried again some time after a try that was cut short', async () => {
  const order = await orderOf()
  const none = { environment: {}, readable: [] }
  expect(await compiledCode({ ...order, limits: { ...LIMITS, cpuMs: 50 } })).toEqual(none)
  const unused = { ...order.sandbox, run: () => expect.fail('it is too early') }
  expect(await compiledCode({ ...order, sandbox: unused })).toEqual(none)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 600_000 })
  onTestFinished(() => void vi.useRealTimers())
  expect((await compiledCode(order)).readable).toHaveLength(1)
})
