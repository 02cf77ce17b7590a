// Every package manager installs what its lock file says, in the sandbox, and once.
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { toolFolder, type ToolKind } from '../../../src/scripts/toolchains.ts'
import { type NpmRegistry, pinned, startNpmRegistry } from '../../support/suites/npm-registry.ts'
import { runFolder, suiteHost, suiteProject } from '../../support/suites/suite-runs.ts'
import { INSTALL_MS_MAX, realTool } from '../../support/scripts/toolchains.ts'

let registry: NpmRegistry
/** Bun keeps what it makes of files from 50 kB on. */
const LARGE = `module.exports = '${'a'.repeat(60_000)}'\n`
const host = suiteHost()

/** Manager → what writes its lock file. */
const MANAGERS: Readonly<Record<string, readonly string[]>> = {
  'npm@11': ['install', '--package-lock-only'],
  'pnpm@8': ['install', '--lockfile-only'],
  'pnpm@10': ['install', '--lockfile-only'],
  'pnpm@12': ['install', '--lockfile-only'],
  'yarn@1': ['install', '--ignore-scripts'],
  'yarn@3': ['install', '--mode=update-lockfile'],
  'yarn@4': ['install', '--mode=update-lockfile'],
  'bun@1.3': ['install', '--lockfile-only'],
}

const kindOf = (name: string): ToolKind => (name.startsWith('bun@') ? 'engine' : 'package-manager')

/** Runs a manager in a project without a sandbox, like a developer. */
async function runManager(name: string, args: readonly string[], cwd: string): Promise<void> {
  const { program } = await realTool(kindOf(name), name)
  const env = {
    PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
    HOME: join(cwd, '..'),
    // Yarn 1 of root has one cache for the machine, with packages of the same names from other tests.
    YARN_CACHE_FOLDER: join(cwd, '..', 'yarn-cache'),
    npm_config_manage_package_manager_versions: 'false',
    pnpm_config_pm_on_fail: 'ignore',
  }
  try {
    await promisify(execFile)(program, args, { cwd, env })
  } catch (error) {
    // Some managers report errors on standard output.
    throw new Error(`${program}: ${(error as { stdout: string }).stdout}`, { cause: error })
  }
}

beforeAll(async () => {
  const blue = { 'index.js': 'module.exports = "blue"\n' }
  const pens = { 'index.js': 'module.exports = require("ink")\n', LICENSE: 'the same' }
  const runner = pinned('@playwright/test@1.58.0', { 'cli.js': `require('playwright')\n` })
  registry = await startNpmRegistry([
    { ...pinned('pens@1.0.0', pens), dependencies: { ink: '1.0.0' } },
    pinned('ink@1.0.0', blue),
    { ...runner, dependencies: { playwright: '1.58.0' } },
    pinned('playwright@1.58.0', { 'index.js': LARGE }),
    // The same file in two packages is one file with two names in pnpm's store.
    pinned('nib@1.0.0', blue),
    pinned('paper@1.0.0', { 'index.js': '' }),
  ])
  for (const name of Object.keys(MANAGERS)) {
    const own = toolFolder(host.tools.folder, kindOf(name), name)
    mkdirSync(dirname(own), { recursive: true })
    symlinkSync((await realTool(kindOf(name), name)).folder, own)
  }
}, INSTALL_MS_MAX)
afterAll(() => registry.server.close())

const SHOP = { name: 'shop', private: true, dependencies: { pens: '1.0.0', nib: '1.0.0' } }

async function lockedProject(name: string, options = {}): Promise<string> {
  const [tool, major] = name.split('@')
  const more = tool === 'pnpm' ? { packageManager: `pnpm@${major}.0.0` } : {}
  const url = `http://${registry.server.authority}`
  const files = {
    'package.json': JSON.stringify({ ...SHOP, ...more, ...options }),
    '.npmrc': `registry=${url}/\n`,
    '.yarnrc.yml': `npmRegistryServer: ${url}\nunsafeHttpWhitelist: ['127.0.0.1']\n`,
  }
  const folder = suiteProject(files, false)
  await runManager(name, MANAGERS[name] ?? [], folder)
  for (const made of ['node_modules', '.yarn', '.pnp.cjs']) {
    rmSync(join(folder, made), { recursive: true, force: true })
  }
  return folder
}

const testCommand = `node -p "['got', require('pens'), require('nib')].join(' ')" >&2; exit 1`

describe.each(Object.keys(MANAGERS))('%s', (name) => {
  test('installs what is locked, once', async () => {
    const folder = await lockedProject(name)
    const first = await runFolder(host, folder, { testCommand })
    const second = await runFolder(host, folder, { testCommand })
    for (const run of [first, second]) {
      expect(run.failures[0]?.details?.['output']).toContain('got blue blue')
    }
    expect(first.observed).toMatchObject({ packages: 'installed' })
    expect(second.observed).toMatchObject({ packages: 'kept' })
  })

  test('refuses a project that has left its lock file behind', async () => {
    const folder = await lockedProject(name)
    const path = join(folder, 'package.json')
    writeFileSync(path, readFileSync(path, 'utf8').replace('"nib"', '"paper":"1.0.0","nib"'))
    const run = await runFolder(host, folder, { testCommand })
    expect(run.codes).toEqual(['INSTALL_FAILED'])
    const { message = '', details } = run.failures[0] ?? {}
    const { lockFile, fix } = details as { lockFile: string; fix: string }
    expect(message).toContain(`${lockFile} does not match package.json; run ${fix} in the project`)
    expect(existsSync(join(folder, lockFile))).toBe(true)
    const [program, ...args] = fix.split(' ')
    expect(name.startsWith(`${program}@`)).toBe(true)
    await runManager(name, args, folder)
    const again = await runFolder(host, folder, { testCommand })
    expect(again.failures[0]?.details?.['output']).toContain('got blue blue')
  })
})

test.each(['npm@11', 'pnpm@10', 'bun@1.3'])('code that Bun compiled is kept: %s', async (name) => {
  const folder = await lockedProject(name, { dependencies: { '@playwright/test': '1.58.0' } })
  const command = 'cd "$BUN_RUNTIME_TRANSPILER_CACHE_PATH" && echo has *.pile && exit 1'
  const options = { testCommand: command, engine: 'bun', engineVersion: '1.3' }
  await runFolder(host, folder, options)
  const { failures, observed } = await runFolder(host, folder, options)
  expect(observed).toMatchObject({ packages: 'kept' })
  expect(failures[0]?.details?.['output']).toMatch(/has \w+\.pile$/)
})
