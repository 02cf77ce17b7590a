// Aim: the value of a sensitive header does not leave in a UTF-16 file of either byte order, nor in another
// file of the same run.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { scrubFiles } from '../../../src/agent/redaction/scrub-files.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const HEADER = 'Bearer eyJhbGciOi.secret-part'
const scrubber = createScrubber({})

function fileOf(content: string | Buffer): string {
  const path = join(temporaryFolder(), 'it')
  writeFileSync(path, content)
  return path
}

test.each([
  ['little', 'a line', (text: string) => `accept: a/b\r\nX-Api-Key: ${text}\r\n`],
  ['big', 'a line', (text: string) => `accept: a/b\r\nX-Api-Key: ${text}\r\n`],
  ['little', 'JSON', (text: string) => `{"accept":"a/b","authorization":"${text}"}`],
  ['big', 'JSON', (text: string) => `{"accept":"a/b","authorization":"${text}"}`],
  ['little', 'a list', (text: string) => `[{"name":"Cookie","value":"${text}"}]`],
  ['big', 'a list at its odd end', (text: string) => `é[{"name":"Cookie","value":"${text}"}]`],
])('loses a header in UTF-16 with the %s end first, in %s', async (end, _, written) => {
  const wide = (text: string) => {
    const bytes = Buffer.from(text, 'utf16le')
    return end === 'little' ? bytes : bytes.swap16()
  }
  const path = fileOf(wide(`${'.'.repeat(70_001)}\n${written(HEADER)}`))
  const other = fileOf(`elsewhere ${HEADER}`)
  expect(await scrubFiles([path, other], scrubber)).toEqual(new Map())
  const bytes = readFileSync(path)
  expect(bytes.includes(wide('secret-part'))).toBe(false)
  expect(bytes.includes(wide(written('').slice(0, 4)))).toBe(true)
  expect(bytes.includes(SCRUBBED)).toBe(true)
  expect(readFileSync(other, 'utf8')).toBe(`elsewhere ${SCRUBBED}`)
})
