// Aim: folders are created with their parents, and an impossible folder is an error at once.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeFolder, makeFolderSync } from '../../src/process/make-folder.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

const MAKERS = [
  ['waiting', makeFolder],
  ['at once', async (path: string, mode: number) => makeFolderSync(path, mode)],
] as const

describe.each(MAKERS)('a folder made %s', (_, make) => {
  test('is created with its parents, each with the mode, and may exist', async () => {
    const root = temporaryFolder()
    await make(join(root, 'a', 'b'), 0o700)
    for (const name of ['a', 'a/b']) expect(statSync(join(root, name)).mode & 0o777).toBe(0o700)
    await expect(make(root, 0o700)).resolves.toBeUndefined()
  })

  test.each(['/proc/vedette', '/proc/vedette/a/b'])('cannot be %s', async (path) => {
    await expect(make(path, 0o700)).rejects.toMatchObject({ code: 'ENOENT' })
  })

  test('cannot be where a file is, or below one', async () => {
    const file = temporaryFile('file', '')
    await expect(make(file, 0o700)).rejects.toMatchObject({ code: 'EEXIST' })
    await expect(make(join(file, 'a'), 0o700)).rejects.toMatchObject({ code: 'ENOTDIR' })
  })
})
