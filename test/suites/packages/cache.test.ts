// Suites share packages only where a lock file of npm alone decides on them.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { packagesKey } from '../../../src/suites/packages/cache.ts'
import { packagesOf } from '../../../src/suites/packages/package-manager.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

interface Case {
  files?: Record<string, string>
  variables?: Record<string, string>
  owner?: string
  isOwnCommand?: boolean
  workingDir?: string
}

const TARBALL = 'https://registry.npmjs.org/a/-/a-1.0.0.tgz'
const FROM_REGISTRY = { resolved: TARBALL, integrity: 'sha512-a' }
const SCRIPTED = { ...FROM_REGISTRY, hasInstallScript: true }
const lockOf = (...packages: object[]) =>
  JSON.stringify({
    lockfileVersion: 3,
    packages: {
      '': { name: 'shop' },
      ...Object.fromEntries(packages.map((one, at) => [`node_modules/p${at}`, one])),
    },
  })
const PLAIN = { 'package.json': '{"private":true}', 'package-lock.json': lockOf(FROM_REGISTRY) }

async function keyOf(one: Case = {}) {
  const { files = {}, variables = {}, owner = 'one', isOwnCommand = false, workingDir = '.' } = one
  const folder = temporaryFolder()
  for (const [path, text] of Object.entries({ ...PLAIN, 'a.spec.ts': '1', ...files })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  const packages = await packagesOf([join(folder, workingDir), folder])
  const about = { folder, packages, installCommand: 'npm ci', engine: 'node@24' }
  return packagesKey({ ...about, isOwnCommand, workingDir, owner, variables })
}

const withLock = (...packages: object[]): Case => ({
  files: { 'package-lock.json': lockOf(...packages) },
})
const withManifest = (more: object): Case => ({ files: { 'package.json': JSON.stringify(more) } })

const REGISTRIES = '; ours\n@a:registry=http://a/\n//a/:_authToken=b'

describe('suites share', () => {
  test.each<[string, Case]>([
    ['packages of a registry', {}],
    ['settings that name registries', { files: { '.npmrc': REGISTRIES } }],
    ['a script for another system', withLock({ ...SCRIPTED, os: ['darwin'] })],
    ['scripts that installing does not run', withManifest({ scripts: { test: 'playwright' } })],
    ['variables that npm does not know', { variables: { SHOP: 'http://a' } }],
  ])('%s', async (_, one) => {
    const { key, files } = await keyOf(one)
    expect(files).toBeUndefined()
    const other = { ...one, owner: 'two', files: { ...one.files, 'a.spec.ts': '2' } }
    expect((await keyOf(other)).key).toBe(key)
  })

  test.each<[string, Case]>([
    ['lock file', withLock(FROM_REGISTRY, FROM_REGISTRY)],
    ['manifest', withManifest({ dependencies: { a: '1.0.0' } })],
    ['setting', { files: { '.npmrc': 'registry=http://a/' } }],
  ])('not with another %s', async (_, one) => {
    expect((await keyOf(one)).key).not.toBe((await keyOf()).key)
  })
})

describe('a suite has for itself', () => {
  test.each<[string, Case]>([
    ['its own command', { isOwnCommand: true }],
    ['packages without a lock file', { files: { 'package-lock.json': 'none' } }],
    ['a lock file that npm 6 wrote', { files: { 'package-lock.json': '{"dependencies":{}}' } }],
    ['a lock file of another manager', { files: { 'yarn.lock': '', 'package-lock.json': '' } }],
    ['a lock file below', { workingDir: 'e2e', files: { 'e2e/package-lock.json': lockOf() } }],
    ['a life-cycle script', withManifest({ scripts: { postinstall: 'node build.js' } })],
    ['a manifest that cannot be read', { files: { 'package.json': '' } }],
    ['a manifest of other JSON', { files: { 'package.json': '{"scripts":null}' } }],
    ['a lock file of other JSON', { files: { 'package-lock.json': '{"packages":{"a":null}}' } }],
    ['a package with a script', withLock(SCRIPTED)],
    ['one for all systems but one', withLock({ ...SCRIPTED, os: ['!win32'] })],
    ['a package of a workspace', withLock({ resolved: 'parts/a', link: true })],
    ['a package in the project', withLock({ ...FROM_REGISTRY, resolved: 'file:a.tgz' })],
    ['a package without a hash', withLock({ resolved: FROM_REGISTRY.resolved })],
    ['a package of Git', withLock({ ...FROM_REGISTRY, resolved: 'git+ssh://git@a/b.git#c' })],
    ['a setting that names a program', { files: { '.npmrc': 'script-shell=./sh\n' } }],
    ['a setting with a variable', { files: { '.npmrc': 'registry=${WHERE}' } }],
    ['a variable of npm', { variables: { npm_config_omit: 'dev' } }],
    ['a variable of Node.js', { variables: { NODE_OPTIONS: '--require ./setup.cjs' } }],
    ['a proxy', { variables: { https_proxy: 'http://a' } }],
  ])('%s', async (_, one) => {
    const { key, files } = await keyOf(one)
    expect(files?.size).toBeGreaterThan(0)
    expect((await keyOf(one)).key).toBe(key)
    for (const other of [
      { ...one, owner: 'two' },
      { ...one, files: { ...one.files, 'build.js': '' } },
      { ...one, variables: { ...one.variables, SHOP: 'a' } },
    ]) {
      expect((await keyOf(other)).key).not.toBe(key)
    }
  })
})
