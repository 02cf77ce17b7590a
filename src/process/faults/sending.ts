// Sends faults, once each and not too many, one after the other. What cannot be sent is counted and
// forgotten: nothing waits for it, and nothing fails by it.
import { Fault, shownFault, type FaultOutcome, type FaultReceiver } from './fault.ts'
import { eventOf } from './event.ts'
import { pauseMsOf } from './sentry-envelope.ts'

/** Sends reported faults, or drops them. */
export interface FaultSending {
  send(fault: unknown): void
  /** Past all that waits. Never rejects. */
  sendLast(fault: unknown, deadlineMs: number): Promise<void>
}

/** What sending needs; times are for tests. */
export interface FaultSendingOptions {
  release: string
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
      const event = eventOf(fault, this.#options.release, isFatal)
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

/** Fingerprint of a fault: its kind and the nearest places; without places, its text. */
function markOf(thrown: unknown): string {
  const { class: name, code, text, at } = thrown instanceof Fault ? thrown : shownFault(thrown)
  return [name, code, ...(at.length > 0 ? at.slice(0, 3) : [text])].join('\n')
}
