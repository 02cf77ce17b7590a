// Aim: links of a folder are evaluated by where they really lead in the copy, however they read.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { leadsOut } from '../../../src/sandbox/trees.ts'
import { copyTree } from '../../../src/suites/packages/copy-tree.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const WITHOUT = new Set(['node_modules'])

/** The links that lead out of a folder with these links, where `a/b/c/file` and `node_modules/x` are. */
async function outward(links: Record<string, string>): Promise<string[]> {
  const root = temporaryFolder()
  const from = join(root, 'from')
  for (const path of ['a/b/c/file', 'node_modules/x']) {
    mkdirSync(dirname(join(from, path)), { recursive: true })
    writeFileSync(join(from, path), '')
  }
  for (const [path, target] of Object.entries(links)) symlinkSync(target, join(from, path))
  const signal = new AbortController().signal
  const bounds = { bytesMax: 1000, filesMax: 100, signal }
  const to = join(root, 'to')
  const copied = await copyTree({ from, to, without: (name) => WITHOUT.has(name), ...bounds })
  const found: string[] = []
  for (const link of copied.toSorted()) if (await leadsOut(to, link)) found.push(link)
  return found
}

test.for<[string, Record<string, string>, string[]]>([
  ['one that stays', { 'a/up': '../a/b', 'a/b/c/own': './file', root: '.' }, []],
  ['one that climbs out', { 'a/out': '../../elsewhere' }, ['a/out']],
  ['an absolute one', { abs: '/etc/passwd' }, ['abs']],
  ['one that leaves through another', { 'a/up': '..', 'a/out': 'up/../x' }, ['a/out']],
  ['one that reads like leaving', { d: 'a/b/c', in: 'd/../../b', far: 'd/../../../a' }, []],
  ['a chain that leaves', { one: 'two', two: 'three/../..', three: 'a' }, ['one', 'two']],
  ['a chain through an absolute one', { one: 'two/x', two: '/tmp' }, ['one', 'two']],
  ['one into what stays behind', { tool: 'node_modules/.bin/../x' }, []],
  ['one that leaves through what stays behind', { tool: 'node_modules/../../x' }, ['tool']],
  ['a circle', { one: 'two', two: 'one/..' }, []],
])('%s', async ([, links, expected]) => {
  expect(await outward(links)).toEqual(expected)
})
