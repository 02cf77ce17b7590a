// Aim: keys are looked up rarely, and a pending look-up never restores a revoked key.
import { hash as digest } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { KeyRing } from '../../../src/platform/http/auth.ts'
import type { KnownKey } from '../../../src/platform/http/keys.ts'

const credentials = { hash: digest('sha256', 'secret', 'base64') }
const hash = Buffer.from(credentials.hash, 'base64')
const key: KnownKey = { id: 'k', name: 'k', accountId: 'a', role: 'Admin', hash }

/** A key ring whose look-ups are answered by the test. */
function ringByHand() {
  const asked: ((found: KnownKey | undefined) => void)[] = []
  const ring = new KeyRing<KnownKey>(() => new Promise((resolve) => asked.push(resolve)))
  return { ring, asked }
}

describe('KeyRing', () => {
  test('looks up once for many concurrent requests, and caches', async () => {
    const { ring, asked } = ringByHand()
    const finding = [ring.find(credentials), ring.find(credentials)]
    expect(asked).toHaveLength(1)
    asked[0]?.(key)
    expect(await Promise.all(finding)).toEqual([key, key])
    expect(ring.recall(credentials)).toBe(key)
  })

  test('looks up again after a revocation, while an older look-up is still pending', async () => {
    const { ring, asked } = ringByHand()
    const old = ring.find(credentials)
    ring.forget()
    const fresh = ring.find(credentials)
    expect(asked).toHaveLength(2)
    asked[1]?.(undefined)
    asked[0]?.(key)
    expect(await fresh).toBeUndefined()
    await old
    expect(ring.recall(credentials)).toBeUndefined()
    // Yet it knows that the key was valid: a look-up is not refused.
    expect(ring.isKnown(credentials)).toBe(true)
  })

  test('refuses a key whose hash is not the requested one', async () => {
    const { ring, asked } = ringByHand()
    const finding = ring.find(credentials)
    asked[0]?.({ ...key, hash: Buffer.alloc(32) })
    expect(await finding).toBeUndefined()
    expect(ring.isKnown(credentials)).toBe(false)
  })
})
