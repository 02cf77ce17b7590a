// Packages come from a registry once, then from the cache, which no run can change.
import { execFile } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type NpmRegistry, startNpmRegistry } from '../../support/suites/npm-registry.ts'
import {
  type EndedSuite,
  runFolder,
  suiteHost,
  suiteProject,
} from '../../support/suites/suite-runs.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

let registry: NpmRegistry

beforeAll(async () => {
  registry = await startNpmRegistry([
    { name: 'pens', version: '1.0.0', files: { 'index.js': 'module.exports = "ink"\n' } },
    { name: 'scripted', version: '1.0.0', files: {}, postinstall: 'echo > index.js' },
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

/** A project with one package of the registry, locked; `isPlain`: the lock file says that it has no script. */
function locked(name: string, isPlain = false): string {
  const lock = registry.lockOf(name)
  return project({
    'package.json': JSON.stringify({ private: true, dependencies: { [name]: '1.0.0' } }),
    'package-lock.json': isPlain ? lock.replace(',"hasInstallScript":true', '') : lock,
  })
}

const entries = () => readdirSync(join(host.cacheFolder, 'packages')).length
/** What the command of the tests wrote to standard error. */
const outputOf = ({ failures }: EndedSuite) => failures[0]?.details?.['output']
// It says what it got, and then tries to spoil it for the next one.
const testCommand = `node -p "'got ' + require('pens')" >&2; (echo 'module.exports = "mud"' > node_modules/pens/index.js) 2>/dev/null; exit 1`
/** An installation of the package that needs no package manager. */
const INSTALL = `mkdir -p node_modules/pens && echo 'module.exports = "ink"' > node_modules/pens/index.js`

test('an installation shows whole lines while it runs: a part of a secret would not be scrubbed', async () => {
  const script = `process.stdout.write(Array.from({ length: 2e4 }, (_, at) => 'line ' + at + ' ends\\n').join(''))`
  const installCommand = `node -e "${script}"; exit 1`
  const { progress } = await runFolder(host, project(), { installCommand })
  const lines = progress.flatMap(({ line }) => (line === undefined ? [] : [line]))
  expect(lines.length).toBeGreaterThan(0)
  for (const line of lines) expect(line).toMatch(/^line \d+ ends$/)
})

describe('packages', () => {
  test('of a registry are installed once for all suites, and out of reach of runs', async () => {
    const folder = locked('pens')
    const first = await runFolder(host, folder, { id: 'one', testCommand })
    writeFileSync(join(folder, 'a.spec.ts'), '// new')
    const second = await runFolder(host, folder, { id: 'two', testCommand })
    expect([first, second].map((run) => run.observed['packages'])).toEqual(['installed', 'kept'])
    expect([first, second].map(outputOf)).toEqual(['got ink', 'got ink'])
    expect(entries()).toBe(1)
  })

  test('of an own command are those of one suite, copied where a run cannot come to them', async () => {
    const folder = project()
    const run = (id: string) =>
      runFolder(host, folder, { id, testCommand, installCommand: INSTALL })
    const runs = [await run('one'), await run('two')]
    chmodSync(host.cacheFolder, 0o700)
    runs.push(await run('one'))
    chmodSync(host.cacheFolder, 0o755)
    const how = runs.map(({ observed }) => observed['packages'])
    expect(how).toEqual(['installed', 'installed', 'kept'])
    expect(runs.map(outputOf)).toEqual(['got ink', 'got ink', 'got ink'])
  })

  test('that are shared hold nothing that a project brought', async () => {
    const folder = locked('pens')
    const settings = `; brought\n${readFileSync(join(folder, '.npmrc'), 'utf8')}`
    writeFileSync(join(folder, '.npmrc'), settings)
    mkdirSync(join(folder, 'shop/node_modules/pens'), { recursive: true })
    symlinkSync('shop', join(folder, 'node_modules'))
    const bundle = join(temporaryFolder(), 'shop.tar.gz')
    await promisify(execFile)('tar', ['-czf', bundle, '-C', folder, '.'])
    const first = await runFolder(host, bundle, { id: 'one', testCommand })
    expect(first.observed).toMatchObject({ packages: 'installed' })
    rmSync(join(folder, 'shop'), { recursive: true })
    const second = await runFolder(host, folder, { id: 'two', testCommand: `ls; ${testCommand}` })
    expect(second.observed).toMatchObject({ packages: 'kept' })
    expect(outputOf(second)).toBe('got ink')
    expect(second.observed['output']).not.toContain('shop')
  })

  test.each([
    ['those of one suite', false, 'loaded'],
    ['not if they are shared, whatever a lock file says', true, 'MODULE_NOT_FOUND'],
  ])('run their scripts: %s', async (_, isPlain, said) => {
    const command = `node -p "require('scripted'); 'loaded'" >&2; exit 1`
    const run = await runFolder(host, locked('scripted', isPlain), { testCommand: command })
    expect(outputOf(run)).toContain(said)
  })

  test('are a run’s own where the installation makes other files', async () => {
    const before = entries()
    const installCommand = `${INSTALL}; echo built > built.txt`
    const options = { installCommand, testCommand: `cat built.txt >&2; ${testCommand}` }
    const run = await runFolder(host, project({ 'built.txt': 'old\n' }), options)
    expect(outputOf(run)).toBe('built\ngot ink')
    expect(run.observed['notes']).toContainEqual(expect.stringContaining('created built.txt'))
    expect(entries()).toBe(before)
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
    readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')])

  const LINKS =
    'mkdir -p ../.vedette/node_modules/vedette && cd ../.vedette/node_modules/vedette && for one in suite-wrapping.cjs reporter.cjs; do ln -s {outside}/key $one; done'
  const AWAY = 'cd .. && mv shop own && ln -s {outside} shop'
  const ELSEWHERE = { testCommand: 'true -c elsewhere/playwright.config.ts' }
  const REPORT = { testCommand: 'ln -s {outside} ../.vedette/html' }
  const PIPE = 'rm package.json && mkfifo package.json && touch playwright.config.ts'

  /** `{outside}` is the folder of those files. */
  test.each<[string, installCommand: string, code: string, more?: Record<string, string>]>([
    ['links in the place of our own files', LINKS, 'NO_TESTS'],
    ['a link to our folder', 'rm -rf ../.vedette && ln -s {outside} ../.vedette', 'NO_TESTS'],
    ['a link to it all', 'cd .. && mv project own && ln -s {outside} project', 'INSTALL_FAILED'],
    ['a link to the working folder', AWAY, 'BUNDLE_INVALID', { workingDir: 'shop' }],
    ['a configuration below a link', 'ln -s {outside} elsewhere', 'NO_TESTS', ELSEWHERE],
    ['a pipe in the place of a file that is read', PIPE, 'NO_TESTS'],
    ['a link to the report', 'true', 'NO_TESTS', REPORT],
  ])('%s', async (_, installCommand, code, more = {}) => {
    const outside = precious()
    const before = contents(outside)
    const options = JSON.stringify({ testCommand: 'true', installCommand, ...more })
    const folder = project({ 'shop/a.spec.ts': '', 'a.spec.ts': '' })
    const given = JSON.parse(options.replaceAll('{outside}', outside)) as Record<string, string>
    const run = await runFolder(host, folder, given)
    expect(contents(outside)).toEqual(before)
    expect(run.codes).toEqual([code])
    expect(Object.keys(run.files)).not.toContain('playwright-report.zip')
  })
})
