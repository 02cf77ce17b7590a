// Faults of the program itself, told to whoever keeps it going. All of it but this door is loaded when the
// first fault is to be told; where nobody is to be told, it is not even made.
import { Counter, type Registry } from 'prom-client'
import { FAULT_OUTCOMES, type FaultOutcome, type FaultReceiver } from './fault.ts'
import type { FaultSending } from './sending.ts'

/** Tells of faults. Nothing of it throws, rejects, or holds anything up. */
export interface FaultReports {
  /** Tells of what went wrong, once for each error. */
  report(fault: unknown): void
  /** Tells of an error that was logged, unless it is one of operation: they carry a code, and are no fault. */
  logged(error: unknown): void
  /** Tells of what ends the process; resolves within FATAL_MS. */
  last(fault: unknown): Promise<void>
  /** Adds the count of what became of faults. */
  registerMetrics(registry: Registry): void
}

/** Where to tell of faults, and in which words. */
export interface FaultReportsOptions {
  /** The part of the program, and its version: `vedette-agent@8.4.0`. */
  release: string
  /** Texts that leave in no message, whatever else it holds. */
  secrets: readonly string[]
  /** Opens the way to the receiver; called with the first fault. */
  open(): Promise<FaultReceiver>
}

/** Time for the last report of a process. */
export const FATAL_MS = 2000
/** Faults that wait for what is loaded with the first one. */
const WAITING_MAX = 30

/** Makes the door. It loads, opens and sends nothing. */
export function createFaultReports(options: FaultReportsOptions): FaultReports {
  return new Reports(options)
}

class Reports implements FaultReports {
  readonly #options: FaultReportsOptions
  readonly #seen = new WeakSet<object>()
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

  /** The same error comes by several ways: thrown, logged, nowhere caught. */
  #isNew(fault: unknown): boolean {
    if (typeof fault !== 'object' || fault === null) return true
    if (this.#seen.has(fault)) return false
    this.#seen.add(fault)
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
