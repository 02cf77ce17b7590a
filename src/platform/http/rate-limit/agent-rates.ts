// How often the agents of a key may call: more than agents in health ever do, so that one that runs wild
// does not drown the platform. Each process counts for itself; a call costs no round trip.
import {
  AGENT_POLICIES,
  type AgentCallKind,
  AGENTS_SPARE,
  type RatePolicy,
} from '../../../contract/api/rate-policy.ts'
import type { KnownLocationKey } from '../keys.ts'
import { UNREAD, tooMany, type ApiError } from '../errors.ts'

interface Window {
  endsAt: number
  used: number
}

/** Windows that are remembered; beyond, those that have ended are forgotten. */
const WINDOWS_MAX = 10_000

/** Counts calls, for each key and kind of call apart. */
export class AgentRates {
  readonly #policies: Readonly<Record<AgentCallKind, RatePolicy>>
  readonly #now: () => number
  readonly #windows = new Map<string, Window>()

  /** `policies`: what one agent may do; `now` in milliseconds. */
  constructor(policies = AGENT_POLICIES, now = () => performance.now()) {
    this.#policies = policies
    this.#now = now
  }

  /** Windows that are remembered. */
  get size(): number {
    return this.#windows.size
  }

  /** Counts a call. Throws 429 when the key has made too many for the agents that it has. */
  take({ id, agents }: KnownLocationKey, kind: AgentCallKind): void {
    const one = this.#policies[kind]
    const window = this.#window(`${id} ${kind}`, one)
    const limit = one.limit * (agents + AGENTS_SPARE)
    if (window.used < limit) window.used++
    else throw this.#refusal(window, { ...one, limit })
  }

  #window(name: string, { windowS }: RatePolicy): Window {
    const now = this.#now()
    const known = this.#windows.get(name)
    if (known !== undefined && now < known.endsAt) return known
    if (this.#windows.size >= WINDOWS_MAX) this.#forget(now)
    const window = { endsAt: now + windowS * 1000, used: 0 }
    this.#windows.set(name, window)
    return window
  }

  #forget(now: number): void {
    for (const [name, { endsAt }] of this.#windows) if (endsAt <= now) this.#windows.delete(name)
  }

  #refusal({ endsAt }: Window, policy: RatePolicy): ApiError {
    const resetS = Math.max(1, Math.ceil((endsAt - this.#now()) / 1000))
    const verdict = { allowed: false, policy, remaining: 0, resetS }
    // The body of the request is not read, and may be large.
    return tooMany(verdict, UNREAD.headers)
  }
}
