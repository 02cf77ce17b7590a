// Aim: a replaced file keeps owner, mode and links; one that cannot be replaced is unchanged.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { replaceFile, tryToReplace } from '../../src/process/replace-file.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('owner and mode stay, and a symbolic link leads to the new text', async () => {
  const folder = temporaryFolder()
  const path = join(folder, 'monitors.yaml')
  fs.writeFileSync(path, 'old')
  fs.chmodSync(path, 0o640)
  const owner = process.getuid?.() === 0 ? 4321 : (process.getuid?.() ?? 0)
  if (owner === 4321) fs.chownSync(path, owner, owner)
  const link = join(temporaryFolder(), 'link.yaml')
  fs.symlinkSync(path, link)
  await replaceFile(link, 'new')
  expect(fs.lstatSync(link).isSymbolicLink()).toBe(true)
  const { uid, mode } = fs.statSync(path)
  expect([uid, mode & 0o7777, fs.readFileSync(path, 'utf8')]).toEqual([owner, 0o640, 'new'])
  expect(fs.readdirSync(folder)).toEqual(['monitors.yaml'])
})

test('trying it changes nothing, and rejects where it is not possible', async () => {
  const path = join(temporaryFolder(), 'monitors.yaml')
  fs.writeFileSync(path, 'old')
  const { ino } = fs.statSync(path)
  await tryToReplace(path)
  expect([fs.readFileSync(path, 'utf8'), fs.statSync(path).ino]).toEqual(['old', ino])
  expect(fs.readdirSync(join(path, '..'))).toEqual(['monitors.yaml'])
  // No user can make a file in that folder.
  await expect(tryToReplace('/proc/version')).rejects.toMatchObject({ syscall: 'open' })
})

test('a path that cannot be replaced is unchanged', async () => {
  const folder = temporaryFolder()
  // Nothing can be renamed onto a folder.
  fs.mkdirSync(join(folder, 'a'))
  await expect(replaceFile(join(folder, 'a'), 'new')).rejects.toMatchObject({ code: 'EISDIR' })
  expect(fs.readdirSync(folder)).toEqual(['a'])
})
