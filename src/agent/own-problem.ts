// A problem of the agent's own environment, such as its network: results are the first sign of it, then the agent looks
// for itself until it is over. One warning and one line when it is over, however many results suffer meanwhile.
import type { Result } from '../contract/result.ts'
import type { Log } from '../process/log.ts'

/** A problem that is there. */
export interface Found<Code extends string> {
  code: Code
  /** A sentence. */
  message: string
}

export interface OwnProblemOptions<Code extends string> {
  /** Codes of failures that are a sign of it; the most important first. */
  signs: readonly Code[]
  /** Whether the problem is there, or another one, since an instant of the monotonic clock. Never rejects. */
  look(sign: Code, sinceMs: number): Promise<Found<Code> | undefined>
  everyMs: number
  /** The line when it is over. */
  over: string
  /** Called when `code` has changed. */
  onChange?(): void
}

export class OwnProblem<Code extends string = string> {
  readonly #log: Log
  readonly #options: OwnProblemOptions<Code>
  #present: (Found<Code> & { since: string }) | undefined
  #looking: Promise<void> | undefined
  #isStopped = false
  #timer: NodeJS.Timeout | undefined

  constructor(log: Log, options: OwnProblemOptions<Code>) {
    this.#log = log
    this.#options = options
  }

  get code(): Code | undefined {
    return this.#present?.code
  }

  /** For readiness: at most one sentence. */
  warnings(): string[] {
    return this.#present === undefined ? [] : [`${this.#present.message} (${this.#present.code})`]
  }

  /** For `/health`; null while there is no problem. */
  facts(): { problem: Code; since: string } | null {
    return this.#present ? { problem: this.#present.code, since: this.#present.since } : null
  }

  /** Observes a result. */
  saw({ failures }: Pick<Result, 'failures'>): void {
    const sign = this.#options.signs.find((one) => failures.some(({ code }) => code === one))
    // A result may speak of a moment that is over.
    if (sign !== undefined && this.#present === undefined) void this.look(sign)
  }

  /** Looks now. Never rejects. */
  look(
    sign: Code = this.#options.signs[0] as Code,
    sinceMs: number = performance.now(),
  ): Promise<void> {
    this.#looking ??= this.#look(sign, sinceMs)
    return this.#looking
  }

  async #look(sign: Code, sinceMs: number): Promise<void> {
    const startedMs = performance.now()
    const found = await this.#options.look(sign, sinceMs)
    this.#looking = undefined
    this.set(found, startedMs)
  }

  /** The problem that was found, or none. */
  set(found: Found<Code> | undefined, lookedAtMs: number = performance.now()): void {
    if (this.#isStopped) return
    const before = this.#present
    const since = before?.since ?? new Date().toISOString()
    this.#present = found && { ...found, since }
    if (found === undefined && before !== undefined) this.#log.info({ since }, this.#options.over)
    if (found !== undefined && before === undefined) {
      this.#log.warn({ code: found.code }, found.message)
    }
    if (before?.code !== found?.code) this.#options.onChange?.()
    clearTimeout(this.#timer)
    if (found === undefined) return
    const again = () => void this.look(found.code, lookedAtMs)
    this.#timer = setTimeout(again, this.#options.everyMs).unref()
  }

  /** Looks no more. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }
}
