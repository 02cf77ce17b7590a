// Sends faults, once each and not too many, one after the other. What cannot be sent is counted and
// forgotten: nothing waits for it, and nothing fails by it.
import type { FaultOutcome, FaultReceiver } from './fault.ts'
import { eventOf, type EventContext } from './event.ts'
import { pauseMsOf } from './sentry-envelope.ts'

/** Sends reported faults, or drops them. */
export interface FaultSending {
  send(fault: unknown): void
  /** Past all that waits. Never rejects. */
  sendLast(fault: unknown, deadlineMs: number): Promise<void>
}

/** What sending needs; times are for tests. */
export interface FaultSendingOptions extends EventContext {
  /** Opens the way to the receiver. */
  open(): Promise<FaultReceiver>
  now?: () => number
}

const DEADLINE_MS = 10_000
const WAITING_MAX = 30
/** The same fault is sent again after this time. */
const REPEATED_MS = 3_600_000
const KNOWN_MAX = 200
/** So many at once, then one in `TURN_MS`. */
const BURST = 10
const TURN_MS = 6000

/** Makes the sender; `count` receives the outcome of each fault. */
export function createFaultSending(
  options: FaultSendingOptions,
  count: (outcome: FaultOutcome) => void,
): FaultSending {
  return new Sending(options, count)
}

class Sending implements FaultSending {
  readonly #options: FaultSendingOptions
  readonly #count: (outcome: FaultOutcome) => void
  readonly #now: () => number
  readonly #waiting: { fault: unknown; mark: string }[] = []
  /** Fingerprint of a fault → when it was last accepted for sending. */
  readonly #known = new Map<string, number>()
  #receiver: FaultReceiver | undefined
  #isSending = false
  #pausedUntilMs = 0
  #turns = BURST
  #turnsAtMs: number

  constructor(options: FaultSendingOptions, count: (outcome: FaultOutcome) => void) {
    this.#options = options
    this.#count = count
    this.#now = options.now ?? (() => performance.now())
    this.#turnsAtMs = this.#now()
  }

  send(fault: unknown): void {
    const mark = markOf(fault)
    const dropped = this.#reasonToDrop(mark)
    if (dropped !== undefined) return this.#count(dropped)
    this.#remember(mark)
    this.#waiting.push({ fault, mark })
    if (!this.#isSending) void this.#sendWaiting()
  }

  async sendLast(fault: unknown, deadlineMs: number): Promise<void> {
    const endsAtMs = performance.now() + deadlineMs
    this.#count(await this.#sendOne(fault, { isFatal: true, endsAtMs }))
  }

  async #sendWaiting(): Promise<void> {
    this.#isSending = true
    for (;;) {
      const next = this.#waiting.shift()
      if (next === undefined) break
      const endsAtMs = performance.now() + DEADLINE_MS
      const outcome = await this.#sendOne(next.fault, { isFatal: false, endsAtMs })
      // A fault that did not arrive may be sent when it happens again.
      if (outcome !== 'sent') this.#known.delete(next.mark)
      this.#count(outcome)
    }
    this.#isSending = false
  }

  async #sendOne(
    fault: unknown,
    { isFatal, endsAtMs }: { isFatal: boolean; endsAtMs: number },
  ): Promise<FaultOutcome> {
    try {
      if (this.#now() < this.#pausedUntilMs) return 'limited'
      const event = await eventOf(fault, this.#options, isFatal)
      this.#receiver ??= await this.#options.open()
      const answer = await this.#receiver.take(event, endsAtMs - performance.now())
      const pauseMs = pauseMsOf(answer)
      if (pauseMs > 0) this.#pausedUntilMs = this.#now() + pauseMs
      return answer.status >= 200 && answer.status < 300 ? 'sent' : 'failed'
    } catch {
      return 'failed'
    }
  }

  #reasonToDrop(mark: string): FaultOutcome | undefined {
    const now = this.#now()
    const sentAtMs = this.#known.get(mark)
    if (sentAtMs !== undefined && now - sentAtMs < REPEATED_MS) return 'repeated'
    if (now < this.#pausedUntilMs) return 'limited'
    if (this.#waiting.length >= WAITING_MAX) return 'overflow'
    return this.#acquireTurn(now) ? undefined : 'limited'
  }

  #acquireTurn(now: number): boolean {
    const come = Math.floor((now - this.#turnsAtMs) / TURN_MS)
    this.#turns = Math.min(BURST, this.#turns + come)
    this.#turnsAtMs += come * TURN_MS
    if (this.#turns === 0) return false
    this.#turns--
    return true
  }

  #remember(mark: string): void {
    this.#known.delete(mark)
    this.#known.set(mark, this.#now())
    const [oldest] = this.#known.keys()
    if (this.#known.size > KNOWN_MAX && oldest !== undefined) this.#known.delete(oldest)
  }
}

const MARK_CHARACTERS_MAX = 1000

/**
 * Fingerprint of a fault: its kind and the nearest stack frames; without frames, its message without numbers.
 * Cheap, since a fault may happen a thousand times a second.
 */
function markOf(fault: unknown): string {
  try {
    const { type, name, message, stack } = fault as Record<string, unknown>
    const places = typeof stack === 'string' ? (stack.match(/^\s+at .*$/gm) ?? []).slice(0, 3) : []
    const parts = places.length > 0 ? places : [String(message).replaceAll(/\d+/g, '')]
    return [String(name ?? type), ...parts].join('\n').slice(0, MARK_CHARACTERS_MAX)
  } catch {
    return typeof fault
  }
}
