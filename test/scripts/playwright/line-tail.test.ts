// Aim: a file that grows is followed line by line within bounds of bytes, and the callback that receives the lines may fail
// without harm to anybody else.
import { appendFileSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { LineTail } from '../../../src/scripts/playwright/line-tail.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

async function tailOf(text: string, lineBytesMax = 100) {
  const path = join(temporaryFolder(), 'lines')
  writeFileSync(path, text)
  const file = await open(path)
  return { path, file, tail: new LineTail(file, { bytesMax: 1_000_000, lineBytesMax }) }
}

test('a callback that fails is reported once, and gets no more lines', async () => {
  const { path, file, tail } = await tailOf('one\ntwo\n')
  const [received, faults]: [string[], unknown[]] = [[], []]
  const mistake = new Error('a mistake of ours')
  tail.follow(
    (line) => {
      received.push(line)
      throw mistake
    },
    (fault) => faults.push(fault),
  )
  await eventually(() => faults.length > 0, { what: 'the fault' })
  appendFileSync(path, 'three\n')
  await tail.rest()
  expect(received).toEqual(['one'])
  expect(faults).toEqual([mistake])
  await file.close()
})

test('the bound of a line counts bytes', async () => {
  // Of two bytes each.
  const lines = ['é'.repeat(50), 'é'.repeat(51), 'é'.repeat(90_000), 'last']
  const { file, tail } = await tailOf(`${lines.join('\n')}\n`)
  const received: string[] = []
  tail.follow(
    (line) => received.push(line),
    () => {},
  )
  await tail.rest()
  expect(received).toEqual([lines[0], 'last'])
  await file.close()
})
