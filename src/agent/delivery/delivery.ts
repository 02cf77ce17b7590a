// The sink of an agent with a platform: every result goes to the spool, then out in batches, fresh ones on a
// lane of their own so that they do not wait behind hours of older ones.
import { join } from 'node:path'
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import type { Result } from '../../contract/result.ts'
import type { AgentCipher } from './spool/agent-cipher.ts'
import { ArtifactSpool } from './artifact-spool.ts'
import { startArtifactUpload, type ArtifactUpload } from './artifact-upload.ts'
import { createBatchSender } from './batch-sender.ts'
import type { Delivery, DeliveryOptions } from './sink.ts'
import { createCondition } from '../platform/condition.ts'
import { DeliveryLane, type Batch } from './delivery-queue.ts'
import { DroppedSpans } from './dropped-spans.ts'
import { createDeliveryMetrics } from './metrics.ts'
import { count, createComplaints, createTally, type Complain, type DeliveryTally } from './tally.ts'
import { RECENT_BOUNDS, RecentResults } from './recent-results.ts'
import type { FileKeep } from '../sink.ts'
import { createSpoolAdoption, spoolName } from './spool/adoption.ts'
import { InheritedSpools } from './spool/inherited-spools.ts'
import type { Kept, Loss } from './stored-results.ts'
import { openSpool, type Spool } from './spool/spool.ts'
import { createFullness, wireText } from './wire-result.ts'

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
  readonly files: FileKeep = {
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
  #freshLane!: DeliveryLane
  #oldLane!: DeliveryLane
  #artifacts: ArtifactSpool | undefined
  #upload: ArtifactUpload | undefined
  /** Read back, but too much for the batch before it. */
  #ahead: { kept: Kept; spool: Spool } | undefined
  #lastBatchAt = -Infinity
  #isFlushing = false
  #flushed: Promise<void> | undefined
  /** Held by lanes; what of it lies nowhere else is lost when they are ended. */
  readonly #inHand = new Map<Kept, Spool>()

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
      onKept: (kept) => this.#onKept(kept),
      onRecovered: () => void this.#rescue(),
      ...(openFile === undefined ? {} : { openFile }),
    })
    const send = createBatchSender(link, this.#options.agentId ?? (() => folder.id), this.#dropped)
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
    await this.#openInherited(complain)
    folder.onTaken(() => void this.#moveToDisk(complain))
    this.#stop.signal.addEventListener('abort', () => {
      this.#fresh.ring()
      this.#old.ring()
    })
  }

  deliver(result: Result): Promise<void> {
    this.#tally.produced++
    const text = wireText(result, this.#isFull(result))
    const safe = this.#spool.append(text, result.onDemand !== undefined)
    if (this.#artifacts === undefined || result.artifacts.length === 0) return safe
    const claimed = this.#artifacts.claim(result)
    return Promise.all([safe, claimed]).then(() => this.#upload?.ring())
  }

  async #openInherited(complain: Complain): Promise<void> {
    await this.#inherited.openOwn()
    await this.#openArtifacts(complain)
    this.#old.ring()
  }

  /** There is a folder after all. */
  async #moveToDisk(complain: Complain): Promise<void> {
    const { path, cipher } = this.#options.folder
    if (path === undefined || this.#flushed !== undefined) return
    await this.#dropped.load()
    await this.#spool.moveTo(join(path, spoolName(cipher.fingerprint)))
    await this.#openInherited(complain)
  }

  async #openArtifacts(complain: Complain): Promise<void> {
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
      complain,
      oldestResultAt,
      signal,
    })
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
    for (;;) {
      const adopted = await this.#inherited.present()
      if (adopted === undefined) return undefined
      const kept = await this.#readBack(adopted.spool)
      if (kept.length > 0) return this.#batch(kept, adopted.spool)
      await this.#inherited.close(adopted)
    }
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
        if (this.#artifacts?.next(this.#oldestAt()) !== undefined) this.#upload?.ring()
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
    await Promise.all([this.#freshLane.ended, this.#oldLane.ended, this.#upload?.ended])
    if (this.#problem() === undefined) await this.#rescue()
    this.#letGo()
    const { log } = this.#options
    if (this.#spool.waiting > 0) {
      log.info({ results: this.#spool.waiting }, 'results stay on disk, for the next start')
    }
    await this.#inherited.closeAll()
    await this.#spool.close()
    await this.#dropped.flush()
  }

  /** The disk works: what lies in memory alone is written to it, also what is on its way. Never rejects. */
  async #rescue(): Promise<void> {
    await this.#recent.rescue()
    for (const [kept, spool] of this.#inHand) {
      if (spool === this.#spool && kept.segment === undefined) await spool.rescue(kept)
    }
    this.#old.ring()
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
    return this.#spool.waiting + this.#inherited.waiting() - settled
  }

  /** Results that this process delivers though others produced them. */
  #adopted(): number {
    return this.#spool.found + this.#inherited.found()
  }

  #lost(): Record<Loss, number> {
    const of = (reason: Loss) => this.#spool.lost[reason] + this.#inherited.lost(reason)
    return { full: of('full'), damaged: of('damaged'), memory: of('memory') }
  }

  /** When the oldest result came that waits; Infinity when there is none. */
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
      problem: this.#freshLane.problem ?? this.#oldLane.problem,
      artifacts: this.#artifacts?.count() ?? 0,
    }
    return { delivery: results }
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
