// Frames of a spool file: damage costs the frames that it hits, and nothing is read that was never written.
import { array, assert, nat, property, record, uint8Array } from 'fast-check'
import { expect, test } from 'vitest'
import { createAgentCipher } from '../../../../src/agent/delivery/spool/agent-cipher.ts'
import { decodeFrames, encodeFrames } from '../../../../src/agent/delivery/spool/frame.ts'

const cipher = createAgentCipher('pl_0123456789abcdef')
/** One small frame each, and a deflated one. */
const ENTRIES = ['{"number":0}', '{"number":1}', JSON.stringify('x'.repeat(1000)), '{"number":3}']
const FRAMES = ENTRIES.map((entry, at) => ({ at, entries: [entry] }))
const BYTES = encodeFrames(FRAMES, cipher)

test('any one byte costs one frame at most', () => {
  for (let at = 0; at < BYTES.length; at++) {
    const changed = Buffer.from(BYTES)
    changed[at] = (changed[at] ?? 0) ^ (at % 2 === 0 ? 0x01 : 0xff)
    const left = decodeFrames(changed, cipher)
    expect(left.length, `byte ${at}`).toBeGreaterThanOrEqual(3)
    expect(ENTRIES).toEqual(expect.arrayContaining(left))
  }
})

test('a cut at any byte costs the frames after it', () => {
  expect(decodeFrames(BYTES, cipher)).toEqual(ENTRIES)
  for (let at = 0; at < BYTES.length; at++) {
    const left = decodeFrames(BYTES.subarray(0, at), cipher)
    expect(left).toEqual(ENTRIES.slice(0, left.length))
  }
})

test('bytes that are removed and put in', () => {
  const bytes = uint8Array({ maxLength: 100 })
  const change = record({ from: nat(BYTES.length), remove: nat(100), put: bytes })
  assert(
    property(array(change, { minLength: 1, maxLength: 4 }), (changes) => {
      let changed = BYTES
      for (const { from, remove, put } of changes) {
        changed = Buffer.concat([changed.subarray(0, from), put, changed.subarray(from + remove)])
      }
      expect(ENTRIES).toEqual(expect.arrayContaining(decodeFrames(changed, cipher)))
    }),
    { numRuns: 1000 },
  )
})
