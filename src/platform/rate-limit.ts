// Counts requests in windows that all processes share. A process takes a block of a window in one
// statement and hands it out by itself, so that a request costs no round trip.
import type { RatePolicy } from '../contract/rate-policy.ts'
import type { Grant } from '../store/rate-windows.ts'

/** Where blocks come from. */
export interface WindowSource {
  take(ask: { scope: string; limit: number; windowS: number; block: number }): Promise<Grant>
}

/** What became of one request. */
export interface RateVerdict {
  allowed: boolean
  policy: RatePolicy
  remaining: number
  /** Whole seconds until the window ends, at least 1. */
  resetS: number
}

interface Window {
  /** Monotonic; never after the true end of the window. */
  endsAt: number
  /** Monotonic; never before the true end of the window. */
  endsBy: number
  left: number
  used: number
  granted: number
  refill: Promise<void> | undefined
}

const BLOCK = 25
const SCOPES_MAX = 50_000
const TRIES_MAX = 4

/** Shares one limit a scope among all processes; see `take`. */
export class RateLimiter {
  readonly #source: WindowSource
  readonly #windows = new Map<string, Window>()

  constructor(source: WindowSource) {
    this.#source = source
  }

  /**
   * Counts one request of `scope`. Answers at once while the process has something of the window, else
   * after asking for more. Rejects when the source does.
   */
  take(scope: string, policy: RatePolicy): RateVerdict | Promise<RateVerdict> {
    const window = this.#windows.get(scope)
    const now = performance.now()
    if (window === undefined || now >= window.endsAt) return this.#takeLater(scope, policy)
    if (window.left > 0) {
      window.left--
      if (window.granted >= 8 && window.left * 4 <= window.granted) this.#prefetch(scope, policy)
      return verdictOf(window, policy, true, now)
    }
    if (window.granted === 0) return verdictOf(window, policy, false, now)
    return this.#takeLater(scope, policy)
  }

  /** Whether the window of `scope` is known to be used up; asks nobody. */
  exhausted(scope: string, policy: RatePolicy): RateVerdict | undefined {
    const window = this.#windows.get(scope)
    const now = performance.now()
    if (window === undefined || window.left > 0 || window.granted > 0 || now >= window.endsAt) {
      return undefined
    }
    return verdictOf(window, policy, false, now)
  }

  async #takeLater(scope: string, policy: RatePolicy): Promise<RateVerdict> {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      await this.#refill(scope, policy)
      const window = this.#windows.get(scope)
      const now = performance.now()
      if (window === undefined || now >= window.endsAt) continue
      if (window.left > 0) {
        window.left--
        return verdictOf(window, policy, true, now)
      }
      if (window.granted === 0) return verdictOf(window, policy, false, now)
    }
    // Others took every block that came, or windows end faster than the source answers.
    return { allowed: false, policy, remaining: 0, resetS: 1 }
  }

  #prefetch(scope: string, policy: RatePolicy): void {
    // When it fails, the request that needs the block asks again and hears of it.
    this.#refill(scope, policy).catch(() => {})
  }

  #refill(scope: string, policy: RatePolicy): Promise<void> {
    const known = this.#windows.get(scope)
    if (known?.refill !== undefined) return known.refill
    const window = known ?? this.#open(scope)
    window.refill = this.#ask(scope, policy, window).finally(() => {
      window.refill = undefined
    })
    return window.refill
  }

  async #ask(scope: string, policy: RatePolicy, window: Window): Promise<void> {
    const askedAt = performance.now()
    const { limit, windowS } = policy
    const grant = await this.#source.take({ scope, limit, windowS, block: BLOCK })
    const endsAt = askedAt + grant.leftMs
    const isSame = endsAt < window.endsAt + windowS * 500
    window.left = isSame ? window.left + grant.granted : grant.granted
    window.endsAt = isSame ? Math.max(window.endsAt, endsAt) : endsAt
    window.endsBy = performance.now() + grant.leftMs
    window.used = grant.used
    window.granted = grant.granted
  }

  #open(scope: string): Window {
    if (this.#windows.size >= SCOPES_MAX) this.#forget()
    const window = { endsAt: 0, endsBy: 0, left: 0, used: 0, granted: 0, refill: undefined }
    this.#windows.set(scope, window)
    return window
  }

  /** Makes room: drops every window that has ended, and the oldest tenth where that is not enough. */
  #forget(): void {
    const now = performance.now()
    for (const [scope, window] of this.#windows) {
      if (window.endsAt < now && window.refill === undefined) this.#windows.delete(scope)
    }
    let surplus = this.#windows.size - SCOPES_MAX * 0.9
    for (const scope of this.#windows.keys()) {
      if (surplus-- <= 0) break
      this.#windows.delete(scope)
    }
  }
}

function verdictOf(window: Window, policy: RatePolicy, allowed: boolean, now: number): RateVerdict {
  return {
    allowed,
    policy,
    remaining: allowed ? Math.max(0, policy.limit - window.used + window.left) : 0,
    resetS: Math.max(1, Math.ceil((window.endsBy - now) / 1000)),
  }
}

interface PolicyWords {
  policy: string
  start: string
  limit: string
}

const wordsByPolicy = new WeakMap<RatePolicy, PolicyWords>()

function wordsOf(policy: RatePolicy): PolicyWords {
  const known = wordsByPolicy.get(policy)
  if (known !== undefined) return known
  const { name, limit, windowS } = policy
  const words = {
    policy: `"${name}";q=${limit};w=${windowS}`,
    start: `"${name}";r=`,
    limit: String(limit),
  }
  wordsByPolicy.set(policy, words)
  return words
}

/** The headers that tell a client where it stands (draft-ietf-httpapi-ratelimit-headers). */
export function rateHeaders(verdict: RateVerdict): Record<string, string> {
  const words = wordsOf(verdict.policy)
  const remaining = String(verdict.remaining)
  const resetS = String(verdict.resetS)
  return {
    'RateLimit-Policy': words.policy,
    RateLimit: `${words.start}${remaining};t=${resetS}`,
    'RateLimit-Limit': words.limit,
    'RateLimit-Remaining': remaining,
    'RateLimit-Reset': resetS,
  }
}
