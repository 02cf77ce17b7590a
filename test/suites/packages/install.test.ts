// Aim: packages come from a registry once, and from the cache after that; a run can change what it got, and never
// the cache; what decides on packages makes another entry, and what nobody uses any more goes.
import { execFile } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TreeCache } from '../../../src/scripts/tree-cache.ts'
import { suiteCommand, argumentsOf } from '../../../src/suites/command.ts'
import { type NpmRegistry, startNpmRegistry } from '../../support/suites/npm-registry.ts'
import { runFolder, suiteHost, suiteProject } from '../../support/suites/suite-runs.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

let registry: NpmRegistry

beforeAll(async () => {
  registry = await startNpmRegistry([
    { name: 'pens', version: '1.0.0', files: { 'index.js': 'module.exports = "ink"\n' } },
    { name: 'scripted', version: '1.0.0', files: {}, postinstall: 'echo > index.js' },
    {
      name: 'builder',
      version: '1.0.0',
      files: {},
      postinstall:
        'cd "$INIT_CWD"; echo built > built.txt; [ -e config.txt ] || echo default > config.txt',
    },
  ])
})
afterAll(() => registry.server.close())

const host = suiteHost()

function project(more: Record<string, string> = {}): string {
  return suiteProject(
    {
      'package.json': JSON.stringify({ private: true, dependencies: { pens: '1.0.0' } }),
      '.npmrc': `registry=http://${registry.server.authority}/\n`,
      ...more,
    },
    false,
  )
}

const LOADS = { testCommand: `node -p "require('scripted'); 'loaded'" >&2; exit 1` }

async function lockedProject(name: string): Promise<string> {
  const manifest = { private: true, dependencies: { [name]: '1.0.0' } }
  const folder = project({ 'package.json': JSON.stringify(manifest) })
  const npm = promisify(execFile)
  await npm('npm', ['install', '--package-lock-only'], { cwd: folder, env: registry.env })
  return folder
}

const entries = () => readdirSync(join(host.cacheFolder, 'packages'))
// It says what it got, and then tries to spoil it for the next one.
const testCommand = `node -p "'got ' + require('pens')" >&2; echo 'module.exports = "mud"' > node_modules/pens/index.js; exit 1`

describe('packages', () => {
  test('without scripts are installed once for all suites, and out of reach of runs', async () => {
    const folder = await lockedProject('pens')
    const first = await runFolder(host, folder, { id: 'one', testCommand })
    expect(first.observed).toMatchObject({ packages: 'installed' })
    writeFileSync(join(folder, 'a.spec.ts'), '// new')
    const second = await runFolder(host, folder, { id: 'two', testCommand })
    expect(second.observed).toMatchObject({ packages: 'kept' })
    for (const run of [first, second]) {
      expect(run.failures[0]?.details?.['output']).toContain('got ink')
    }
    expect(entries()).toHaveLength(1)
  })

  test('of another command, engine or owner’s script are others', async () => {
    const before = entries().length
    const scripts = { postinstall: 'echo hello' }
    const manifest = { private: true, dependencies: { pens: '1.0.0' }, scripts }
    const folder = project({ 'package.json': JSON.stringify(manifest) })
    await runFolder(host, folder, { id: 'one', testCommand })
    await runFolder(host, folder, { id: 'two', testCommand })
    expect(entries()).toHaveLength(before + 2)
  })

  test('with scripts are those of one suite, and of its project as it is', async () => {
    const folder = await lockedProject('scripted')
    const run = async (id: string) => (await runFolder(host, folder, { id, ...LOADS })).observed
    expect(await run('one')).toMatchObject({ packages: 'installed' })
    expect(await run('one')).toMatchObject({ packages: 'kept' })
    expect(await run('two')).toMatchObject({ packages: 'installed' })
    writeFileSync(join(folder, 'schema.txt'), '')
    expect(await run('one')).toMatchObject({ packages: 'installed' })
  })

  test('that are shared hold nothing that a project brought', async () => {
    const folder = await lockedProject('pens')
    const settings = `; brought\n${readFileSync(join(folder, '.npmrc'), 'utf8')}`
    writeFileSync(join(folder, '.npmrc'), settings)
    mkdirSync(join(folder, 'shop/node_modules/pens'), { recursive: true })
    symlinkSync('shop', join(folder, 'node_modules'))
    const bundle = join(temporaryFolder(), 'shop.tar.gz')
    await promisify(execFile)('tar', ['-czf', bundle, '-C', folder, '.'])
    const first = await runFolder(host, bundle, { id: 'one', testCommand })
    expect(first.observed).toMatchObject({ packages: 'installed' })
    rmSync(join(folder, 'shop'), { recursive: true })
    const options = { id: 'two', testCommand: `ls; ${testCommand}` }
    const { observed, failures } = await runFolder(host, folder, options)
    expect(observed).toMatchObject({ packages: 'kept' })
    expect(failures[0]?.details?.['output']).toMatch(/got ink/)
    expect(observed['output']).not.toContain('shop')
  })

  test('that are shared run no script, whatever a lock file says', async () => {
    const folder = await lockedProject('scripted')
    const path = join(folder, 'package-lock.json')
    writeFileSync(path, readFileSync(path, 'utf8').replace(/,\s*"hasInstallScript": true/, ''))
    const run = await runFolder(host, folder, LOADS)
    expect(run.failures[0]?.details?.['output']).toContain('MODULE_NOT_FOUND')
  })

  test('are a run’s own where one of them makes other files', async () => {
    const before = entries().length
    const manifest = { private: true, dependencies: { builder: '1.0.0', pens: '1.0.0' } }
    const text = JSON.stringify(manifest)
    const own = { 'built.txt': 'old\n', 'config.txt': 'own\n' }
    const print = `cat built.txt config.txt >&2; ${testCommand}`
    for (const [files, config] of [
      [own, 'own'],
      [{}, 'default'],
    ] as const) {
      const folder = project({ 'package.json': text, ...files })
      const run = await runFolder(host, folder, { testCommand: print })
      expect(run.failures[0]?.details?.['output']).toContain(`built\n${config}\ngot ink`)
      expect(run.observed['notes']).toContainEqual(expect.stringContaining('has also made'))
    }
    expect(entries()).toHaveLength(before)
  })

  test('are not kept when the installation makes more than packages', async () => {
    const before = entries().length
    const installCommand = 'npm install --no-audit --no-fund && echo built > built.txt'
    const run = await runFolder(host, project(), { installCommand, testCommand })
    expect(run.observed['notes']).toContainEqual(expect.stringContaining('built.txt'))
    expect(entries()).toHaveLength(before)
  })

  test('are copied to runs that cannot come to where they are kept', async () => {
    const folder = project()
    await runFolder(host, folder, { testCommand })
    chmodSync(host.cacheFolder, 0o700)
    const run = await runFolder(host, folder, { testCommand })
    chmodSync(host.cacheFolder, 0o755)
    expect(run.observed).toMatchObject({ packages: 'kept' })
    expect(run.failures[0]?.details?.['output']).toContain('got ink')
  })

  test('that the registry does not have are a failure of the installation', async () => {
    const manifest = { private: true, dependencies: { nothing: '1.0.0' } }
    const run = await runFolder(host, project({ 'package.json': JSON.stringify(manifest) }))
    expect(run.codes).toEqual(['INSTALL_FAILED'])
    expect(run.failures[0]?.message).toMatch(/^npm install .*404/)
  })
})

describe('what an installation leaves in the run’s folder leads the agent nowhere:', () => {
  /** Files that the run itself may not touch. */
  function precious(): string {
    const folder = temporaryFolder()
    for (const name of ['playwright.config.ts', 'index.html', 'key']) {
      writeFileSync(join(folder, name), 'precious', { mode: 0o600 })
    }
    return folder
  }
  const contents = (folder: string) =>
    Object.fromEntries(readdirSync(folder).map((name) => [name, textOf(join(folder, name))]))
  const textOf = (path: string) => readFileSync(path, 'utf8')

  /** `{outside}` is the folder of those files. */
  test.each<[string, installCommand: string, code: string, more?: Record<string, string>]>([
    [
      'links in the place of our own files',
      'mkdir -p ../.vedette && cd ../.vedette && for one in wrapping.cjs reporter.cjs; do ln -s {outside}/key $one; done',
      'NO_TESTS',
    ],
    [
      'a link in the place of our folder',
      'rm -rf ../.vedette && ln -s {outside} ../.vedette',
      'NO_TESTS',
    ],
    [
      'a link in the place of the project',
      'cd .. && mv project own && ln -s {outside} project',
      'INSTALL_FAILED',
    ],
    [
      'a link in the place of the working folder',
      'cd .. && mv shop own && ln -s {outside} shop',
      'BUNDLE_INVALID',
      { workingDir: 'shop' },
    ],
    [
      'a configuration below a link',
      'ln -s {outside} elsewhere',
      'NO_TESTS',
      { testCommand: 'true -c elsewhere/playwright.config.ts' },
    ],
    [
      'a pipe in the place of a file that is read',
      'rm package.json && mkfifo package.json && touch playwright.config.ts',
      'NO_TESTS',
    ],
    [
      'a link in the place of the report',
      'true',
      'NO_TESTS',
      { testCommand: 'ln -s {outside} ../.vedette/html' },
    ],
  ])('%s', async (_, installCommand, code, more = {}) => {
    const outside = precious()
    const before = contents(outside)
    const options = Object.entries({ testCommand: 'true', installCommand, ...more }).map(
      ([name, text]) => [name, text.replaceAll('{outside}', outside)],
    )
    const folder = project({ 'shop/a.spec.ts': '', 'a.spec.ts': '' })
    const run = await runFolder(host, folder, Object.fromEntries(options))
    expect(contents(outside)).toEqual(before)
    expect(run.codes).toEqual([code])
    expect(Object.keys(run.files)).not.toContain('playwright-report.zip')
  })
})

describe('the cache', () => {
  const bounds = { bytesMax: 100, ageMsMax: 86_400_000, inUseMs: 60_000 }
  const key = (digit: string) => digit.repeat(64)
  const fill = (bytes: number) => (folder: string) => {
    writeFileSync(join(folder, 'file'), 'x'.repeat(bytes))
    return Promise.resolve({ bytes, about: {} })
  }
  const used = (root: string, name: string, agoMs: number) => {
    const at = new Date(Date.now() - agoMs)
    utimesSync(join(root, name, 'entry.json'), at, at)
  }

  test('removes what was not used the longest, and nothing that may be in use', async () => {
    const root = join(temporaryFolder(), 'cache')
    const cache = new TreeCache(root, bounds)
    for (const digit of ['a', 'b', 'c']) await cache.store(key(digit), fill(60))
    expect(readdirSync(root)).toHaveLength(3)
    used(root, key('a'), 300_000)
    used(root, key('b'), 200_000)
    await cache.makeRoom()
    expect(readdirSync(root)).toEqual([key('c')])
  })

  test('removes what is too old, and what a killed agent has begun', async () => {
    const root = join(temporaryFolder(), 'cache')
    const cache = new TreeCache(root, bounds)
    await cache.store(key('a'), fill(1))
    used(root, key('a'), 2 * 86_400_000)
    mkdirSync(join(root, '.draft-+1'))
    await cache.makeRoom()
    expect(readdirSync(root)).toEqual([])
  })

  test('keeps the first of two that are made at the same time, and nothing larger than itself', async () => {
    const root = join(temporaryFolder(), 'cache')
    const cache = new TreeCache(root, bounds)
    const both = await Promise.all([
      cache.store(key('a'), fill(10)),
      cache.store(key('a'), fill(10)),
    ])
    expect(both.map((one) => existsSync(one?.folder ?? ''))).toEqual([true, true])
    expect(await cache.store(key('b'), fill(101))).toBeUndefined()
    expect(readdirSync(root)).toEqual([key('a')])
  })
})

const started = (command: string) =>
  suiteCommand(command, { name: 'node@24', program: '/node', folder: '/', missing: [] }, '/cli.js')

test.each<[string, string[]]>([
  ['npx playwright test', []],
  [`npx playwright test --grep "@smoke" -c 'a b.ts'`, ['--grep', '@smoke', '-c', 'a b.ts']],
  ['playwright test a.spec.ts', ['a.spec.ts']],
])('%s is started on the engine itself', (command, expected) => {
  const args = ['/cli.js', 'test', ...expected]
  expect(started(command)).toMatchObject({ command: '/node', args, ask: { to: 'leader' } })
})

test.each([
  'npx playwright test | tee log',
  'npx playwright test $X',
  'npx playwright tests',
  'npm run e2e',
])('%s needs a shell, which all are asked to end with', (command) => {
  expect(started(command)).toMatchObject({ command: '/bin/sh', ask: { to: 'group' } })
})

test('a command line that needs a shell has no arguments', () => {
  expect(argumentsOf('a "b c"d')).toEqual(['a', 'b cd'])
  expect(argumentsOf('a `b`')).toBeUndefined()
  expect(argumentsOf('"open')).toBeUndefined()
})
