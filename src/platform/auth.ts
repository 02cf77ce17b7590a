// Who asks: a bearer key and an account, checked against keys that are remembered for a few seconds.
import { hash as digest, timingSafeEqual } from 'node:crypto'
import type { Context } from 'hono'
import type { Role } from '../contract/account.ts'
import { API_BOUNDS } from '../contract/api-bounds.ts'
import { ApiError, unauthorized } from './errors.ts'

/** A key as the platform knows it; its secret is known by its hash only. */
export interface KnownKey {
  id: string
  name: string
  accountId: string
  role: Role
  hash: Buffer
}

/** Where keys are looked up. */
export interface KeySource {
  /** The key whose secret has this SHA-256; undefined when there is none or it was revoked. */
  find(hash: Buffer): Promise<KnownKey | undefined>
}

interface Remembered {
  key: KnownKey
  freshUntil: number
}

const FRESH_MS = 5_000
const REMEMBERED_MAX = 10_000
const BEARER = /^bearer +([\x21-\x7e]+) *$/i
const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** What a request says about itself, in good form but not yet believed. */
export interface Claim {
  /** SHA-256 of the key, base64. */
  hash: string
  accountId: string
}

/**
 * Reads the Authorization and account headers. `X-Checkly-Account` is another spelling of
 * `X-Service-Account`; where both stand they must agree. Throws the 401 that a client is to see.
 */
export function readClaim(c: Context): Claim {
  const secret = BEARER.exec(c.req.header('authorization') ?? '')?.[1]
  if (secret === undefined) throw unauthorized('Missing authentication')
  if (secret.length > API_BOUNDS.keyCharactersMax) throw unauthorized('Bad Token')
  const ours = c.req.header('x-service-account')
  const theirs = c.req.header('x-checkly-account')
  const account = (ours ?? theirs)?.toLowerCase()
  if (account === undefined) throw unauthorized('Missing account header')
  if (!GUID.test(account)) throw unauthorized('Bad account header')
  if (theirs !== undefined && theirs.toLowerCase() !== account) {
    throw unauthorized('The account headers differ')
  }
  return { hash: digest('sha256', secret, 'base64'), accountId: account }
}

/** Remembers keys for a few seconds, so that most requests need no look-up. */
export class KeyRing {
  readonly #source: KeySource
  readonly #remembered = new Map<string, Remembered>()
  readonly #asking = new Map<string, Promise<KnownKey | undefined>>()
  #generation = 0

  constructor(source: KeySource) {
    this.#source = source
  }

  /** The key of a claim when it is fresh in memory. */
  recall(claim: Claim): KnownKey | undefined {
    // Only hashes are compared here: how long that takes says nothing about a key.
    const found = this.#remembered.get(claim.hash)
    return found !== undefined && performance.now() < found.freshUntil ? found.key : undefined
  }

  /** Whether the key was good before, though it has to be looked up again. */
  isKnown(claim: Claim): boolean {
    return this.#remembered.has(claim.hash)
  }

  /** Looks the key of a claim up; undefined when it is not accepted. Rejects when the source does. */
  async find(claim: Claim): Promise<KnownKey | undefined> {
    const { hash } = claim
    const asked = this.#asking.get(hash)
    if (asked !== undefined) return asked
    const asking: Promise<KnownKey | undefined> = this.#ask(hash).finally(() => {
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

  async #ask(hash: string): Promise<KnownKey | undefined> {
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

/** Throws 403 unless the key belongs to the account that the request names. */
export function checkAccount(key: KnownKey, claim: Claim): void {
  if (key.accountId !== claim.accountId) {
    throw new ApiError(403, 'This key has no access to the account')
  }
}
