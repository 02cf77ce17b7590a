// The sink of an agent with a platform: every result goes to the spool, then out in batches. Fresh results have a
// queue of their own, so that they do not wait behind hours of older ones.
import { createRepeatedLog, type LogRepeated } from '../../process/repeated-log.ts'
import { join } from 'node:path'
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import type { Result } from '../../contract/result.ts'
import type { AgentCipher } from './spool/agent-cipher.ts'
import { ArtifactSpool } from './artifact-spool.ts'
import { startArtifactUpload, type ArtifactUpload } from './artifact-upload.ts'
import { createBatchSender } from './batch-sender.ts'
import type { Delivery, DeliveryOptions } from './sink.ts'
import { createCondition } from '../platform/condition.ts'
import { DeliveryQueue, type Batch } from './delivery-queue.ts'
import { DroppedSpans } from './dropped-spans.ts'
import { createDeliveryMetrics, count, createTally, type DeliveryTally } from './metrics.ts'
import { RECENT_BOUNDS, RecentResults } from './recent-results.ts'
import type { FileStaging } from '../sink.ts'
import { createSpoolAdoption, spoolName, InheritedSpools } from './spool/adoption.ts'
import type { StoredResults, Loss } from './stored-results.ts'
import { openSpool, type Spool } from './spool/spool.ts'
import { createFullness, wireText } from './wire-result.ts'

/** Fresh results wait for each other at most this long. */
const BATCH_MS_MAX = 1000
/** How often to look for spools of agents that have ended. */
const ADOPT_MS = 60_000
const BATCH = { results: PROTOCOL_BOUNDS.resultsPerBatchMax, bytes: PROTOCOL_BOUNDS.batchBytesMax }

/** Opens the spool and begins to deliver its results. Never rejects. */
export async function createDelivery(options: DeliveryOptions): Promise<Delivery> {
  const delivery = new RunningDelivery(options)
  await delivery.open()
  return delivery
}

class RunningDelivery implements Delivery {
  readonly files: FileStaging = {
    bytesMax: () => this.#options.settings().artifactBytesMax,
    stage: (path, artifact) =>
      this.#artifacts?.stage(path, artifact) ?? Promise.resolve('nothing can be kept on disk'),
  }
  readonly #options: DeliveryOptions
  readonly #tally: DeliveryTally = createTally()
  readonly #stop = new AbortController()
  readonly #fresh = createCondition()
  readonly #old = createCondition()
  readonly #settled = createCondition()
  readonly #recent: RecentResults
  readonly #isFull: (result: Result) => boolean
  readonly #inherited: InheritedSpools
  readonly #metrics: () => Promise<string>
  readonly #dropped: DroppedSpans
  #spool!: Spool
  #freshQueue!: DeliveryQueue
  #oldQueue!: DeliveryQueue
  #artifacts: ArtifactSpool | undefined
  #upload: ArtifactUpload | undefined
  /** Read back, but too large for the batch before it. */
  #ahead: { stored: StoredResults; spool: Spool } | undefined
  #lastBatchAt = -Infinity
  #isFlushing = false
  #flushed: Promise<void> | undefined
  /** Results that the queues deliver now; without a copy on disk they are lost when the queues end. */
  readonly #inHand = new Map<StoredResults, Spool>()

  constructor(options: DeliveryOptions) {
    this.#options = options
    this.#dropped = new DroppedSpans(options.folder)
    this.#recent = new RecentResults(() => this.#spool, options.recentBounds ?? RECENT_BOUNDS)
    this.#isFull = createFullness(() => options.settings().fullPassedEveryMs)
    this.#inherited = new InheritedSpools(createSpoolAdoption(options.folder, options.log))
    this.#metrics = createDeliveryMetrics(this.#tally, {
      waiting: () => this.#waiting(),
      adopted: () => this.#adopted(),
      spoolBytes: () => this.#spool.bytes() + this.#inherited.bytes(),
      oldestAgeMs: () => this.#oldestAgeMs(),
      lost: () => this.#lost(),
      damagedPlaces: () => this.#spool.damagedPlaces + this.#inherited.damagedPlaces(),
      keptOnDisk: () => this.#problem() === undefined,
      foreignBytes: () => this.#inherited.foreignBytes(),
      artifactsWaiting: () => this.#artifacts?.count() ?? 0,
      artifactBytes: () => this.#artifacts?.bytes() ?? 0,
    })
  }

  async open(): Promise<void> {
    const { folder, spoolBytesMax, log, link, openFile } = this.#options
    const { path, cipher } = folder
    if (path === undefined) {
      log.error({ reason: folder.problem }, 'nothing can be kept on disk; results are in memory')
    }
    await this.#dropped.load()
    this.#spool = await openSpool({
      folder: path === undefined ? undefined : join(path, spoolName(cipher.fingerprint)),
      cipher,
      bytesMax: spoolBytesMax,
      log,
      isHeld: () => folder.isHeld(),
      shareRoom: (bytes) => this.#artifacts?.makeRoom(bytes),
      dropped: this.#dropped,
      onStored: (stored) => this.#onStored(stored),
      onRecovered: () => void this.#rescue(),
      ...(openFile === undefined ? {} : { openFile }),
    })
    const send = createBatchSender(link, this.#options.agentId ?? (() => folder.id), this.#dropped)
    const warn = createRepeatedLog(log)
    const createQueue = (next: () => Promise<Batch | undefined>) =>
      new DeliveryQueue({
        next,
        send: async (entries, signal) => {
          const outcome = await send(entries, signal)
          if (outcome.action !== 'done') setImmediate(() => this.#settled.notify())
          return outcome
        },
        tally: this.#tally,
        log,
        warn,
        signal: this.#stop.signal,
      })
    this.#freshQueue = createQueue(() => this.#nextFresh())
    this.#oldQueue = createQueue(() => this.#nextOld())
    await this.#openInherited(warn)
    folder.onAvailable(() => void this.#moveToDisk(warn))
    this.#stop.signal.addEventListener('abort', () => {
      this.#fresh.notify()
      this.#old.notify()
    })
  }

  deliver(result: Result): Promise<void> {
    this.#tally.produced++
    const text = wireText(result, this.#isFull(result))
    const safe = this.#spool.append(text, result.onDemand !== undefined)
    if (this.#artifacts === undefined || result.artifacts.length === 0) return safe
    const committed = this.#artifacts.commit(result)
    return Promise.all([safe, committed]).then(() => this.#upload?.notify())
  }

  async #openInherited(warn: LogRepeated): Promise<void> {
    await this.#inherited.openOwn()
    await this.#openArtifacts(warn)
    this.#old.notify()
  }

  /** The folder became available. */
  async #moveToDisk(warn: LogRepeated): Promise<void> {
    const { path, cipher } = this.#options.folder
    if (path === undefined || this.#flushed !== undefined) return
    await this.#dropped.load()
    await this.#spool.moveTo(join(path, spoolName(cipher.fingerprint)))
    await this.#openInherited(warn)
  }

  async #openArtifacts(warn: LogRepeated): Promise<void> {
    const { folder, spoolBytesMax, log, link } = this.#options
    if (folder.path === undefined) return
    const { path } = folder
    const placeOf = (cipher: AgentCipher) => {
      return { folder: join(path, `artifacts.${cipher.fingerprint}`), cipher }
    }
    const spool = new ArtifactSpool({
      ...placeOf(folder.cipher),
      former: folder.formerCiphers.map(placeOf),
      log,
      bytesMax: () => spoolBytesMax - this.#spool.bytes(),
      onDropped: () => count(this.#tally.artifacts, 'dropped'),
    })
    await spool.load()
    this.#artifacts = spool
    const { signal } = this.#stop
    const oldestResultAt = () => this.#oldestAt()
    const tally = this.#tally
    this.#upload = startArtifactUpload({
      spool,
      link,
      tally,
      log,
      warn,
      oldestResultAt,
      signal,
    })
  }

  hurry(): void {
    this.#freshQueue.hurry()
    this.#oldQueue.hurry()
  }

  flush(deadlineMs: number): Promise<void> {
    this.#flushed ??= this.#flush(deadlineMs)
    return this.#flushed
  }

  #onStored(stored: StoredResults): void {
    this.#recent.push(stored)
    this.#fresh.notify()
    if (this.#spool.hasOld() || this.#recent.hasStranded()) this.#old.notify()
  }

  async #nextFresh(): Promise<Batch | undefined> {
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

  async #nextOld(): Promise<Batch | undefined> {
    while (!this.#stop.signal.aborted) {
      const stranded = this.#recent.takeStranded(BATCH)
      if (stranded.length > 0) return this.#batch(stranded, this.#spool)
      const own = await this.#readBack(this.#spool)
      if (own.length > 0) return this.#batch(own, this.#spool)
      const adopted = await this.#nextAdopted()
      if (adopted !== undefined) return adopted
      if (!this.#isFlushing) await this.#old.wait(ADOPT_MS)
      else await this.#old.wait()
    }
    return undefined
  }

  async #nextAdopted(): Promise<Batch | undefined> {
    if (this.#isFlushing) return undefined
    for (;;) {
      const adopted = await this.#inherited.present()
      if (adopted === undefined) return undefined
      const stored = await this.#readBack(adopted.spool)
      if (stored.length > 0) return this.#batch(stored, adopted.spool)
      await this.#inherited.close(adopted)
    }
  }

  async #readBack(spool: Spool): Promise<StoredResults[]> {
    const batch: StoredResults[] = []
    let [results, bytes] = [0, 0]
    for (;;) {
      const ahead = this.#ahead?.spool === spool ? this.#ahead.stored : undefined
      if (ahead !== undefined) this.#ahead = undefined
      const stored = ahead ?? (await spool.next())
      if (stored === undefined) return batch
      results += stored.entries.length
      bytes += stored.bytes
      if (batch.length > 0 && (results > BATCH.results || bytes > BATCH.bytes)) {
        this.#ahead = { stored, spool }
        return batch
      }
      batch.push(stored)
    }
  }

  #batch(stored: StoredResults[], spool: Spool): Batch {
    for (const one of stored) this.#inHand.set(one, spool)
    return {
      stored,
      forget: async (done) => {
        for (const one of done) this.#inHand.delete(one)
        await spool.forget(done)
        this.#settled.notify()
        if (this.#artifacts?.next(this.#oldestAt()) !== undefined) this.#upload?.notify()
      },
    }
  }

  async #flush(deadlineMs: number): Promise<void> {
    const until = performance.now() + deadlineMs
    this.#isFlushing = true
    await this.#spool.flush()
    this.#fresh.notify()
    this.#old.notify()
    this.hurry()
    const before = this.#failureCount()
    while (this.#spool.waiting > 0) {
      const leftMs = until - performance.now()
      const isPointless = this.#failureCount() > before && this.#isAllOnDisk()
      if (leftMs <= 0 || isPointless) break
      await this.#settled.wait(leftMs)
    }
    this.#stop.abort()
    await Promise.all([this.#freshQueue.ended, this.#oldQueue.ended, this.#upload?.ended])
    if (this.#problem() === undefined) await this.#rescue()
    this.#releaseAll()
    const { log } = this.#options
    if (this.#spool.waiting > 0) {
      log.info({ results: this.#spool.waiting }, 'results stay on disk, for the next start')
    }
    await this.#inherited.closeAll()
    await this.#spool.close()
    await this.#dropped.flush()
  }

  /** The disk works again: writes results that are only in memory, those in delivery included. Never rejects. */
  async #rescue(): Promise<void> {
    await this.#recent.rescue()
    for (const [stored, spool] of this.#inHand) {
      if (spool === this.#spool && stored.segment === undefined) await spool.rescue(stored)
    }
    this.#old.notify()
  }

  #releaseAll(): void {
    if (this.#ahead !== undefined) this.#inHand.set(this.#ahead.stored, this.#ahead.spool)
    for (const [stored, spool] of this.#inHand) if (!spool.giveBack(stored)) spool.drop(stored)
    this.#recent.giveUp(this.#recent.empty())
  }

  #failureCount(): number {
    return this.#freshQueue.failures + this.#oldQueue.failures
  }

  #isAllOnDisk(): boolean {
    return this.#problem() === undefined && !this.#recent.hasStranded()
  }

  #problem(): string | undefined {
    return this.#options.folder.problem ?? this.#spool.problem
  }

  #waiting(): number {
    const settled = this.#freshQueue.settledBefore + this.#oldQueue.settledBefore
    return this.#spool.waiting + this.#inherited.waiting() - settled
  }

  /** Results of other processes that this one delivers. */
  #adopted(): number {
    return this.#spool.found + this.#inherited.found()
  }

  #lost(): Record<Loss, number> {
    const of = (reason: Loss) => this.#spool.lost[reason] + this.#inherited.lost(reason)
    return { full: of('full'), damaged: of('damaged'), memory: of('memory') }
  }

  /** When the oldest waiting result came; Infinity when there is none. */
  #oldestAt(): number {
    if (this.#waiting() === 0) return Infinity
    const spools = [this.#spool.oldestAt(), this.#inherited.oldestAt()]
    const inHand = [...this.#inHand.keys()].map(({ at }) => at)
    return Math.min(this.#recent.oldestAt(), ...spools, ...inHand)
  }

  #oldestAgeMs(): number {
    const oldest = this.#oldestAt()
    return oldest === Infinity ? 0 : Math.max(0, Date.now() - oldest)
  }

  facts(): Record<string, unknown> {
    const { produced, delivered, refused } = this.#tally
    const results = {
      produced,
      adopted: this.#adopted(),
      delivered,
      refused: [...refused.values()].reduce((sum, one) => sum + one, 0),
      lost: Object.values(this.#lost()).reduce((sum, one) => sum + one, 0),
      waiting: this.#waiting(),
      oldestSeconds: Math.round(this.#oldestAgeMs() / 1000),
      spoolBytes: this.#spool.bytes(),
      keptOnDisk: this.#problem() === undefined,
      problem: this.#freshQueue.problem ?? this.#oldQueue.problem,
      artifacts: this.#artifacts?.count() ?? 0,
    }
    return { delivery: results }
  }

  warnings(): string[] {
    const disk = this.#problem()
    const problem = this.#freshQueue.problem ?? this.#oldQueue.problem
    return [
      ...(disk === undefined ? [] : [`results are kept in memory, not on disk: ${disk}`]),
      ...(problem === undefined
        ? []
        : [`results cannot be delivered: ${problem.code} ${problem.message}`]),
    ]
  }

  metricsText(): Promise<string> {
    return this.#metrics()
  }
}
