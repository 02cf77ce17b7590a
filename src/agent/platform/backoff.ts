// How long to wait before the platform is asked again, so that a thousand agents do not come back at once.

/** The first tries come quickly, since most outages are a restart of the platform behind a balancer. */
const FIRST_MS = 250
const MS_MAX = 30_000
const SLOW_MS_MAX = 60_000
/** Longer waits that the platform asks for are cut. */
const ASKED_MS_MAX = 60_000

/** Waits between calls that fail: full jitter over doubling bounds. */
export class Backoff {
  readonly #random: () => number
  #failures = 0

  /** `random` is for tests: in [0, 1). */
  constructor(random: () => number = Math.random) {
    this.#random = random
  }

  /** Milliseconds until the next try. `askedForMs` is what the platform asked for in Retry-After. */
  next(askedForMs = 0): number {
    const bound = Math.min(MS_MAX, FIRST_MS * 2 ** Math.min(this.#failures++, 20))
    const least = Math.min(askedForMs, ASKED_MS_MAX)
    // Agents with the same Retry-After must not return at the same time.
    return least + this.#random() * (least === 0 ? bound : Math.min(bound, 1000 + least / 10))
  }

  /** As `next`, for a refusal that only an operator can end. */
  slow(askedForMs = 0): number {
    return Math.max(Math.min(askedForMs, ASKED_MS_MAX), (0.5 + this.#random() / 2) * SLOW_MS_MAX)
  }

  /** It has worked: the next failure is the first again. */
  reset(): void {
    this.#failures = 0
  }
}

/** The wait that a Retry-After header asks for (RFC 9110, 10.2.3), in milliseconds. */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\d{1,9}$/.test(header.trim())) return Number(header) * 1000
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs)
}
