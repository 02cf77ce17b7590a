// The sink of an agent with a platform: every result goes to the spool, then out in batches. Fresh results have a
// sender of their own, so that they do not wait behind hours of older ones.
import type { Registry } from 'prom-client'
import type { Result } from '../../contract/result.ts'
import type { Log } from '../../process/log.ts'
import { createRepeatedLog } from '../../process/repeated-log.ts'
import { Condition } from '../platform/condition.ts'
import type { FileStaging, ResultSink } from '../sink.ts'
import { ArtifactSpool } from './artifact-spool.ts'
import { startArtifactUpload, type ArtifactUpload } from './artifact-upload.ts'
import { DroppedSpans } from './dropped-spans.ts'
import { createTally, oldestAgeMs, registerDeliveryMetrics } from './metrics.ts'
import { ResultSender, type DeliveryLink } from './result-sender.ts'
import type { AgentFolder } from './spool/agent-folder.ts'
import { BATCH, Spool, type MemoryBounds } from './spool/spool.ts'
import type { StoredResults } from './spool/stored-results.ts'
import { createFullness, wireText } from './wire-result.ts'

/** The platform's latest settings of delivery. */
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
  memoryBounds?: MemoryBounds
}

/** Fresh results wait for each other at most this long. */
const BATCH_MS_MAX = 1000
/** How often to look for spools of agents that have ended. */
const ADOPT_MS = 60_000

/** Opens the spool and begins to deliver its results. Never rejects. */
export async function createDelivery(options: DeliveryOptions): Promise<Delivery> {
  const delivery = new Delivery(options)
  await delivery.open()
  return delivery
}

export class Delivery implements ResultSink {
  /** Stores files of runs until they are delivered. */
  readonly files: FileStaging
  readonly #options: DeliveryOptions
  readonly #tally = createTally()
  readonly #stop = new AbortController()
  /** Conditions: something to do for the sender of fresh results, and for that of old ones. */
  readonly #fresh = new Condition()
  readonly #old = new Condition()
  readonly #settled = new Condition()
  readonly #isFull: (result: Result) => boolean
  readonly #dropped: DroppedSpans
  readonly #spool: Spool
  readonly #artifacts: ArtifactSpool
  #senders: ResultSender[] = []
  #upload: ArtifactUpload | undefined
  #lastBatchAtMs = -Infinity
  #adoptAtMs = -Infinity
  #isFlushing = false
  #flushed: Promise<void> | undefined

  constructor(options: DeliveryOptions) {
    const { folder, log, spoolBytesMax: bytesMax, settings } = options
    this.#options = options
    this.#dropped = new DroppedSpans(folder)
    this.#isFull = createFullness(() => settings().fullPassedEveryMs)
    this.#artifacts = new ArtifactSpool({
      folder,
      log,
      bytesMax: () => bytesMax - this.#spool.bytes,
      tally: this.#tally,
    })
    this.#spool = new Spool({
      folder,
      bytesMax,
      log,
      dropped: this.#dropped,
      shareRoom: (bytes) => this.#artifacts.makeRoom(bytes),
      onMore: () => this.#notify(),
      memoryBounds: options.memoryBounds,
    })
    this.files = {
      bytesMax: () => settings().artifactBytesMax,
      stage: (path, artifact) => this.#artifacts.stage(path, artifact),
    }
  }

  async open(): Promise<void> {
    const { folder, log, link } = this.#options
    if (folder.path === undefined) {
      log.error(
        { reason: folder.problem },
        'nothing can be stored on disk; results are kept in memory',
      )
    }
    await this.#load()
    const { signal } = this.#stop
    const warn = createRepeatedLog(log)
    const shared = {
      link,
      agentId: () => folder.id,
      dropped: this.#dropped,
      tally: this.#tally,
      log,
      warn,
      signal,
      forget: (stored: StoredResults) => this.#spool.forget(stored),
      onSettled: () => this.#onSettled(),
    }
    this.#senders = [
      new ResultSender({ ...shared, next: () => this.#nextFresh() }),
      new ResultSender({ ...shared, next: () => this.#nextOld() }),
    ]
    this.#upload = startArtifactUpload({
      ...shared,
      spool: this.#artifacts,
      oldestResultAt: () => this.#spool.oldestAt(),
    })
    folder.onAvailable(() => void this.#onFolder())
    signal.addEventListener('abort', () => this.#notify())
  }

  /**
   * Resolves when the result is safe on disk; without a disk, when it is delivered.
   * Rejects when it is lost for want of room.
   */
  async deliver(result: Result): Promise<void> {
    this.#tally.produced++
    const text = wireText(result, this.#isFull(result))
    const safe = this.#spool.append(text, result.onDemand !== undefined)
    if (result.artifacts.length === 0) return safe
    await Promise.all([safe, this.#artifacts.commit(result)])
    this.#upload?.notify()
  }

  /** The platform answers: waiting attempts start at once. */
  hurry(): void {
    for (const sender of this.#senders) sender.hurry()
  }

  /**
   * Ends delivery: tries to deliver what is left for `deadlineMs`, and no longer than makes sense; the rest
   * stays on disk for the next start. Never rejects.
   */
  flush(deadlineMs: number): Promise<void> {
    this.#flushed ??= this.#flush(deadlineMs)
    return this.#flushed
  }

  /** For `/health`. */
  facts(): Record<string, unknown> {
    const { produced, delivered, refused } = this.#tally
    const results = {
      produced,
      adopted: this.#spool.found,
      delivered,
      refused: [...refused.values()].reduce((sum, one) => sum + one, 0),
      lost: Object.values(this.#spool.lost).reduce((sum, one) => sum + one, 0),
      waiting: this.#spool.waiting,
      oldestSeconds: Math.round(oldestAgeMs(this.#spool) / 1000),
      spoolBytes: this.#spool.bytes,
      keptOnDisk: this.#spool.problem === undefined,
      problem: this.#problem(),
      artifacts: this.#artifacts.count(),
    }
    return { delivery: results }
  }

  /** For readiness: problems that do not stop the agent. */
  warnings(): string[] {
    const disk = this.#spool.problem
    const problem = this.#problem()
    return [
      ...(disk === undefined ? [] : [`results are in memory, not on disk: ${disk}`]),
      ...(problem === undefined
        ? []
        : [`results cannot be delivered: ${problem.code} ${problem.message}`]),
    ]
  }

  registerMetrics(registry: Registry): void {
    registerDeliveryMetrics(registry, this.#tally, this.#spool, this.#artifacts)
  }

  async #load(): Promise<void> {
    await this.#dropped.load()
    await this.#artifacts.load()
    await this.#spool.load()
  }

  /** The folder became available. */
  async #onFolder(): Promise<void> {
    if (this.#flushed !== undefined) return
    await this.#load()
    this.#options.log.info('results are stored on disk from now on')
    this.#notify()
  }

  #notify(): void {
    this.#fresh.notify()
    this.#old.notify()
  }

  #onSettled(): void {
    this.#settled.notify()
    if (this.#artifacts.next(this.#spool.oldestAt()) !== undefined) this.#upload?.notify()
  }

  async #nextFresh(): Promise<StoredResults[] | undefined> {
    const spool = this.#spool
    while (!this.#stop.signal.aborted) {
      const results = spool.recentResults
      const waitMs = this.#lastBatchAtMs + BATCH_MS_MAX - performance.now()
      const isDue = waitMs <= 0 || spool.isUrgent || this.#isFlushing || results >= BATCH.results
      if (results === 0) await this.#fresh.wait()
      else if (!isDue) await this.#fresh.wait(waitMs)
      else {
        this.#lastBatchAtMs = performance.now()
        return spool.takeRecent()
      }
    }
    return undefined
  }

  async #nextOld(): Promise<StoredResults[] | undefined> {
    while (!this.#stop.signal.aborted) {
      const some = await this.#spool.takeOld()
      if (some.length > 0) return some
      const adoptInMs = this.#adoptAtMs - performance.now()
      if (this.#isFlushing) await this.#old.wait()
      else if (adoptInMs > 0) await this.#old.wait(adoptInMs)
      else if (!(await this.#spool.adopt())) this.#adoptAtMs = performance.now() + ADOPT_MS
    }
    return undefined
  }

  async #flush(deadlineMs: number): Promise<void> {
    const untilMs = performance.now() + deadlineMs
    const spool = this.#spool
    this.#isFlushing = true
    spool.flush()
    this.#notify()
    this.hurry()
    const failures = () => this.#senders.reduce((sum, one) => sum + one.failures, 0)
    const before = failures()
    while (spool.waiting > 0) {
      const leftMs = untilMs - performance.now()
      const isPointless = failures() > before && spool.problem === undefined
      if (leftMs <= 0 || isPointless) break
      await this.#settled.wait(leftMs)
    }
    this.#stop.abort()
    await Promise.all(this.#senders.map(({ ended }) => ended))
    await this.#upload?.ended
    await spool.close()
    if (spool.waiting > 0) {
      const facts = { results: spool.waiting }
      this.#options.log.info(facts, 'undelivered results stay on disk for the next start')
    }
    await this.#dropped.flush()
  }

  #problem(): ResultSender['problem'] {
    return this.#senders.map(({ problem }) => problem).find((one) => one !== undefined)
  }
}
