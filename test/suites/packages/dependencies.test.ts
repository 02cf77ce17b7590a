// Aim: whatever decides on the packages of a project makes another key, so that nobody gets packages that are stale
// or somebody else's; what has no say in them, such as a test, does not.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { packagesPlan } from '../../../src/suites/packages/packages-plan.ts'
import { packagesOf } from '../../../src/suites/packages/packages.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

interface Case {
  files?: Record<string, string>
  environment?: Record<string, string>
  owner?: string
}

const PLAIN = { 'package.json': '{"private":true}', 'package-lock.json': '{}', 'a.spec.ts': '1' }
const withManifest = (more: object) => ({ 'package.json': JSON.stringify(more) })

const keyOf = async (one: Case) => (await planOf(one)).key

async function planOf({ files = {}, environment = {}, owner = 'one' }: Case) {
  const folder = temporaryFolder()
  for (const [path, text] of Object.entries({ ...PLAIN, ...files })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return packagesPlan({
    folder,
    packages: await packagesOf([folder]),
    installCommand: 'npm ci',
    workingDir: '.',
    engine: 'node@24',
    owner,
    isOwnCommand: false,
    environment,
  })
}

const OWN: [what: string, files: Record<string, string>][] = [
  ['a life-cycle script', withManifest({ scripts: { postinstall: 'node build.js' } })],
  ['packages of a workspace', withManifest({ workspaces: ['parts/*'] })],
  ['a package in the project', withManifest({ dependencies: { a: 'file:./a' } })],
  ['patches', withManifest({ pnpm: { patchedDependencies: { 'a@1': 'patches/a' } } })],
  ['the project’s own yarn', { '.yarnrc.yml': 'yarnPath: .yarn/releases/yarn.cjs\n' }],
  ['a shell of its own', { '.npmrc': 'script-shell=./sh\n' }],
  ['packages by path', withManifest({ dependencies: { a: './parts/a' } })],
  ['a packed package', withManifest({ resolutions: { a: 'parts/a.tgz' } })],
  ['a lock file that names one', { 'package-lock.json': '{"resolved": "file:parts/a.tgz"}' }],
  ['certificates', { '.npmrc': 'cafile=certificates/own.pem\n', 'certificates/own.pem': '1' }],
  ['what packages make code of', { 'prisma/schema.prisma': 'model A {}' }],
  ['a hook of pnpm', { '.pnpmfile.mjs': 'export const hooks = {}\n' }],
]

describe('the project’s own files take part by', () => {
  test.each(OWN)('%s', async (_, files) => {
    const key = await keyOf({ files })
    expect(await keyOf({ files })).toBe(key)
    expect(await keyOf({ files: { ...files, 'build.js': 'other' } })).not.toBe(key)
    expect(await keyOf({ files, owner: 'two' })).not.toBe(key)
  })
})

test.each([
  ['--require ./setup.cjs', false],
  ['--max-old-space-size=512', true],
])('and by variables that name one of them: %s', async (NODE_OPTIONS, isShared) => {
  const files = { 'setup.cjs': '' }
  const plan = await planOf({ files, environment: { NODE_OPTIONS } })
  expect(plan.files !== undefined).toBe(isShared)
})

describe('where they do not,', () => {
  test('the plan has the files that decide, and the variables, alone', async () => {
    const { files, environment } = await planOf({
      files: { '.npmrc': 'token=${WHERE}', 'shop/.npmrc': 'cache=.', 'yarn.lock.md': '' },
      environment: { WHERE: 'a', npm_config_omit: 'dev', HOME: '/tmp', SHOP: 'b' },
    })
    expect([...(files?.keys() ?? [])].sort()).toEqual([
      '.npmrc',
      'package-lock.json',
      'package.json',
    ])
    expect(environment).toEqual({ WHERE: 'a', npm_config_omit: 'dev' })
  })

  test.each<[what: string, lock: string]>([
    ['the project itself', '"shop@workspace:.":\n  version: 0.0.0-use.local'],
    ['Yarn’s own patches', '"fsevents@patch:fsevents@2.3.2#optional!builtin<compat/fsevents>":'],
    ['packages of such names', 'vfile@^4.0.0:\n  dependencies:\n    profile: ^1.0.0'],
  ])('a lock file of yarn may name %s', async (_, text) => {
    const files = { 'yarn.lock': text }
    expect((await planOf({ files })).files).toBeDefined()
  })

  test('tests and owners have no say', async () => {
    const key = await keyOf({})
    expect(await keyOf({ files: { 'a.spec.ts': '2' }, owner: 'two' })).toBe(key)
  })

  test.each<[what: string, one: Case, other: Case]>([
    ['lock file', {}, { files: { 'package-lock.json': '{"a":1}' } }],
    ['a variable of npm', {}, { environment: { npm_config_omit: 'dev' } }],
    ['a variable of Node.js', {}, { environment: { NODE_OPTIONS: '--require ./a.js' } }],
    [
      'a variable that settings mention',
      { files: { '.npmrc': 'registry=${WHERE}' }, environment: { WHERE: 'http://a' } },
      { files: { '.npmrc': 'registry=${WHERE}' }, environment: { WHERE: 'http://b' } },
    ],
  ])('%s decides', async (_, one, other) => {
    expect(await keyOf(other)).not.toBe(await keyOf(one))
  })

  test('other variables do not', async () => {
    expect(await keyOf({ environment: { SHOP: 'http://a' } })).toBe(await keyOf({}))
  })
})
