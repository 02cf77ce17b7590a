// How long to wait before the platform is asked again, so that a thousand agents do not come back at once.

/** Waits between calls that fail. */
export interface Backoff {
  /** Milliseconds until the next try. `askedForMs` is what the platform asked for in Retry-After. */
  next(askedForMs: number | undefined): number
  /** As `next`, for a refusal that only an operator can end. */
  slow(askedForMs: number | undefined): number
  /** It has worked: the next failure is the first again. */
  reset(): void
}

/** The first tries come quickly, since most outages are a restart of the platform behind a balancer. */
const FIRST_MS = 250
const MS_MAX = 30_000
const SLOW_MS_MAX = 60_000
/** Longer waits that the platform asks for are cut. */
const ASKED_MS_MAX = 60_000

/** Full jitter over doubling bounds; `random` is for tests. */
export function createBackoff(random: () => number = Math.random): Backoff {
  let failures = 0
  const asked = (ms: number | undefined) => Math.min(ms ?? 0, ASKED_MS_MAX)
  return {
    next(askedForMs) {
      const bound = Math.min(MS_MAX, FIRST_MS * 2 ** Math.min(failures++, 20))
      const least = asked(askedForMs)
      // Agents with the same Retry-After must not return at the same time.
      return least + random() * (least === 0 ? bound : Math.min(bound, 1000 + least / 10))
    },
    slow: (askedForMs) => Math.max(asked(askedForMs), (0.5 + random() / 2) * SLOW_MS_MAX),
    reset() {
      failures = 0
    },
  }
}

/** The wait that a Retry-After header asks for (RFC 9110, 10.2.3), in milliseconds. */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\d{1,9}$/.test(header.trim())) return Number(header) * 1000
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs)
}
