// Reports of faults of the program itself, for its operator: once each and not too many, one after the other. What
// cannot be sent is counted and forgotten: nothing waits for it, and nothing fails by it. The code that makes and
// sends them is loaded with the first fault.
import { Counter, type Registry } from 'prom-client'
import { Fault, FAULT_OUTCOMES, shownFault, type FaultOutcome } from './fault.ts'
import type { FaultReceiver } from './sentry-envelope.ts'

/** Receiver and release of fault reports. */
export interface FaultReportsOptions {
  /** The part of the program, and its version: `vedette-agent@8.4.0`. */
  release: string
  /** Opens the way to the receiver; called with the first fault. */
  open(): Promise<FaultReceiver>
  /** Monotonic milliseconds. */
  now?: () => number
}

/** Time for the last report of a process. */
const FATAL_MS = 2000
const DEADLINE_MS = 10_000
const WAITING_MAX = 30
/** The same fault is sent again after this time. */
const REPEATED_MS = 3_600_000
const KNOWN_MAX = 200
/** So many at once, then one in `TURN_MS`. */
const BURST = 10
const TURN_MS = 6000

/** Reports faults. No method throws, rejects or blocks; a new one opens and sends nothing yet. */
export class FaultReports {
  readonly #options: FaultReportsOptions
  readonly #now: () => number
  readonly #reported = new WeakSet<object>()
  readonly #counts = new Map<FaultOutcome, number>(FAULT_OUTCOMES.map((one) => [one, 0]))
  readonly #waiting: { fault: unknown; mark: string }[] = []
  /** Fingerprint of a fault → when it was last accepted for sending. */
  readonly #known = new Map<string, number>()
  #receiver: FaultReceiver | undefined
  #isSending = false
  #pausedUntilMs = 0
  #turns = BURST
  #turnsAtMs: number

  constructor(options: FaultReportsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#turnsAtMs = this.#now()
  }

  /** Reports a fault, once for each error. */
  report(fault: unknown): void {
    if (!this.#isNew(fault)) return
    const mark = markOf(fault)
    const dropped = this.#reasonToDrop(mark)
    if (dropped !== undefined) return this.#count(dropped)
    this.#remember(mark)
    this.#waiting.push({ fault, mark })
    if (!this.#isSending) void this.#sendWaiting()
  }

  /** Reports a logged error, unless it is an operational error, which has a code. */
  logged(error: unknown): void {
    const code = error instanceof Error ? (error as { code?: unknown }).code : ''
    if (typeof code !== 'string' || !OPERATION.test(code)) this.report(error)
  }

  /** Reports the fault that ends the process, past all that waits; resolves within FATAL_MS. */
  async last(fault: unknown): Promise<void> {
    this.#isNew(fault)
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, FATAL_MS)))
    const sent = this.#send(fault, true, FATAL_MS).then((outcome) => this.#count(outcome))
    await Promise.race([sent, late])
    clearTimeout(timer)
  }

  registerMetrics(registry: Registry): void {
    const counts = this.#counts
    const counter: Counter<'outcome'> = new Counter({
      name: 'vedette_fault_reports_total',
      help: 'Faults of the program itself by the outcome of their report.',
      labelNames: ['outcome'],
      registers: [],
      collect() {
        counter.reset()
        for (const [outcome, count] of counts) counter.inc({ outcome }, count)
      },
    })
    registry.registerMetric(counter)
  }

  async #sendWaiting(): Promise<void> {
    this.#isSending = true
    for (;;) {
      const next = this.#waiting.shift()
      if (next === undefined) break
      const outcome = await this.#send(next.fault, false, DEADLINE_MS)
      // A fault that did not arrive may be sent when it happens again.
      if (outcome !== 'sent') this.#known.delete(next.mark)
      this.#count(outcome)
    }
    this.#isSending = false
  }

  async #send(fault: unknown, isFatal: boolean, deadlineMs: number): Promise<FaultOutcome> {
    const endsAtMs = performance.now() + deadlineMs
    try {
      if (this.#now() < this.#pausedUntilMs) return 'limited'
      const { eventOf } = await import('./event.ts')
      const { pauseMsOf } = await import('./sentry-envelope.ts')
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

  /** The same error can arrive several times: thrown, logged, uncaught. */
  #isNew(fault: unknown): boolean {
    if (typeof fault !== 'object' || fault === null) return true
    if (this.#reported.has(fault)) return false
    this.#reported.add(fault)
    return true
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

  #count(outcome: FaultOutcome): void {
    this.#counts.set(outcome, (this.#counts.get(outcome) ?? 0) + 1)
  }
}

/** Fingerprint of a fault: its kind and the nearest places; without places, its text. */
function markOf(thrown: unknown): string {
  const { class: name, code, text, at } = thrown instanceof Fault ? thrown : shownFault(thrown)
  return [name, code, ...(at.length > 0 ? at.slice(0, 3) : [text])].join('\n')
}

/** Codes of errors that were foreseen: of the system, and our own. Those of Node's ERR_ are mistakes. */
const OPERATION = /^(?!ERR_)[A-Z][A-Z_]*$/
