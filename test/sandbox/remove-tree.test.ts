// Aim: all that is in a folder is removed, nothing outside of it is, and handing it over changes only it.
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { giveTree } from '../../src/sandbox/trees.ts'
import { removeTree } from '../../src/sandbox/remove-tree.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const notRoot = process.getuid?.() === 0 ? undefined : 'needs root, to hand files to another user'

test('what is deeper than a path can say is removed', async () => {
  const folder = temporaryFolder()
  const before = process.cwd()
  process.chdir(folder)
  try {
    for (let depth = 0; depth < 600; depth++) {
      mkdirSync('a-folder')
      process.chdir('a-folder')
    }
    writeFileSync('file', '')
  } finally {
    process.chdir(before)
  }
  await removeTree(folder)
  expect(existsSync(folder)).toBe(false)
})

test('what is forbidden is removed', async () => {
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'a/b'), { recursive: true })
  writeFileSync(join(folder, 'a/b/file'), '')
  for (const path of ['a/b/file', 'a/b', 'a']) chmodSync(join(folder, path), 0)
  await removeTree(folder)
  expect(existsSync(folder)).toBe(false)
})

test('a link is removed, what it leads to is not', async () => {
  const [folder, outside] = [temporaryFolder(), temporaryFolder()]
  writeFileSync(join(outside, 'file'), 'kept')
  symlinkSync(outside, join(folder, 'link'))
  linkSync(join(outside, 'file'), join(folder, 'hard'))
  await removeTree(folder)
  expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('kept')
})

test('a folder that is gone is no error', async () => {
  await expect(removeTree(join(temporaryFolder(), 'gone'))).resolves.toBeUndefined()
})

test.skipIf(notRoot !== undefined)(
  `what is handed over is the folder and its own files ${notRoot ?? ''}`,
  async () => {
    const [folder, outside] = [temporaryFolder(), temporaryFolder()]
    writeFileSync(join(outside, 'file'), '')
    mkdirSync(join(folder, 'inside'))
    writeFileSync(join(folder, 'inside/own'), '')
    symlinkSync(join(outside, 'file'), join(folder, 'link'))
    linkSync(join(outside, 'file'), join(folder, 'shared'))
    await giveTree(folder, 64_999)
    expect(statSync(folder).uid).toBe(64_999)
    expect(statSync(join(folder, 'inside/own')).uid).toBe(64_999)
    expect(statSync(join(outside, 'file')).uid).toBe(0)
  },
)
