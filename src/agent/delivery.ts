// The sink of an agent with a platform: every result goes to the spool, then out in batches, fresh ones on a
// lane of their own so that they do not wait behind hours of older ones.
import { join } from 'node:path'
import { PROTOCOL_BOUNDS } from '../contract/agent-protocol.ts'
import type { Result } from '../contract/result.ts'
import type { Log } from '../host/log.ts'
import type { AgentFolder } from './agent-folder.ts'
import { createBatchSender } from './batch-sender.ts'
import { createBell } from './bell.ts'
import { DeliveryLane, type Batch } from './delivery-lane.ts'
import type { DeliveryLink } from './delivery-link.ts'
import { createDeliveryMetrics } from './delivery-metrics.ts'
import { createComplaints, createTally, type DeliveryTally } from './delivery-tally.ts'
import { RECENT_BOUNDS, RecentResults, type RecentBounds } from './recent-results.ts'
import type { ResultSink } from './sink.ts'
import { createSpoolAdoption, spoolName, type AdoptedSpool } from './spool-adoption.ts'
import { openSpool, type Kept, type Spool } from './spool.ts'
import type { OpenFile } from './spool-segment.ts'
import { createFullness, wireText } from './wire-result.ts'

/** What the platform last said about delivery. */
export interface DeliverySettings {
  fullPassedEveryMs: number
  artifactBytesMax: number
}

export interface DeliveryOptions {
  folder: AgentFolder
  link: DeliveryLink
  spoolBytesMax: number
  settings: () => DeliverySettings
  log: Log
  recentBounds?: RecentBounds
  openFile?: OpenFile
}

/** Delivers to the platform. */
export interface Delivery extends ResultSink {
  /**
   * Resolves when the result is safe on disk; where nothing can be kept on disk, when it is delivered.
   * Rejects when it is lost for want of room.
   */
  deliver(result: Result): Promise<void>
  /** The platform answers: what waits for its time is tried at once. */
  hurry(): void
  /**
   * Ends delivery: tries to deliver what is left for `deadlineMs`, and no longer than makes sense; the rest
   * stays on disk for the next start. Never rejects.
   */
  flush(deadlineMs: number): Promise<void>
  /** For `/health`. */
  facts(): Record<string, unknown>
  /** For readiness: what somebody should know, though the agent goes on. */
  warnings(): string[]
  /** Prometheus text format 0.0.4. */
  metricsText(): Promise<string>
}

/** Fresh results wait for each other at most this long. */
const BATCH_MS_MAX = 1000
/** How often to look for spools of agents that are gone. */
const ADOPT_MS = 60_000
const BATCH = { results: PROTOCOL_BOUNDS.resultsPerBatchMax, bytes: PROTOCOL_BOUNDS.batchBytesMax }

/** Opens the spool and begins to deliver what is in it. Never rejects. */
export async function createDelivery(options: DeliveryOptions): Promise<Delivery> {
  const delivery = new RunningDelivery(options)
  await delivery.open()
  return delivery
}

class RunningDelivery implements Delivery {
  readonly #options: DeliveryOptions
  readonly #tally: DeliveryTally = createTally()
  readonly #stop = new AbortController()
  readonly #fresh = createBell()
  readonly #old = createBell()
  readonly #settled = createBell()
  readonly #recent: RecentResults
  readonly #isFull: (result: Result) => boolean
  readonly #adoption
  readonly #metrics: () => Promise<string>
  #spool!: Spool
  #freshLane!: DeliveryLane
  #oldLane!: DeliveryLane
  #adopted: AdoptedSpool | undefined
  /** Read back, but too much for the batch before it. */
  #ahead: { kept: Kept; spool: Spool } | undefined
  #lastBatchAt = -Infinity
  #isFlushing = false
  #flushed: Promise<void> | undefined
  /** Held by lanes; what of it lies nowhere else is lost when they are ended. */
  readonly #inHand = new Map<Kept, Spool>()

  constructor(options: DeliveryOptions) {
    this.#options = options
    this.#recent = new RecentResults(() => this.#spool, options.recentBounds ?? RECENT_BOUNDS)
    this.#isFull = createFullness(() => options.settings().fullPassedEveryMs)
    this.#adoption = createSpoolAdoption(options.folder, options.log)
    this.#metrics = createDeliveryMetrics(this.#tally, {
      waiting: () => this.#waiting(),
      spoolBytes: () => this.#spool.bytes() + (this.#adopted?.spool.bytes() ?? 0),
      oldestAgeMs: () => this.#oldestAgeMs(),
      lost: () => this.#spool.lost,
      damagedPlaces: () => this.#spool.damagedPlaces,
      keptOnDisk: () => this.#problem() === undefined,
      foreignBytes: () => this.#adoption.foreignBytes(),
      artifactsWaiting: () => 0,
      artifactBytes: () => 0,
    })
  }

  async open(): Promise<void> {
    const { folder, spoolBytesMax, log, link, openFile } = this.#options
    const { path, seal } = folder
    if (path === undefined) {
      log.error({ reason: folder.problem }, 'nothing can be kept on disk; results are in memory')
    }
    this.#spool = await openSpool({
      folder: path === undefined ? undefined : join(path, spoolName(seal.fingerprint)),
      seal,
      bytesMax: spoolBytesMax,
      log,
      isHeld: () => folder.isHeld(),
      onKept: (kept) => this.#onKept(kept),
      onRecovered: () => void this.#recent.rescue().then(() => this.#old.ring()),
      ...(openFile === undefined ? {} : { openFile }),
    })
    const send = createBatchSender(link, folder.id)
    const complain = createComplaints(log)
    const lane = (take: () => Promise<Batch | undefined>) =>
      new DeliveryLane({
        take,
        send: async (entries, signal) => {
          const outcome = await send(entries, signal)
          if (outcome.action !== 'done') setImmediate(() => this.#settled.ring())
          return outcome
        },
        tally: this.#tally,
        log,
        complain,
        signal: this.#stop.signal,
      })
    this.#freshLane = lane(() => this.#takeFresh())
    this.#oldLane = lane(() => this.#takeOld())
    this.#stop.signal.addEventListener('abort', () => {
      this.#fresh.ring()
      this.#old.ring()
    })
  }

  deliver(result: Result): Promise<void> {
    this.#tally.produced++
    return this.#spool.append(wireText(result, this.#isFull(result)), result.onDemand !== undefined)
  }

  hurry(): void {
    this.#freshLane.hurry()
    this.#oldLane.hurry()
  }

  flush(deadlineMs: number): Promise<void> {
    this.#flushed ??= this.#flush(deadlineMs)
    return this.#flushed
  }

  #onKept(kept: Kept): void {
    this.#recent.push(kept)
    this.#fresh.ring()
    if (this.#spool.hasOld() || this.#recent.hasStranded()) this.#old.ring()
  }

  async #takeFresh(): Promise<Batch | undefined> {
    const recent = this.#recent
    while (!this.#stop.signal.aborted) {
      if (recent.results === 0) {
        await this.#fresh.wait()
        continue
      }
      const waitMs = this.#lastBatchAt + BATCH_MS_MAX - performance.now()
      const isDue = waitMs <= 0 || recent.isUrgent || this.#isFlushing
      if (isDue || recent.results >= BATCH.results) {
        this.#lastBatchAt = performance.now()
        return this.#batch(recent.take(BATCH), this.#spool)
      }
      await this.#fresh.wait(waitMs)
    }
    return undefined
  }

  async #takeOld(): Promise<Batch | undefined> {
    while (!this.#stop.signal.aborted) {
      const stranded = this.#recent.takeStranded(BATCH)
      if (stranded.length > 0) return this.#batch(stranded, this.#spool)
      const own = await this.#readBack(this.#spool)
      if (own.length > 0) return this.#batch(own, this.#spool)
      const adopted = await this.#takeAdopted()
      if (adopted !== undefined) return adopted
      if (!this.#isFlushing) await this.#old.wait(ADOPT_MS)
      else await this.#old.wait()
    }
    return undefined
  }

  async #takeAdopted(): Promise<Batch | undefined> {
    if (this.#isFlushing) return undefined
    this.#adopted ??= await this.#adoption.next()
    if (this.#adopted === undefined) return undefined
    const { spool } = this.#adopted
    const adopted = this.#adopted
    const kept = await this.#readBack(spool)
    if (kept.length > 0) return this.#batch(kept, spool)
    this.#adopted = undefined
    for (const reason of ['damaged', 'full', 'memory'] as const) {
      this.#spool.lost[reason] += spool.lost[reason]
    }
    await adopted.close()
    return undefined
  }

  async #readBack(spool: Spool): Promise<Kept[]> {
    const batch: Kept[] = []
    let [results, bytes] = [0, 0]
    for (;;) {
      const ahead = this.#ahead?.spool === spool ? this.#ahead.kept : undefined
      if (ahead !== undefined) this.#ahead = undefined
      const kept = ahead ?? (await spool.next())
      if (kept === undefined) return batch
      results += kept.entries.length
      bytes += kept.bytes
      if (batch.length > 0 && (results > BATCH.results || bytes > BATCH.bytes)) {
        this.#ahead = { kept, spool }
        return batch
      }
      batch.push(kept)
    }
  }

  #batch(kept: Kept[], spool: Spool): Batch {
    for (const one of kept) this.#inHand.set(one, spool)
    return {
      kept,
      forget: async (done) => {
        for (const one of done) this.#inHand.delete(one)
        await spool.forget(done)
        this.#settled.ring()
      },
    }
  }

  async #flush(deadlineMs: number): Promise<void> {
    const until = performance.now() + deadlineMs
    this.#isFlushing = true
    await this.#spool.flush()
    this.#fresh.ring()
    this.#old.ring()
    this.hurry()
    const before = this.#problemsSeen()
    while (this.#spool.waiting > 0) {
      const leftMs = until - performance.now()
      const isPointless = this.#problemsSeen() > before && this.#isAllOnDisk()
      if (leftMs <= 0 || isPointless) break
      await this.#settled.wait(leftMs)
    }
    this.#stop.abort()
    await Promise.all([this.#freshLane.ended, this.#oldLane.ended])
    this.#letGo()
    const { log } = this.#options
    if (this.#spool.waiting > 0) {
      log.info({ results: this.#spool.waiting }, 'results stay on disk, for the next start')
    }
    await this.#adopted?.close()
    await this.#spool.close()
  }

  #letGo(): void {
    if (this.#ahead !== undefined) this.#inHand.set(this.#ahead.kept, this.#ahead.spool)
    for (const [kept, spool] of this.#inHand) if (!spool.giveBack(kept)) spool.drop(kept)
    this.#recent.giveUp(this.#recent.empty())
  }

  #problemsSeen(): number {
    return this.#freshLane.failures + this.#oldLane.failures
  }

  #isAllOnDisk(): boolean {
    return this.#problem() === undefined && !this.#recent.hasStranded()
  }

  #problem(): string | undefined {
    return this.#options.folder.problem ?? this.#spool.problem
  }

  #waiting(): number {
    const settled = this.#freshLane.settledBefore + this.#oldLane.settledBefore
    return this.#spool.waiting + (this.#adopted?.spool.waiting ?? 0) - settled
  }

  #oldestAgeMs(): number {
    const spools = [this.#spool.oldestAt(), this.#adopted?.spool.oldestAt() ?? Infinity]
    const inHand = [...this.#inHand.keys()].map(({ at }) => at)
    const oldest = Math.min(this.#recent.oldestAt(), ...spools, ...inHand)
    return oldest === Infinity ? 0 : Math.max(0, Date.now() - oldest)
  }

  facts(): Record<string, unknown> {
    const { produced, delivered, refused } = this.#tally
    return {
      produced,
      delivered,
      refused: [...refused.values()].reduce((sum, one) => sum + one, 0),
      lost: Object.values(this.#spool.lost).reduce((sum, one) => sum + one, 0),
      waiting: this.#waiting(),
      oldestSeconds: Math.round(this.#oldestAgeMs() / 1000),
      spoolBytes: this.#spool.bytes(),
      keptOnDisk: this.#problem() === undefined,
      problem: this.#freshLane.problem ?? this.#oldLane.problem,
    }
  }

  warnings(): string[] {
    const disk = this.#problem()
    const lane = this.#freshLane.problem ?? this.#oldLane.problem
    return [
      ...(disk === undefined ? [] : [`results are kept in memory, not on disk: ${disk}`]),
      ...(lane === undefined ? [] : [`results cannot be delivered: ${lane.word} ${lane.message}`]),
    ]
  }

  metricsText(): Promise<string> {
    return this.#metrics()
  }
}
