// Aim: the memory of a file on its way is given back piece by piece, and never memory that others share.
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { arrivingBytes } from '../../../src/platform/http/arriving-bytes.ts'

const walk = async (pieces: Uint8Array[]) => {
  const hash = createHash('sha256')
  for (const one of pieces) hash.update(one)
  const expected = { bytesMax: 1e9, sha256: hash.digest() }
  const seen: { byte: number | undefined; before: number }[] = []
  let last: Uint8Array | undefined
  for await (const one of arrivingBytes(ReadableStream.from(pieces), expected)) {
    seen.push({ byte: one[0], before: last?.byteLength ?? -1 })
    last = one
  }
  return seen
}

test('the memory of a piece is released when the next one is requested, not before', async () => {
  const pieces = [1, 2, 3].map((n) => new Uint8Array(65_536).fill(n))
  const seen = await walk(pieces)
  expect(seen.flatMap(({ byte, before }) => [byte, before])).toEqual([1, -1, 2, 0, 3, 0])
})

test('pieces of a shared buffer are not changed', async () => {
  const whole = new Uint8Array(96).fill(7)
  const pieces = [0, 32, 64].map((at) => whole.subarray(at, at + 32))
  expect((await walk(pieces)).map(({ byte }) => byte)).toEqual([7, 7, 7])
  expect([...whole]).toEqual(Array(96).fill(7))
})
