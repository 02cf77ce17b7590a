// Keys of the public API: their creation, and the stored form.
import { hash as digest, randomBytes } from 'node:crypto'
import { API_BOUNDS } from '../../contract/api/bounds.ts'

/** Given keys have to be as hard to guess as they can be expected to be. */
const KEY_CHARACTERS_MIN = 24
const SUFFIX_CHARACTERS = 4

/** Makes a key of 256 random bits. */
export function makeKey(): string {
  return `vk_${randomBytes(32).toString('base64url')}`
}

/** The stored form of a key: its SHA-256 and its last characters. */
export function tracesOf(key: string): { hash: Buffer; suffix: string } {
  return { hash: digest('sha256', key, 'buffer'), suffix: key.slice(-SUFFIX_CHARACTERS) }
}

/** The problem of a given key, or undefined. */
export function keyProblem(key: string): { allowed: string; fix: string } | undefined {
  const fits =
    key.length >= KEY_CHARACTERS_MIN &&
    key.length <= API_BOUNDS.keyCharactersMax &&
    /^[\x21-\x7e]+$/.test(key)
  if (fits) return undefined
  return {
    allowed: `${KEY_CHARACTERS_MIN} to ${API_BOUNDS.keyCharactersMax} visible ASCII characters without spaces`,
    fix: 'make one with `openssl rand -hex 32`',
  }
}
