// Sends results in batches, one after the other: retries, and halves a refused batch until the culprit is alone.
import {
  PROTOCOL_BOUNDS,
  type DroppedSpan,
  type ResultsAnswer,
} from '../../contract/protocol/agent-protocol.ts'
import type { Log } from '../../process/log.ts'
import type { LogRepeated } from '../../process/repeated-log.ts'
import { Backoff } from '../platform/backoff.ts'
import { Condition } from '../platform/condition.ts'
import { jsonBody, type PlatformLink } from '../platform/link.ts'
import type { DroppedSpans } from './dropped-spans.ts'
import { count, type DeliveryTally } from './metrics.ts'
import { outcomeOf, outcomeOfError, type Outcome } from './outcome.ts'
import type { StoredResults } from './spool/stored-results.ts'

/** The part of the link to the platform that delivery uses. */
export type DeliveryLink = Pick<PlatformLink, 'request'>

export interface ResultSenderOptions {
  /** Waits for the next batch; undefined: there are no more. */
  next: () => Promise<StoredResults[] | undefined>
  /** One of the results is delivered, or refused for good. */
  forget: (stored: StoredResults) => Promise<void>
  /** A batch has been forgotten, or has failed. */
  onSettled: () => void
  link: DeliveryLink
  agentId: () => string
  dropped: DroppedSpans
  tally: DeliveryTally
  log: Log
  /** Warns of what the platform refuses. */
  warn: LogRepeated
  signal: AbortSignal
}

/** One line of a batch, and what it belongs to. */
interface Entry {
  text: string
  stored: StoredResults
}

interface BatchOutcome extends Outcome {
  /** With `done`. */
  answer?: ResultsAnswer
}

/** Results that may be dropped in a row without an accepted batch between them. */
const DROPS_IN_A_ROW_MAX = 10
/** Time for one batch to be sent and answered. */
const BATCH_MS_MAX = 30_000

const RESULTS_MAX = PROTOCOL_BOUNDS.resultsPerBatchMax

/** One batch in flight at a time. */
export class ResultSender {
  /** Why the last batch was not delivered. */
  problem: { code: string; message: string; action: string } | undefined
  /** Batches that were not delivered since the start. */
  failures = 0
  /** Settles when the sender has ended. */
  readonly ended: Promise<void>
  readonly #options: ResultSenderOptions
  readonly #condition = new Condition()
  readonly #backoff = new Backoff()
  /** The batch, or its parts; the last one is sent next. */
  #parts: Entry[][] = []
  #dropsInARow = 0
  #isWaiting = false

  constructor(options: ResultSenderOptions) {
    this.#options = options
    options.signal.addEventListener('abort', () => this.#condition.notify(), { once: true })
    this.ended = this.#run()
  }

  /** Retries at once. */
  hurry(): void {
    if (this.#isWaiting) this.#condition.notify()
  }

  async #run(): Promise<void> {
    const { next, dropped, signal } = this.#options
    while (!signal.aborted) {
      if (this.#parts.length === 0) {
        const batch = await next()
        if (batch === undefined) return
        const entries = batch.flatMap(entriesOf)
        // A file of an earlier version may have more than a batch may.
        for (let end = entries.length; end > 0; end -= RESULTS_MAX) {
          this.#parts.push(entries.slice(Math.max(0, end - RESULTS_MAX), end))
        }
      }
      const entries = this.#parts.at(-1) as Entry[]
      const lost = dropped.next()
      const outcome = await this.#send(entries, lost?.spans)
      lost?.settled(outcome.action === 'done')
      if (outcome.code === 'ABORTED' && signal.aborted) return
      await this.#apply(entries, outcome)
    }
  }

  async #send(entries: readonly Entry[], spans?: DroppedSpan[]): Promise<BatchOutcome> {
    const { link, agentId, tally, signal } = this.#options
    const dropped = spans === undefined ? '' : `,"dropped":${JSON.stringify(spans)}`
    const results = entries.map(({ text }) => text).join(',')
    const text = `{"agentId":"${agentId()}","results":[${results}]${dropped}}`
    const packed = await jsonBody(text)
    tally.bytesSent += packed.body.length
    try {
      const answer = await link.request({
        method: 'POST',
        path: '/agent/v1/results',
        ...packed,
        deadlineMs: BATCH_MS_MAX,
        signal,
      })
      const outcome = outcomeOf(answer)
      if (outcome.action !== 'done') return outcome
      const account = accountIn(answer.body, entries.length)
      if (account !== undefined) return { ...outcome, answer: account }
      const message = `unreadable answer: ${outcome.message}`
      return { ...outcome, action: 'retry', code: 'UNREADABLE', message }
    } catch (error) {
      return outcomeOfError(error)
    }
  }

  async #apply(entries: readonly Entry[], outcome: BatchOutcome): Promise<void> {
    const { tally, onSettled } = this.#options
    const { action, code, answer } = outcome
    count(tally.batches, answer === undefined ? code : 'done')
    if (answer !== undefined) return this.#onDone(entries, answer)
    if (action === 'halve' && entries.length > 1) {
      const middle = Math.ceil(entries.length / 2)
      this.#parts.splice(-1, 1, entries.slice(middle), entries.slice(0, middle))
      return undefined
    }
    if (action === 'halve') await this.#drop(entries, outcome)
    // When the platform accepts nothing at all, the results are not the cause; they are dropped more slowly.
    if (action === 'halve' && this.#dropsInARow < DROPS_IN_A_ROW_MAX) return undefined
    setImmediate(onSettled)
    return this.#wait(action === 'retry' ? 'retry' : 'hold', outcome)
  }

  async #onDone(entries: readonly Entry[], { refused }: ResultsAnswer): Promise<void> {
    const { tally, warn, log } = this.#options
    if (this.problem !== undefined) log.info('results are delivered again')
    this.problem = undefined
    this.#backoff.reset()
    this.#dropsInARow = 0
    for (const { index, code, message } of refused) {
      count(tally.refused, code)
      const facts = { code, reason: message, ...nameOf(entries[index]) }
      warn(`refused ${code}`, facts, 'the platform refused a result')
    }
    tally.delivered += entries.length - refused.length
    await this.#settle(entries)
  }

  async #drop(entries: readonly Entry[], { code, message }: Outcome): Promise<void> {
    const { tally, warn } = this.#options
    this.#dropsInARow++
    count(tally.refused, `HTTP_${code}`)
    const facts = { status: code, reason: message, ...nameOf(entries[0]) }
    warn(`dropped ${code}`, facts, 'a result is dropped: the platform refuses its batch')
    await this.#settle(entries)
  }

  async #settle(entries: readonly Entry[]): Promise<void> {
    this.#parts.pop()
    await Promise.all(entries.map(({ stored }) => this.#options.forget(stored)))
    this.#options.onSettled()
  }

  async #wait(action: 'retry' | 'hold', { code, message, askedForMs }: Outcome): Promise<void> {
    const { log, signal } = this.#options
    this.failures++
    if (this.problem?.code !== code) {
      log.warn({ outcome: code, reason: message }, 'results cannot be delivered; they stay stored')
    }
    this.problem = { code, message, action }
    const ms = action === 'hold' ? this.#backoff.slow(askedForMs) : this.#backoff.next(askedForMs)
    this.#isWaiting = true
    if (!signal.aborted) await this.#condition.wait(ms)
    this.#isWaiting = false
  }
}

function entriesOf(stored: StoredResults): Entry[] {
  return (stored.entries ?? []).map((text) => ({ text, stored }))
}

/** The answer, if it accounts for every result that was sent. */
function accountIn(body: Buffer, sent: number): ResultsAnswer | undefined {
  try {
    const answer = JSON.parse(body.toString()) as ResultsAnswer
    const { recorded, known, refused } = answer
    return recorded + known + refused.length === sent ? answer : undefined
  } catch {
    return undefined
  }
}

/** Identifies a result in the log. */
function nameOf(entry: Entry | undefined): { monitorId?: unknown; slot?: unknown } {
  if (entry === undefined) return {}
  const { monitorId, slot } = JSON.parse(entry.text) as Record<string, unknown>
  return { monitorId, slot }
}
