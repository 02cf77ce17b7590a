// Aim: what happens again and again is one line a minute for each kind, and nothing of it is left uncounted.
import { expect, test } from 'vitest'
import { createRepeatedLog } from '../../src/process/repeated-log.ts'

test('each kind has a line a minute, with how many there were', () => {
  const lines: object[] = []
  let now = 0
  const warn = (line: object) => void lines.push(line)
  const log = createRepeatedLog({ warn } as never, () => now)
  for (let n = 0; n < 50; n++) log('a', { code: 'A' }, 'again')
  log('b', { code: 'B' }, 'again', 3)
  expect(lines[0]).toEqual({ code: 'A', count: 1 })
  expect(lines.slice(1)).toEqual([{ code: 'B', count: 3 }])
  now = 60_000
  log('a', { code: 'A' }, 'again', 2)
  expect(lines.at(-1)).toEqual({ code: 'A', count: 51 })
})

test('the kinds that are remembered are bounded', () => {
  let lines = 0
  const log = createRepeatedLog({ warn: () => void lines++ } as never, () => 0)
  for (let kind = 0; kind < 10_001; kind++) log(String(kind), {}, 'again')
  log('0', {}, 'again')
  expect(lines).toBe(10_002)
})
