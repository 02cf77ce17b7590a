// Aim: the cache stays within its bounds: what nobody uses any more goes, and nothing that may be in use.
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { TreeCache } from '../../src/scripts/tree-cache.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const HOUR_MS = 3_600_000
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
  const cache = new TreeCache(root, 100)
  for (const digit of ['a', 'b', 'c']) await cache.store(key(digit), fill(60))
  expect(readdirSync(root)).toHaveLength(3)
  used(root, key('a'), 9 * HOUR_MS)
  used(root, key('b'), 8 * HOUR_MS)
  await cache.makeRoom()
  expect(readdirSync(root)).toEqual([key('c')])
})

test('removes what is too old, and what a killed agent has begun', async () => {
  const root = join(temporaryFolder(), 'cache')
  const cache = new TreeCache(root, 100)
  await cache.store(key('a'), fill(1))
  used(root, key('a'), 31 * 24 * HOUR_MS)
  mkdirSync(join(root, '.draft-+1'))
  await cache.makeRoom()
  expect(readdirSync(root)).toEqual([])
})

test('keeps the first of two that are made at the same time, and nothing larger than itself', async () => {
  const root = join(temporaryFolder(), 'cache')
  const cache = new TreeCache(root, 100)
  const both = await Promise.all([cache.store(key('a'), fill(10)), cache.store(key('a'), fill(10))])
  expect(both.map((one) => existsSync(one?.folder ?? ''))).toEqual([true, true])
  expect(await cache.store(key('b'), fill(101))).toBeUndefined()
  expect(readdirSync(root)).toEqual([key('a')])
})
