// Aim: a cursor decodes to exactly the place it was made from, and foreign text is rejected.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeCursor, encodeCursor, instantOf } from '../../src/database/page.ts'

const place = fc.record({
  createdUs: fc.bigInt({ min: 0n, max: 253_402_300_799_999_999n }),
  id: fc.uuid(),
})

describe('cursor', () => {
  test('comes back as it went, for its own listing alone; another text is refused', () => {
    const text = fc.string({ unit: 'binary', maxLength: 60 })
    fc.assert(
      fc.property(place, text, (one, foreign) => {
        const cursor = encodeCursor('incidents', one)
        expect(decodeCursor('incidents', cursor)).toEqual(one)
        expect(decodeCursor('services', cursor)).toBeUndefined()
        expect(decodeCursor('incidents', foreign)).toBeUndefined()
      }),
    )
  })

  test('past the year 9999 is refused, and keeps its microseconds', () => {
    const bytes = Buffer.alloc(25, 0xff)
    bytes[0] = 1
    expect(decodeCursor('incidents', bytes.toString('base64url'))).toBeUndefined()
    const createdUs = 1_764_000_000_123_456n
    expect(instantOf({ createdUs, id: '' })).toBe('2025-11-24T16:00:00.123456Z')
  })
})
