// Keys that were good a moment ago, so that most requests need no look-up, and none outlives its
// revocation.
import { timingSafeEqual } from 'node:crypto'
import type { Role } from '../../contract/api/account.ts'

/** What every kind of key has; its secret is known by its SHA-256 only. */
export interface HashedKey {
  id: string
  hash: Buffer
}

/** A key of the public API as the platform knows it. */
export interface KnownKey extends HashedKey {
  name: string
  accountId: string
  role: Role
}

/** A key of a location as the platform knows it. */
export interface KnownLocationKey extends HashedKey {
  locationId: string
  accountId: string
  slugName: string
  /** Live agents of the location, as of when the key was looked up. */
  agents: number
}

/** The key of a request, not verified. */
export interface KeyCredentials {
  /** SHA-256 of the key, base64. */
  hash: string
}

/** Where keys are looked up. */
export interface KeySource<Key extends HashedKey> {
  /** The key whose secret has this SHA-256; undefined when unknown or revoked. */
  find(hash: Buffer): Promise<Key | undefined>
}

interface Remembered<Key> {
  key: Key
  freshUntil: number
}

const FRESH_MS = 5_000
const REMEMBERED_MAX = 10_000

/** Remembers keys for a few seconds, so that most requests need no look-up. */
export class KeyRing<Key extends HashedKey> {
  readonly #source: KeySource<Key>
  readonly #remembered = new Map<string, Remembered<Key>>()
  readonly #asking = new Map<string, Promise<Key | undefined>>()
  #generation = 0

  constructor(source: KeySource<Key>) {
    this.#source = source
  }

  /** The key of these credentials when it is fresh in memory. */
  recall(credentials: KeyCredentials): Key | undefined {
    // Only hashes are compared here: the duration reveals nothing about a key.
    const found = this.#remembered.get(credentials.hash)
    return found !== undefined && performance.now() < found.freshUntil ? found.key : undefined
  }

  /** Whether the key was good before, though it has to be looked up again. */
  isKnown(credentials: KeyCredentials): boolean {
    return this.#remembered.has(credentials.hash)
  }

  /** Looks up the key of these credentials; undefined when it is not accepted. Rejects when the source does. */
  async find(credentials: KeyCredentials): Promise<Key | undefined> {
    const { hash } = credentials
    const asked = this.#asking.get(hash)
    if (asked !== undefined) return asked
    const asking: Promise<Key | undefined> = this.#ask(hash).finally(() => {
      if (this.#asking.get(hash) === asking) this.#asking.delete(hash)
    })
    this.#asking.set(hash, asking)
    return asking
  }

  /** Makes every key be looked up again: one was revoked or changed, or we may have missed it. */
  forget(): void {
    this.#generation++
    this.#asking.clear()
    for (const one of this.#remembered.values()) one.freshUntil = 0
  }

  async #ask(hash: string): Promise<Key | undefined> {
    const generation = this.#generation
    const bytes = Buffer.from(hash, 'base64')
    const key = await this.#source.find(bytes)
    if (key === undefined || !timingSafeEqual(key.hash, bytes)) {
      this.#remembered.delete(hash)
      return undefined
    }
    // An answer from before a revocation must not be remembered after it.
    const freshUntil = generation === this.#generation ? performance.now() + FRESH_MS : 0
    this.#remembered.delete(hash)
    this.#remembered.set(hash, { key, freshUntil })
    if (this.#remembered.size > REMEMBERED_MAX) {
      const oldest = this.#remembered.keys().next().value
      if (oldest !== undefined) this.#remembered.delete(oldest)
    }
    return key
  }
}
