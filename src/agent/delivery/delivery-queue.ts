// Delivers batches one after the other: sends, retries, halves a refused batch until the culprit is alone, and
// reports to the spool which results it may forget.
import type { LogRepeated } from '../../process/repeated-log.ts'
import type { Log } from '../../process/log.ts'
import { createCondition, type Condition } from '../platform/condition.ts'
import { type BatchOutcome, waitBefore } from './batch-sender.ts'
import { count, type DeliveryTally } from './metrics.ts'
import type { StoredResults } from './stored-results.ts'

/** Results to be delivered as one batch, with the spool that stores them. */
export interface Batch {
  stored: readonly StoredResults[]
  forget(stored: readonly StoredResults[]): Promise<void>
}

/** What a queue needs. */
export interface DeliveryQueueOptions {
  /** Waits for the next batch; undefined: there are no more. */
  next(): Promise<Batch | undefined>
  send(entries: readonly string[], signal: AbortSignal): Promise<BatchOutcome>
  tally: DeliveryTally
  log: Log
  /** Warns of what the platform refuses. */
  warn: LogRepeated
  signal: AbortSignal
}

interface Piece {
  entries: { text: string; stored: StoredResults }[]
  forget: Batch['forget']
}

/** Results that may be dropped in a row without an accepted batch between them. */
const DROPS_IN_A_ROW_MAX = 10

/** One batch in flight at a time. */
export class DeliveryQueue {
  /** Why the last batch was not delivered. */
  problem: { code: string; message: string; action: string } | undefined
  /** Settles when the queue has ended. */
  readonly ended: Promise<void>
  readonly #options: DeliveryQueueOptions
  readonly #condition: Condition = createCondition()
  #pieces: Piece[] = []
  /** Results of a frame that are not settled yet; only of frames that were split. */
  readonly #left = new Map<StoredResults, number>()
  /** Batches that were not delivered since the start. */
  failures = 0
  /** Results that are settled while others of their frame are not. */
  settledBefore = 0
  #inARow = 0
  #dropsInARow = 0
  #isWaiting = false

  constructor(options: DeliveryQueueOptions) {
    this.#options = options
    options.signal.addEventListener('abort', () => this.#condition.notify(), { once: true })
    this.ended = this.#run()
  }

  /** Retries at once. */
  hurry(): void {
    if (this.#isWaiting) this.#condition.notify()
  }

  /** Whether no batch is in delivery. */
  isIdle(): boolean {
    return this.#pieces.length === 0
  }

  async #run(): Promise<void> {
    const { signal } = this.#options
    while (!signal.aborted) {
      const piece = this.#pieces.at(-1) ?? (await this.#nextPiece())
      if (piece === undefined) return
      const outcome = await this.#options.send(
        piece.entries.map(({ text }) => text),
        signal,
      )
      await this.#apply(piece, outcome)
    }
  }

  async #nextPiece(): Promise<Piece | undefined> {
    const batch = await this.#options.next()
    if (batch === undefined) return undefined
    const entries = batch.stored.flatMap((stored) =>
      stored.entries.map((text) => ({ text, stored })),
    )
    for (const stored of batch.stored) this.#left.set(stored, stored.entries.length)
    const piece = { entries, forget: (stored: readonly StoredResults[]) => batch.forget(stored) }
    this.#pieces.push(piece)
    return piece
  }

  async #apply(piece: Piece, outcome: BatchOutcome): Promise<void> {
    const { tally, signal } = this.#options
    tally.bytesSent += outcome.bytes
    if (outcome.code === 'ABORTED' && signal.aborted) return
    count(tally.batches, outcome.action === 'done' ? 'done' : outcome.code)
    if (outcome.action === 'done') return this.#onDone(piece, outcome)
    const { entries } = piece
    if (outcome.action === 'halve' && entries.length > 1) {
      const middle = Math.ceil(entries.length / 2)
      this.#pieces.pop()
      this.#pieces.push({ ...piece, entries: entries.slice(middle) })
      this.#pieces.push({ ...piece, entries: entries.slice(0, middle) })
      return undefined
    }
    // When the platform accepts nothing at all, the results are not the cause; they are dropped more slowly.
    const isDropped = outcome.action === 'halve'
    if (isDropped) await this.#drop(piece, outcome)
    if (isDropped && this.#dropsInARow < DROPS_IN_A_ROW_MAX) return undefined
    return this.#wait(isDropped ? 'hold' : (outcome.action as 'retry' | 'hold'), outcome)
  }

  async #onDone(piece: Piece, { answer }: BatchOutcome): Promise<void> {
    const { tally, warn, log } = this.#options
    if (this.problem !== undefined) log.info('results are delivered again')
    this.problem = undefined
    this.#inARow = 0
    this.#dropsInARow = 0
    const refused = answer?.refused ?? []
    for (const { index, code, message } of refused) {
      count(tally.refused, code)
      const facts = { code, reason: message, ...nameOf(piece.entries[index]?.text) }
      warn(`refused ${code}`, facts, 'the platform refused a result')
    }
    tally.delivered += piece.entries.length - refused.length
    await this.#settle(piece)
  }

  async #drop(piece: Piece, outcome: BatchOutcome): Promise<void> {
    const { tally, warn } = this.#options
    const { code, message } = outcome
    this.#dropsInARow++
    count(tally.refused, `HTTP_${code}`)
    const facts = { status: code, reason: message, ...nameOf(piece.entries[0]?.text) }
    warn(`dropped ${code}`, facts, 'a result is given up: the platform refuses its batch')
    await this.#settle(piece)
  }

  async #settle(piece: Piece): Promise<void> {
    this.#pieces.pop()
    const done: StoredResults[] = []
    for (const { stored } of piece.entries) {
      const left = (this.#left.get(stored) ?? 1) - 1
      if (left > 0) {
        this.#left.set(stored, left)
        this.settledBefore++
      } else {
        this.#left.delete(stored)
        this.settledBefore -= stored.entries.length - 1
        done.push(stored)
      }
    }
    await piece.forget(done)
  }

  async #wait(action: 'retry' | 'hold', outcome: BatchOutcome): Promise<void> {
    const { log, signal } = this.#options
    const { code, message, retryAfter } = outcome
    this.failures++
    this.#inARow++
    if (this.problem?.code !== code) {
      log.warn({ outcome: code, reason: message }, 'results cannot be delivered; they are kept')
    }
    this.problem = { code, message, action }
    const failures = this.#inARow
    const ms = waitBefore({ action, failures, retryAfter, nowMs: Date.now() })
    this.#isWaiting = true
    if (!signal.aborted) await this.#condition.wait(ms)
    this.#isWaiting = false
  }
}

/** Identifies a result in the log. */
function nameOf(text: string | undefined): { monitorId?: unknown; slot?: unknown } {
  if (text === undefined) return {}
  const { monitorId, slot } = JSON.parse(text) as Record<string, unknown>
  return { monitorId, slot }
}
