// Aim: a list of chunks holds the bytes as they came, in few buffers, however short the chunks are.
import { expect, test } from 'vitest'
import { addChunk } from '../../src/network/chunks.ts'

const listOf = (given: readonly Buffer[]) => {
  const chunks: Buffer[] = []
  for (const chunk of given) addChunk(chunks, chunk)
  return chunks
}

test('short chunks are joined', () => {
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 251))
  const chunks = listOf(Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)))
  expect(Buffer.concat(chunks).equals(bytes)).toBe(true)
  expect(chunks.length).toBeLessThan(40)
})

test('long ones are kept as they are', () => {
  const given = [Buffer.alloc(4096, 1), Buffer.alloc(4096, 2)]
  expect(listOf(given)).toEqual(given)
})

test('the order is that of the stream', () => {
  const given = [9, 1, 5, 2, 2, 30, 4].map((length, at) => Buffer.alloc(length, at))
  expect(Buffer.concat(listOf(given))).toEqual(Buffer.concat(given))
})
