// Engines and runtimes are installed whole or not at all; failures are reported with their fix.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { installTool, type ToolOrder } from '../../src/scripts/tool-install.ts'
import {
  INSTALLED_FILE,
  openToolchains,
  runsCacheFolder,
  toolsFolder,
} from '../../src/scripts/toolchains.ts'
import { ENGINES, RUNTIMES } from '../../src/contract/runtimes.ts'
import { type NpmRegistry, pinned, startNpmRegistry } from '../support/suites/npm-registry.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const arch = process.arch === 'arm64' ? 'arm64' : 'x64'
const engine = (name: string) => ENGINES.get(name)?.[arch] ?? ''
const runtime = RUNTIMES.get('2024.09')
const LEFT_OUT = Object.keys(runtime?.optionalPackages ?? {})[0] ?? ''

let registry: NpmRegistry
let stalled: NpmRegistry

beforeAll(async () => {
  const program = { 'bin/node': '#!/bin/sh\necho here\n', 'include/node.h': 'long' }
  registry = await startNpmRegistry([
    pinned(engine('node@24'), program),
    pinned(engine('node@22'), { 'README.md': 'no program in here' }),
    pinned(runtime?.nodePackages[arch] ?? '', program),
    ...Object.entries({ ...runtime?.packages, ...runtime?.optionalPackages })
      .filter(([name]) => name !== LEFT_OUT)
      .map(([name, version]) => pinned(`${name}@${version}`)),
  ])
  stalled = await startNpmRegistry([], { stall: true })
})

afterAll(async () => {
  await registry.server.close()
  await stalled.server.close()
})

function order(changes: Partial<ToolOrder>): ToolOrder {
  const { signal } = new AbortController()
  const folder = temporaryFolder()
  return { kind: 'engine', name: 'node@24', folder, env: registry.env, signal, ...changes }
}

describe('an engine', () => {
  test('is found after it was installed, without the headers that nobody needs', async () => {
    const one = order({})
    expect(await installTool(one)).toMatchObject({ tool: { name: 'node@24', missing: [] } })
    const toolchains = openToolchains(one.folder)
    expect(await toolchains.installed('engine')).toEqual(['node@24'])
    const tool = await toolchains.find('engine', 'node@24')
    expect(existsSync(tool?.program ?? '')).toBe(true)
    expect(existsSync(join(tool?.program ?? '', '../../include'))).toBe(false)
    expect(readdirSync(join(one.folder, 'engines'))).toEqual(['node@24'])
  })

  test('is installed anew over a broken one, without what a killed installation began', async () => {
    const one = order({})
    mkdirSync(join(one.folder, 'engines/node@24.draft-1'), { recursive: true })
    mkdirSync(join(one.folder, 'engines/node@24'), { recursive: true })
    writeFileSync(join(one.folder, 'engines/node@24', INSTALLED_FILE), '{')
    expect(await openToolchains(one.folder).find('engine', 'node@24')).toBeUndefined()
    expect(await installTool(one)).toHaveProperty('tool')
    expect(await openToolchains(one.folder).installed('engine')).toEqual(['node@24'])
    expect(readdirSync(join(one.folder, 'engines'))).toEqual(['node@24'])
  })
})

test('a runtime is installed with what the registry has, and reports what is missing', async () => {
  const one = order({ kind: 'runtime', name: '2024.09' })
  expect(await installTool(one)).toMatchObject({ tool: { missing: [LEFT_OUT] } })
  const tool = await openToolchains(one.folder).find('runtime', '2024.09')
  expect(existsSync(join(tool?.folder ?? '', 'node_modules/@playwright/test'))).toBe(true)
  expect(existsSync(tool?.program ?? '')).toBe(true)
})

const REFUSALS: [sentence: string, () => Partial<ToolOrder>, says: RegExp][] = [
  ['a name that is none', () => ({ name: 'node@23' }), /"node@23"; known are node@22/],
  ['an unknown package', () => ({ name: 'node@26' }), /npm failed [\s\S]*No matching version/],
  ['a package without its program', () => ({ name: 'node@22' }), /node_modules\/engine\/bin/],
  ['no npm', () => ({ env: { PATH: '/nowhere' } }), /npm was not found in PATH/],
  ['a registry that is silent', () => ({ env: stalled.env, timeoutMs: 300 }), /did not end within/],
  ['a folder that cannot be', () => ({ folder: '/dev/null/tools' }), /cannot be written/],
]

test.each(REFUSALS)('%s is reported, and leaves nothing', async (_, changes, says) => {
  const one = order(changes())
  const outcome = await installTool(one)
  expect('problem' in outcome ? outcome.problem : 'installed').toMatch(says)
  expect(await openToolchains(one.folder).installed('engine')).toEqual([])
  const engines = join(one.folder, 'engines')
  expect(existsSync(engines) ? readdirSync(engines) : []).toEqual([])
})

test('an interrupted installation ends at once and leaves nothing', async () => {
  const stop = new AbortController()
  const one = order({ env: stalled.env, signal: stop.signal })
  const asked = stalled.server.connection()
  const outcome = installTool(one)
  await asked
  stop.abort(new Error('enough'))
  await expect(outcome).rejects.toThrow('enough')
  expect(readdirSync(join(one.folder, 'engines'))).toEqual([])
})

test('nothing of the agent’s environment reaches npm but what npm needs', async () => {
  const seen = temporaryFolder()
  writeFileSync(join(seen, 'npm'), `#!/bin/sh\nenv > ${seen}/env\nexit 1\n`, { mode: 0o755 })
  const env = { PATH: `${seen}:/usr/bin:/bin`, API_KEY: 'pl_secret', MY_TOKEN: 'x', HOME: seen }
  await installTool(order({ env }))
  const text = readFileSync(join(seen, 'env'), 'utf8')
  expect(text).toMatch(/^HOME=/m)
  expect(text).not.toMatch(/pl_secret|MY_TOKEN/)
})

test('tools are where a setting says, and what is kept with the data, as tools may be in an image', () => {
  expect(toolsFolder('/t', '/d', {})).toBe('/t')
  expect(toolsFolder(undefined, '/d', {})).toBe('/d/tools')
  expect(toolsFolder(undefined, undefined, { XDG_CACHE_HOME: '/c' })).toBe('/c/vedette/tools')
  expect(runsCacheFolder('/d', '/t')).toBe('/d/cache')
  expect(runsCacheFolder(undefined, '/t')).toBe('/t/cache')
})

test('a name never leads out of the toolchains', async () => {
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'evil'))
  writeFileSync(join(folder, 'evil', INSTALLED_FILE), '{"program":"x","missing":[]}')
  expect(await openToolchains(folder).find('engine', '../evil')).toBeUndefined()
})
