// Aim: an answer that is parsed monitor by monitor equals the same text parsed at once, for any content; invalid
// JSON is refused either way.
import { expect, test } from 'vitest'
import { parseAnswer } from '../../../src/agent/platform/answer-text.ts'

const MANY = 2000

/** As the platform writes it: the long part is last. */
function answerText(monitors: object[], more: { head?: object; sentAt?: unknown } = {}): string {
  const head = JSON.stringify({ receivedAt: 1, runs: [], cancel: [], ...more.head }).slice(0, -1)
  const set = monitors.map((monitor) => JSON.stringify({ monitor, from: 5 })).join(',')
  const changes = `{"whole":true,"drop":[],"variables":[],"set":[${set}]}`
  return `${head},"changes":${changes},"sentAt":${JSON.stringify(more.sentAt ?? 2)}}`
}

const plain = Array.from({ length: MANY }, (_, n) => ({ id: `m${n}`, name: 'ein Größeres „Ding“' }))
const tricky = { id: 'x', name: '"set":[{"monitor":1},{"monitor":2}]}', nested: [{ monitor: 1 }] }

const CASES = [
  { sentence: 'two thousand monitors', text: answerText(plain) },
  { sentence: 'none', text: answerText([]) },
  { sentence: 'a short answer', text: answerText([{ id: 'a' }]) },
  { sentence: 'strings that look like the borders', text: answerText([...plain, tricky]) },
  {
    sentence: 'objects inside a monitor that look like entries',
    text: answerText([...plain, { nested: [{ id: 1 }, { monitor: 2 }], set: [{ monitor: 3 }] }]),
  },
  {
    sentence: 'something before the changes that looks like them',
    text: answerText([], {
      head: { runs: [{ set: [{ monitor: 1 }, { monitor: 2 }], filling: 'x'.repeat(70_000) }] },
    }),
  },
  {
    sentence: 'something behind the changes that ends as they do',
    text: answerText(plain, { sentAt: { more: [{ x: [1] }] } }),
  },
]

test.each(CASES)('$sentence', async ({ text }) => {
  expect(await parseAnswer(Buffer.from(text))).toEqual(JSON.parse(text))
})

test('others have their turn while many monitors are parsed', async () => {
  const filled = plain.map((one) => ({ ...one, filling: 'x'.repeat(10_000) }))
  let turns = 0
  let goesOn = true
  const turn = () => {
    turns++
    if (goesOn) setImmediate(turn)
  }
  setImmediate(turn)
  await parseAnswer(Buffer.from(answerText(filled)))
  goesOn = false
  expect(turns).toBeGreaterThan(0)
})

test.each([
  ['cut off', answerText(plain).slice(0, -20)],
  ['cut off in an entry', answerText(plain).slice(0, 80_000)],
  ['with an entry that is no JSON', answerText(plain).replace('"id":"m7"', '"id":m7')],
  ['empty', ''],
])('a text that is no JSON is refused: %s', async (_sentence, text) => {
  await expect(parseAnswer(Buffer.from(text))).rejects.toThrow(SyntaxError)
})
