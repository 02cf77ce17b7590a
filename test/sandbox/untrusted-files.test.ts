// Aim: of what user code has left, only plain files are read, and no more of them than was said.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readUntrusted } from '../../src/sandbox/untrusted-files.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test.each([
  ['of that size', 'ü'.repeat(50), 'ü'.repeat(50)],
  ['that is empty', '', ''],
  ['that is larger', 'x'.repeat(101), undefined],
])('a file %s', async (_, content, wanted) => {
  const path = join(temporaryFolder(), 'file')
  writeFileSync(path, content)
  expect(await readUntrusted(path, 100)).toBe(wanted)
})

test.each(['/proc/self/environ', '/proc/self/pagemap', '/dev/zero', '/proc/self', '/nowhere'])(
  '%s is none of them',
  async (path) => expect(await readUntrusted(path, 1e9)).toBeUndefined(),
)
