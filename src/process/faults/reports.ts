// Reports of faults of the program itself, for its operator. The rest of the implementation is loaded with
// the first fault; without a receiver, no reporter is created.
import { Counter, type Registry } from 'prom-client'
import { FAULT_OUTCOMES, type FaultOutcome, type FaultReceiver } from './fault.ts'
import type { FaultSending } from './sending.ts'

/** Reports faults. No method throws, rejects or blocks. */
export interface FaultReports {
  /** Reports a fault, once for each error. */
  report(fault: unknown): void
  /** Reports a logged error, unless it is an operational error, which has a code. */
  logged(error: unknown): void
  /** Reports the fault that ends the process; resolves within FATAL_MS. */
  last(fault: unknown): Promise<void>
  /** Registers the count of outcomes. */
  registerMetrics(registry: Registry): void
}

/** Receiver and release of fault reports. */
export interface FaultReportsOptions {
  /** The part of the program, and its version: `vedette-agent@8.4.0`. */
  release: string
  /** Opens the way to the receiver; called with the first fault. */
  open(): Promise<FaultReceiver>
}

/** Time for the last report of a process. */
export const FATAL_MS = 2000
/** Faults that wait for the modules loaded with the first one. */
const WAITING_MAX = 30

/** Creates the reporter. It loads, opens and sends nothing yet. */
export function createFaultReports(options: FaultReportsOptions): FaultReports {
  return new Reports(options)
}

class Reports implements FaultReports {
  readonly #options: FaultReportsOptions
  readonly #reported = new WeakSet<object>()
  readonly #counts = new Map<FaultOutcome, number>(FAULT_OUTCOMES.map((one) => [one, 0]))
  #sending: Promise<FaultSending | undefined> | undefined
  #waiting = 0

  constructor(options: FaultReportsOptions) {
    this.#options = options
  }

  report(fault: unknown): void {
    if (!this.#isNew(fault)) return
    if (this.#waiting >= WAITING_MAX) return this.#count('overflow')
    this.#waiting++
    void this.#sendLoaded(fault)
  }

  logged(error: unknown): void {
    const code = error instanceof Error ? (error as { code?: unknown }).code : ''
    if (typeof code !== 'string' || !OPERATION.test(code)) this.report(error)
  }

  async last(fault: unknown): Promise<void> {
    this.#isNew(fault)
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, FATAL_MS)))
    const sent = this.#load().then((sending) => sending?.sendLast(fault, FATAL_MS))
    await Promise.race([sent.catch(() => undefined), late])
    clearTimeout(timer)
  }

  registerMetrics(registry: Registry): void {
    const counts = this.#counts
    const counter: Counter<'outcome'> = new Counter({
      name: 'vedette_fault_reports_total',
      help: 'Faults of the program itself by what became of their report.',
      labelNames: ['outcome'],
      registers: [],
      collect() {
        counter.reset()
        for (const [outcome, count] of counts) counter.inc({ outcome }, count)
      },
    })
    registry.registerMetric(counter)
  }

  async #sendLoaded(fault: unknown): Promise<void> {
    const sending = await this.#load()
    this.#waiting--
    sending?.send(fault)
  }

  /** The same error can arrive several times: thrown, logged, uncaught. */
  #isNew(fault: unknown): boolean {
    if (typeof fault !== 'object' || fault === null) return true
    if (this.#reported.has(fault)) return false
    this.#reported.add(fault)
    return true
  }

  #load(): Promise<FaultSending | undefined> {
    const load = async () => {
      const { createFaultSending } = await import('./sending.ts')
      return createFaultSending(this.#options, (outcome) => this.#count(outcome))
    }
    this.#sending ??= load().catch(() => {
      this.#count('failed')
      return undefined
    })
    return this.#sending
  }

  #count(outcome: FaultOutcome): void {
    this.#counts.set(outcome, (this.#counts.get(outcome) ?? 0) + 1)
  }
}

/** Codes of errors that were foreseen: of the system, and our own. Those of Node's ERR_ are mistakes. */
const OPERATION = /^(?!ERR_)[A-Z][A-Z_]*$/
