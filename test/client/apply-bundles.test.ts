// Aim: a file with check suites is applied with their projects, or reported with its line and without effect.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createArtifactFolder } from '../../src/platform/artifacts/folder.ts'
import { bundleOperations } from '../../src/platform/code-bundles/routes.ts'
import { applyFile, applySettings } from '../support/client/apply-command.ts'
import { useDatabase } from '../support/database/database.ts'
import { type ApiClient, servePublicApi } from '../support/platform/public-api.ts'
import { makeLocation } from '../support/platform/named-locations.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const database = useDatabase()
const { api, addClient } = servePublicApi(database, () => {
  const store = createArtifactFolder(temporaryFolder())
  const { database: db } = database()
  return { operations: bundleOperations({ database: db, store, log: { warn: () => {} } }) }
})
let client: ApiClient
let folder: string
let written: string[]

beforeEach(async () => {
  client = await addClient()
  await makeLocation(client, 'berlin')
  folder = temporaryFolder()
  mkdirSync(join(folder, 'shop/tests'), { recursive: true })
  writeFileSync(join(folder, 'shop/package.json'), '{}')
  writeFileSync(join(folder, 'shop/tests/a.spec.ts'), 'test()')
  written = temporaries()
})
afterEach(() => {
  const left = temporaries().filter((name) => !written.includes(name))
  if (left.length > 0) throw new Error(`${left.join()} is left`)
})

const temporaries = () => readdirSync(tmpdir()).filter((name) => name.startsWith('vedette-apply-'))

const suites = (...paths: string[]) =>
  ['location: berlin', 'monitors:']
    .concat(paths.map((path, index) => suite(`Suite ${index}`, path)))
    .join('\n')
const suite = (name: string, path: string) =>
  `  - name: ${name}\n    type: PLAYWRIGHT\n    every: 10m\n    codeBundlePath: '${path}'`

async function apply(text: string, { planOnly = false, key = client.secret } = {}) {
  const path = join(folder, 'monitors.yaml')
  writeFileSync(path, text)
  return applyFile(path, { ...applySettings(api(), client), VEDETTE_API_KEY: key }, { planOnly })
}

const storedBundles = async () => {
  const { body } = await client.call('GET', '/v1/code-bundles')
  return body.entries as { sha256: string; checks: number; bytes: number }[]
}
const paths = async () => {
  const { body } = await client.call('GET', '/v1/checks')
  return (body as { codeBundlePath: string }[]).map((one) => one.codeBundlePath)
}

describe('the folder of a suite', () => {
  test('is shown by a plan, brought by an apply, and the same again is nothing', async () => {
    const text = suites('shop')
    const plan = await apply(text, { planOnly: true })
    expect(plan).toMatchObject({ code: 1, err: '' })
    expect(plan.out).toMatch(
      /^ {2}\+ bundle {3}shop: [0-9a-f]{12}, 2 files, \d+ B\n {2}\+ monitor {2}suite-0 \(Suite 0\)\n1 to create\n$/,
    )
    expect(await storedBundles()).toEqual([])
    expect(await apply(text)).toMatchObject({ code: 0, err: '', out: `${plan.out}applied\n` })
    const [one, ...more] = await storedBundles()
    expect([one?.checks, more]).toEqual([1, []])
    expect(await paths()).toEqual([`bundle:${one?.sha256}`])
    expect(await apply(text)).toMatchObject({ code: 0, err: '', out: '1 unchanged\n' })
    expect(await apply(text, { planOnly: true })).toMatchObject({ code: 0, out: '1 unchanged\n' })
    expect(await storedBundles()).toHaveLength(1)
  })

  test('names the engine that the project asks for, so that agents with it get the suite', async () => {
    writeFileSync(join(folder, 'shop/.nvmrc'), 'v24.3.0\n')
    mkdirSync(join(folder, 'plain'))
    writeFileSync(join(folder, 'plain/package.json'), '{"engines":{"bun":">=1.2"}}')
    const tar = join(folder, 'packed.tar.gz')
    execFileSync('tar', ['-czf', tar, '-C', join(folder, 'shop'), '.'])
    const named = `${suite('Named', 'shop')}\n    engine: node\n    engineVersion: '26'`
    const text = `${suites('shop', 'plain', 'packed.tar.gz')}\n${named}`
    expect(await apply(text)).toMatchObject({ code: 0, err: '' })
    const checks = (await client.call('GET', '/v1/checks')).body as Record<string, string>[]
    const engineOf = (one: Record<string, string>) => `${one['engine']} ${one['engineVersion']}`
    expect(Object.fromEntries(checks.map((one) => [one['name'], engineOf(one)]))).toEqual({
      Named: 'node 26',
      'Suite 0': 'node 24',
      'Suite 1': 'bun 1.3',
      'Suite 2': 'node 24',
    })
    expect(await apply(text)).toMatchObject({ code: 0, out: '4 unchanged\n' })
  })

  test('and one of the same content are one bundle; one that changes is another', async () => {
    cpSync(join(folder, 'shop'), join(folder, 'copy'), { recursive: true })
    const { out } = await apply(suites('shop', './shop/', 'copy'))
    expect(out.match(/\+ bundle/g)).toHaveLength(1)
    expect(await storedBundles()).toMatchObject([{ checks: 3 }])
    writeFileSync(join(folder, 'shop/tests/a.spec.ts'), 'test.only()')
    const changed = await apply(suites('shop', './shop/', 'copy'))
    expect(changed.out).toMatch(
      /\+ bundle .*\n( {2}~ monitor .*: codeBundlePath\n){2}2 to update, 1/,
    )
    expect((await storedBundles()).map(({ checks }) => checks)).toEqual([2, 1])
  })
})

test('a file that is packed already is brought as it is', async () => {
  execFileSync('tar', ['-czf', join(folder, 'built.tar.gz'), '-C', join(folder, 'shop'), '.'])
  const bytes = readFileSync(join(folder, 'built.tar.gz'))
  const { code, out } = await apply(suites('built.tar.gz'))
  expect(code).toBe(0)
  expect(out).toMatch(/\+ bundle {3}built\.tar\.gz: .{12}, \d+ B/)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  expect(await storedBundles()).toMatchObject([{ sha256, bytes: bytes.length }])
  // By its hash it needs no file any more.
  rmSync(join(folder, 'built.tar.gz'))
  expect(await apply(suites(`bundle:${sha256}`))).toMatchObject({ code: 0, out: '1 unchanged\n' })
})

describe('a problem is reported with its line, and nothing is changed', () => {
  test.each([
    ['an engine that there is not', 'odd', /\.bun-version: Bun 2 is not supported/],
    ['a folder that is not there', 'nowhere', /nowhere does not exist/],
    ['an empty folder', 'empty', /the folder .*empty is empty/],
    ['another file', 'shop/package.json', /must name the folder of a Playwright project/],
    ['a variable', '{{DIR}}', /must not contain variables|the variable DIR is not/],
    ['an unknown bundle', `bundle:${'a'.repeat(64)}`, /unknown code bundle a{64}/],
  ])('%s', async (_words, path, message) => {
    mkdirSync(join(folder, 'empty'))
    mkdirSync(join(folder, 'odd'))
    writeFileSync(join(folder, 'odd/.bun-version'), '2.0.0')
    const { code, err } = await apply(suites('shop', path))
    expect(code).toBe(2)
    expect(err).toMatch(/monitors\.yaml:\d+:\d+ {2}monitors\[1\]\.codeBundlePath/)
    expect(err).toMatch(message)
    expect(await paths()).toEqual([])
  })

  test('also by a key that may not', async () => {
    const { accountId } = client
    const reader = await addClient({ accountId, role: 'Read Only' })
    const { code, err } = await apply(suites('shop'), { key: reader.secret })
    expect(code).toBe(2)
    expect(err).toContain('use a key whose role allows it')
    expect(await storedBundles()).toEqual([])
  })
})
