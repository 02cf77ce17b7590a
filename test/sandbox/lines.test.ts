// Lines are split within a bound of bytes; a followed file is read to its end, and callbacks may fail.
import { appendFileSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { followLines } from '../../src/sandbox/lines.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const BOUNDS = { bytesMax: 1_000_000, lineBytesMax: 100 }

async function growing(text: string) {
  const path = join(temporaryFolder(), 'lines')
  writeFileSync(path, text)
  const file = await open(path)
  onTestFinished(() => file.close())
  return { path, file }
}

test('the bound of a line counts bytes, and what comes at the end is read', async () => {
  // Of two bytes each.
  const lines = ['é'.repeat(50), 'é'.repeat(51), 'é'.repeat(190_000), 'last']
  const { path, file } = await growing(lines.slice(0, 3).join('\n'))
  const [received, over]: [string[], AbortController] = [[], new AbortController()]
  const reading = followLines(file, BOUNDS, over.signal, (line) => received.push(line))
  appendFileSync(path, `\n${lines[3]}\nunfinished`)
  over.abort()
  await reading
  expect(received).toEqual([lines[0], 'last'])
})

test('a callback that fails ends the reading, and gets no more lines', async () => {
  const { file } = await growing('one\ntwo\n')
  const received: string[] = []
  const reading = followLines(file, BOUNDS, new AbortController().signal, (line) => {
    received.push(line)
    throw new Error('a mistake of ours')
  })
  await expect(reading).rejects.toThrow('a mistake of ours')
  expect(received).toEqual(['one'])
})
