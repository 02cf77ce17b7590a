// Delivers batches one after the other: sends, tries again, halves what is refused until the culprit is
// alone, and tells the spool what it may forget.
import type { Log } from '../../process/log.ts'
import { createCondition, type Condition } from '../platform/condition.ts'
import type { BatchOutcome } from './batch-sender.ts'
import { waitBefore } from './actions.ts'
import { count, type DeliveryTally } from './tally.ts'
import type { Kept } from './stored-results.ts'

/** Results to be delivered as one batch, with the spool that keeps them. */
export interface Batch {
  kept: readonly Kept[]
  forget(kept: readonly Kept[]): Promise<void>
}

/** What a lane needs. */
export interface LaneOptions {
  /** Waits for the next batch; undefined: there are no more. */
  take(): Promise<Batch | undefined>
  send(entries: readonly string[], signal: AbortSignal): Promise<BatchOutcome>
  tally: DeliveryTally
  log: Log
  complain: (key: string, facts: Record<string, unknown>, message: string) => void
  signal: AbortSignal
}

interface Piece {
  entries: { text: string; kept: Kept }[]
  forget: Batch['forget']
}

/** Batches that may be given up one result after another without one that is taken between them. */
const DROPS_IN_A_ROW_MAX = 10

/** One batch in flight at a time. */
export class DeliveryLane {
  /** Why the last batch was not delivered. */
  problem: { word: string; message: string; action: string } | undefined
  /** Settles when the lane has ended. */
  readonly ended: Promise<void>
  readonly #options: LaneOptions
  readonly #condition: Condition = createCondition()
  #pieces: Piece[] = []
  /** Results of a frame that are not settled yet; only of frames that were split. */
  readonly #left = new Map<Kept, number>()
  /** Batches that were not delivered since the start. */
  failures = 0
  /** Results that are settled while others of their frame are not. */
  settledBefore = 0
  #inARow = 0
  #dropsInARow = 0
  #isWaiting = false

  constructor(options: LaneOptions) {
    this.#options = options
    options.signal.addEventListener('abort', () => this.#condition.ring(), { once: true })
    this.ended = this.#run()
  }

  /** Tries at once instead of when its time has come. */
  hurry(): void {
    if (this.#isWaiting) this.#condition.ring()
  }

  /** Whether nothing is in hand. */
  isIdle(): boolean {
    return this.#pieces.length === 0
  }

  async #run(): Promise<void> {
    const { signal } = this.#options
    while (!signal.aborted) {
      const piece = this.#pieces.at(-1) ?? (await this.#takePiece())
      if (piece === undefined) return
      const outcome = await this.#options.send(
        piece.entries.map(({ text }) => text),
        signal,
      )
      await this.#take(piece, outcome)
    }
  }

  async #takePiece(): Promise<Piece | undefined> {
    const batch = await this.#options.take()
    if (batch === undefined) return undefined
    const entries = batch.kept.flatMap((kept) => kept.entries.map((text) => ({ text, kept })))
    for (const kept of batch.kept) this.#left.set(kept, kept.entries.length)
    const piece = { entries, forget: (kept: readonly Kept[]) => batch.forget(kept) }
    this.#pieces.push(piece)
    return piece
  }

  async #take(piece: Piece, outcome: BatchOutcome): Promise<void> {
    const { tally, signal } = this.#options
    tally.bytesSent += outcome.bytes
    if (outcome.word === 'ABORTED' && signal.aborted) return
    count(tally.batches, outcome.action === 'done' ? 'done' : outcome.word)
    if (outcome.action === 'done') return this.#onDone(piece, outcome)
    const { entries } = piece
    if (outcome.action === 'halve' && entries.length > 1) {
      const middle = Math.ceil(entries.length / 2)
      this.#pieces.pop()
      this.#pieces.push({ ...piece, entries: entries.slice(middle) })
      this.#pieces.push({ ...piece, entries: entries.slice(0, middle) })
      return undefined
    }
    // When nothing at all is taken it is not the results' fault, and they are not given up so fast.
    const isDropped = outcome.action === 'halve'
    if (isDropped) await this.#drop(piece, outcome)
    if (isDropped && this.#dropsInARow < DROPS_IN_A_ROW_MAX) return undefined
    return this.#wait(isDropped ? 'hold' : (outcome.action as 'retry' | 'hold'), outcome)
  }

  async #onDone(piece: Piece, { answer }: BatchOutcome): Promise<void> {
    const { tally, complain, log } = this.#options
    if (this.problem !== undefined) log.info('results are delivered again')
    this.problem = undefined
    this.#inARow = 0
    this.#dropsInARow = 0
    const refused = answer?.refused ?? []
    for (const { index, code, message } of refused) {
      count(tally.refused, code)
      const facts = { code, reason: message, ...nameOf(piece.entries[index]?.text) }
      complain(`refused ${code}`, facts, 'the platform refused a result')
    }
    tally.delivered += piece.entries.length - refused.length
    await this.#settle(piece)
  }

  async #drop(piece: Piece, outcome: BatchOutcome): Promise<void> {
    const { tally, complain } = this.#options
    const { word, message } = outcome
    this.#dropsInARow++
    count(tally.refused, `HTTP_${word}`)
    const facts = { status: word, reason: message, ...nameOf(piece.entries[0]?.text) }
    complain(`dropped ${word}`, facts, 'a result is given up: the platform refuses its batch')
    await this.#settle(piece)
  }

  async #settle(piece: Piece): Promise<void> {
    this.#pieces.pop()
    const done: Kept[] = []
    for (const { kept } of piece.entries) {
      const left = (this.#left.get(kept) ?? 1) - 1
      if (left > 0) {
        this.#left.set(kept, left)
        this.settledBefore++
      } else {
        this.#left.delete(kept)
        this.settledBefore -= kept.entries.length - 1
        done.push(kept)
      }
    }
    await piece.forget(done)
  }

  async #wait(action: 'retry' | 'hold', outcome: BatchOutcome): Promise<void> {
    const { log, signal } = this.#options
    const { word, message, retryAfter } = outcome
    this.failures++
    this.#inARow++
    if (this.problem?.word !== word) {
      log.warn({ outcome: word, reason: message }, 'results cannot be delivered; they are kept')
    }
    this.problem = { word, message, action }
    const failures = this.#inARow
    const ms = waitBefore({ action, failures, retryAfter, nowMs: Date.now() })
    this.#isWaiting = true
    if (!signal.aborted) await this.#condition.wait(ms)
    this.#isWaiting = false
  }
}

/** Which result it is, for the log. */
function nameOf(text: string | undefined): { monitorId?: unknown; slot?: unknown } {
  if (text === undefined) return {}
  const { monitorId, slot } = JSON.parse(text) as Record<string, unknown>
  return { monitorId, slot }
}
