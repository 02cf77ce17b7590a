// Counts requests in windows that all processes share. Every request needs a permit of the database. Requests that
// come while a process asks for permits wait, and are asked for together. A scope with many requests gets some
// permits ahead, which spare each of them a round trip; those that are not used at once are returned.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from 'hono'
import type { RatePolicy } from '../../../contract/api/rate-policy.ts'
import type { WindowSource } from './queries.ts'

export interface RateVerdict {
  allowed: boolean
  policy: RatePolicy
  remaining: number
  /** Whole seconds until the window ends, at least 1. */
  resetS: number
}

/** A request that waits for its permit. */
interface Waiting {
  resolve: (verdict: RateVerdict) => void
  reject: (error: unknown) => void
}

/** State of the present window of a scope in this process. Instants are monotonic. */
interface Window {
  scope: string
  policy: RatePolicy
  /** By the database's clock. */
  startsMs: number
  /** Never after the true end of the window. */
  endsAt: number
  /** Never before the true end of the window. */
  endsBy: number
  /** Permits granted to all processes. */
  used: number
  /** Permits of this process that no request has used yet. */
  spare: number
  /** Permits of the last grant to this process. */
  granted: number
  /** No request gets a permit any more until the window ends. */
  isUsedUp: boolean
  askedAt: number
  isAsking: boolean
  waiting: Waiting[]
  returnTimer: NodeJS.Timeout | undefined
}

/** Maximum number of permits that a process acquires ahead. */
const AHEAD_MAX = 100
/** Permits ahead are for scopes that use them within this; then they are returned. */
const AHEAD_MS = 250
const SCOPES_MAX = 50_000

/** Shares one limit a scope among all processes; see `take`. */
export class RateLimiter {
  readonly #source: WindowSource
  readonly #windows = new Map<string, Window>()

  constructor(source: WindowSource) {
    this.#source = source
  }

  /**
   * Counts one request of `scope`. Answers at once while the process has a permit ahead or knows that the
   * window is used up, else after asking the source. Rejects when the source does.
   */
  async take(scope: string, policy: RatePolicy): Promise<RateVerdict> {
    const window = this.#windows.get(scope) ?? this.#open(scope, policy)
    const now = performance.now()
    if (now < window.endsAt) {
      if (window.spare > 0) {
        const isLow = window.spare * 4 <= window.granted
        if (isLow && !window.isAsking) void this.#serve(window)
        return allowed(window, now)
      }
      if (window.isUsedUp) return refused(window, now)
    }
    return new Promise((resolve, reject) => {
      window.waiting.push({ resolve, reject })
      if (!window.isAsking) void this.#serve(window)
    })
  }

  /** Whether the window of `scope` is known to be used up, without a query. */
  exhausted(scope: string): RateVerdict | undefined {
    const window = this.#windows.get(scope)
    const now = performance.now()
    if (window === undefined || !window.isUsedUp || now >= window.endsAt) return undefined
    return refused(window, now)
  }

  /** Asks for permits, at least once, until no request waits. Never rejects. */
  async #serve(window: Window): Promise<void> {
    window.isAsking = true
    try {
      do {
        const returnsMs = await this.#ask(window)
        // Until then another process may return permits that it acquired ahead.
        if (returnsMs > 0) await sleep(returnsMs)
      } while (window.waiting.length > 0)
    } catch (error) {
      for (const { reject } of window.waiting.splice(0)) reject(error)
    } finally {
      window.isAsking = false
    }
  }

  /** One round trip for all that wait. Answers with how long to wait before the next one. */
  async #ask(window: Window): Promise<number> {
    const { scope, policy } = window
    const { limit, windowS } = policy
    const askedAt = performance.now()
    const wanted = window.waiting.length
    const isBusy = askedAt - window.askedAt < AHEAD_MS
    const ahead = isBusy ? Math.min(AHEAD_MAX, 2 * window.granted) : 0
    window.askedAt = askedAt
    const grant = await this.#source.take({ scope, limit, windowS, wanted, ahead })
    const now = performance.now()
    const isSame = grant.startsMs === window.startsMs
    window.spare = (isSame ? window.spare : 0) + grant.granted
    window.granted = grant.granted
    window.startsMs = grant.startsMs
    window.endsAt = askedAt + grant.leftMs
    window.endsBy = now + grant.leftMs
    window.used = grant.used
    for (const { resolve } of window.waiting.splice(0, window.spare)) {
      resolve(allowed(window, now))
    }
    if (grant.granted > wanted) this.#returnLater(window)
    const isShort = grant.granted < wanted
    window.isUsedUp = isShort && grant.returnsMs === 0
    if (window.isUsedUp) {
      for (const { resolve } of window.waiting.splice(0)) resolve(refused(window, now))
    }
    return isShort ? grant.returnsMs : 0
  }

  #returnLater(window: Window): void {
    clearTimeout(window.returnTimer)
    window.returnTimer = setTimeout(() => {
      const { scope, startsMs, spare: unused } = window
      window.spare = 0
      // Permits that cannot be returned stay used: the limit is never exceeded.
      if (unused > 0) this.#source.giveBack({ scope, startsMs, unused }).catch(() => {})
    }, AHEAD_MS).unref()
  }

  #open(scope: string, policy: RatePolicy): Window {
    if (this.#windows.size >= SCOPES_MAX) this.#forget()
    const window: Window = {
      scope,
      policy,
      startsMs: 0,
      endsAt: 0,
      endsBy: 0,
      used: 0,
      spare: 0,
      granted: 0,
      isUsedUp: false,
      askedAt: -Infinity,
      isAsking: false,
      waiting: [],
      returnTimer: undefined,
    }
    this.#windows.set(scope, window)
    return window
  }

  /** Makes room: drops every window that has ended, and the oldest tenth where that is not enough. */
  #forget(): void {
    const now = performance.now()
    for (const [scope, window] of this.#windows) {
      if (window.endsAt < now && !window.isAsking) this.#windows.delete(scope)
    }
    let surplus = this.#windows.size - SCOPES_MAX * 0.9
    for (const scope of this.#windows.keys()) {
      if (surplus-- <= 0) break
      this.#windows.delete(scope)
    }
  }
}

/** Uses one of the spare permits. */
function allowed(window: Window, now: number): RateVerdict {
  const { policy, used } = window
  const remaining = Math.max(0, policy.limit - used + --window.spare)
  return { allowed: true, policy, remaining, resetS: resetOf(window, now) }
}

function refused(window: Window, now: number): RateVerdict {
  return { allowed: false, policy: window.policy, remaining: 0, resetS: resetOf(window, now) }
}

function resetOf({ endsBy }: Window, now: number): number {
  return Math.max(1, Math.ceil((endsBy - now) / 1000))
}

const RATE = 'rate'

/** Notes how a request was counted, for its headers. */
export function noteRate(c: Context, verdict: RateVerdict): void {
  c.set(RATE, verdict)
}

/**
 * The headers with the client's remaining quota (draft-ietf-httpapi-ratelimit-headers) of a request that was
 * counted; none before that.
 */
export function rateHeadersOf(c: Context): Record<string, string> {
  const verdict = c.get(RATE) as RateVerdict | undefined
  if (verdict === undefined) return {}
  const { policy, remaining, resetS } = verdict
  const { name, limit, windowS } = policy
  return {
    'RateLimit-Policy': `"${name}";q=${limit};w=${windowS}`,
    RateLimit: `"${name}";r=${remaining};t=${resetS}`,
    'RateLimit-Limit': String(limit),
    'RateLimit-Remaining': String(remaining),
    'RateLimit-Reset': String(resetS),
  }
}
