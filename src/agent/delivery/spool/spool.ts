// Results that are not delivered yet, on disk: appended in few writes, read back oldest first and a file at a
// time, forgotten when they are delivered, bounded in bytes. A disk that fails costs safety, not results:
// they stay in memory, within a bound, until it works again.
import { mkdir, open } from 'node:fs/promises'
import type { Log } from '../../../process/log.ts'
import type { AgentCipher } from './agent-cipher.ts'
import type { DroppedSpans } from '../dropped-spans.ts'
import { type StoredResults, type Loss, createGathering, type Gathered } from '../stored-results.ts'
import { findSegments, segmentName } from './folder.ts'
import { openFrame, readFrames, type Frame } from './frame.ts'
import { SpoolDisk, within } from './disk.ts'
import { SpoolSegment, type OpenFile, type SegmentPlace } from './segment.ts'

/** What a spool needs. */
export interface SpoolOptions {
  /** Created when missing; undefined: everything stays in memory. */
  folder: string | undefined
  cipher: AgentCipher
  bytesMax: number
  log: Log
  /** Whether the folder may be written to now. */
  isHeld: () => boolean
  /** Receives results that are on disk, or cannot be; they are held until they are forgotten or given back. */
  onStored: (stored: StoredResults) => void
  /** The disk works again. */
  onRecovered?: () => void
  /** Limits the other users of the bound to this many bytes. */
  shareRoom?: (bytes: number) => void
  /** Notes which results were lost for want of room. */
  dropped?: DroppedSpans
  openFile?: OpenFile
}

/** Bytes of one file at most; of a small spool an eighth, so that little is dropped at once. */
const SEGMENT_BYTES_MAX = 4 * 1024 * 1024
/** Time limit of a write; beyond it the disk counts as failed. */
const WRITE_MS_MAX = 10_000

interface Pass {
  segment: SpoolSegment
  frames: Generator<Frame, number>
  /** Of the segment, when the pass began. */
  releases: number
}

/** Opens the spool with the results of an earlier run. Never rejects: at worst it is in memory. */
export async function openSpool(options: SpoolOptions): Promise<Spool> {
  const spool = new Spool(options)
  await spool.load()
  return spool
}

export class Spool {
  /** Results lost since the start, by reason. */
  readonly lost: Record<Loss, number> = { full: 0, damaged: 0, memory: 0 }
  /** Places in files that could not be read. */
  damagedPlaces = 0
  /** Results that are neither delivered nor lost. */
  waiting = 0
  /** Results that an earlier run left, those included that turned out to be damaged. */
  found = 0
  readonly #options: SpoolOptions
  #place: SegmentPlace | undefined
  readonly #segmentBytesMax: number
  readonly #disk: SpoolDisk
  #segments: SpoolSegment[] = []
  #active: SpoolSegment | undefined
  /** Bytes of files that this version does not read. */
  #foreignBytes = 0
  #lastName = 0
  readonly #gathering = createGathering((gathered) => this.#addGathered(gathered))
  /** Resolves when everything that was gathered has been written, or could not be. */
  #written: Promise<void> = Promise.resolve()
  /** Everything that changes which file is written to happens one after another. */
  #turn: Promise<unknown> = Promise.resolve()
  #pass: Pass | undefined
  /** Results that were delivered from memory. */
  readonly #forgotten = new WeakSet<StoredResults>()

  constructor(options: SpoolOptions) {
    this.#options = options
    const { folder, cipher, openFile = open } = options
    this.#place = folder === undefined ? undefined : { folder, cipher, openFile }
    this.#disk = new SpoolDisk(options.log, () => options.onRecovered?.())
    this.#segmentBytesMax = Math.min(SEGMENT_BYTES_MAX, options.bytesMax / 8)
  }

  /** Why results are not stored on disk at present. */
  get problem(): string | undefined {
    return this.#disk.problem
  }

  async load(): Promise<void> {
    if (this.#place === undefined) return
    try {
      const found = await findSegments(this.#place, this.#options.log)
      this.#segments = found.segments
      this.#foreignBytes = found.foreignBytes
      this.#lastName = found.lastName
      const left = found.segments.reduce((sum, { resultsLeft }) => sum + resultsLeft, 0)
      this.found += left + found.damagedResults
      this.waiting += left + found.damagedResults
      this.#lose('damaged', found.damagedResults)
      this.#reportDamage(found.damaged, found.damagedResults)
    } catch (error) {
      this.#disk.fails(error)
    }
  }

  /**
   * Continues in a folder, with the results of an earlier run there, after a start without a disk. Never
   * rejects.
   */
  async moveTo(folder: string): Promise<void> {
    const { cipher, openFile = open, log } = this.#options
    await this.#inTurn(async () => {
      this.#place = { folder, cipher, openFile }
      await this.load()
    })
    if (this.problem !== undefined) return
    log.info('results are kept on disk from now on')
    this.#options.onRecovered?.()
  }

  /** Bytes on disk. */
  bytes(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + bytes, this.#foreignBytes)
  }

  /** When the oldest result that is only on disk came; Infinity when there is none. */
  oldestAt(): number {
    const times = this.#segments.filter((one) => one.framesWaiting() > 0).map((one) => one.oldestAt)
    return Math.min(Infinity, ...times)
  }

  /** Whether there is something to be read back. */
  hasOld(): boolean {
    return this.#segments.some((one) => one.framesWaiting() > 0)
  }

  /** Resolves when the entry is safe on disk; without a disk when it is forgotten. Rejects when it is lost. */
  append(entry: string, isUrgent = false): Promise<void> {
    this.waiting++
    return this.#gathering.add(entry, isUrgent)
  }

  #addGathered({ entries, at, isUrgent, safe, chars }: Gathered): void {
    const place = { bytes: chars, segment: undefined, number: 0 }
    const stored: StoredResults = { entries, at, isUrgent, safe, ...place }
    const put = async () => {
      const isSafe = await this.#put(stored)
      this.#options.onStored(stored)
      if (isSafe) safe.resolve()
    }
    this.#written = this.#written.then(put)
  }

  /** Writes results that are only in memory; false when the disk fails. */
  async rescue(stored: StoredResults): Promise<boolean> {
    const isSafe = await this.#put(stored)
    if (isSafe) stored.safe.resolve()
    const { segment, number, entries } = stored
    // It was delivered while it was written.
    if (segment !== undefined && this.#forgotten.has(stored)) {
      segment.done(number, entries.length)
      await this.#removeDone([segment])
    }
    return isSafe
  }

  async #put(stored: StoredResults): Promise<boolean> {
    const place = this.#place
    if (place === undefined || !this.#disk.isDue()) return false
    const written = this.#inTurn(() => this.#write(place, stored))
    try {
      const [segment, number] = await within(written, WRITE_MS_MAX)
      stored.segment = segment
      stored.number = number
      this.#disk.works()
      return true
    } catch (error) {
      // A write that ends after all must not be sent a second time.
      written.then(
        ([segment, number]) => {
          segment.done(number, stored.entries.length)
          return this.#removeDone([segment])
        },
        () => undefined,
      )
      this.#active = undefined
      this.#turn = Promise.resolve()
      this.#disk.fails(error)
      return false
    }
  }

  async #write(place: SegmentPlace, stored: StoredResults): Promise<[SpoolSegment, number]> {
    if (!this.#options.isHeld()) throw new Error(`the folder ${place.folder} is not ours any more`)
    if (this.#active?.isRemoved() === true) await this.#vanish(this.#active)
    if (this.#active !== undefined && this.#active.bytes >= this.#segmentBytesMax) {
      await this.#roll()
    }
    await this.#makeRoom(stored.bytes)
    const segment = this.#active ?? (await this.#begin(place))
    try {
      return [segment, await segment.append(stored.entries, stored.at)]
    } catch (error) {
      // What is torn at its end is skipped when it is read.
      await this.#roll()
      throw error
    }
  }

  async #begin(place: SegmentPlace): Promise<SpoolSegment> {
    this.#lastName = Math.max(this.#lastName + 1, Date.now())
    await mkdir(place.folder, { recursive: true, mode: 0o700 })
    const segment = await SpoolSegment.create(place, segmentName(this.#lastName))
    this.#segments.push(segment)
    this.#active = segment
    return segment
  }

  /** Ends the present file; the next result begins another one. */
  async #roll(): Promise<void> {
    const segment = this.#active
    this.#active = undefined
    await segment?.close(true)
    if (segment !== undefined) await this.#removeDone([segment])
  }

  async #makeRoom(bytes: number): Promise<void> {
    const { bytesMax, shareRoom, log } = this.#options
    for (;;) {
      const room = bytesMax - this.bytes() - bytes
      shareRoom?.(Math.max(0, room))
      if (room >= 0) return
      const oldest = this.#segments.find((one) => one !== this.#active)
      if (oldest === undefined) return
      await this.#options.dropped?.addSegment(oldest)
      const results = oldest.loseWaiting()
      this.#lose('full', results)
      if (results > 0) log.warn({ results }, 'the spool is full; its oldest results are dropped')
      oldest.gone = 'dropped'
      this.#without(oldest)
      await oldest.remove()
    }
  }

  async #vanish(segment: SpoolSegment): Promise<void> {
    segment.gone = 'vanished'
    this.#without(segment)
    if (segment === this.#active) this.#active = undefined
    this.#lose('damaged', segment.loseWaiting())
    await segment.close(false)
  }

  /**
   * The oldest results that are only on disk; they are held until they are forgotten or given back.
   * Undefined when there are none. One call at a time.
   */
  async next(): Promise<StoredResults | undefined> {
    for (;;) {
      this.#pass ??= await this.#newPass()
      if (this.#pass === undefined) return undefined
      const { segment, frames, releases } = this.#pass
      const step = segment.gone === undefined ? frames.next() : OVER
      if (step.done === true) {
        this.#pass = undefined
        // Frames that a whole pass did not find are lost.
        if (segment.gone === undefined && segment.releases === releases) {
          this.#lose('damaged', segment.loseWaiting())
          await this.#removeDone([segment])
        }
        continue
      }
      const stored = this.#open(segment, step.value)
      if (stored !== undefined) return stored
    }
  }

  async #newPass(): Promise<Pass | undefined> {
    for (;;) {
      const segment = this.#segments.find((one) => one.framesWaiting() > 0)
      if (segment === undefined) return undefined
      if (segment === this.#active) await this.#inTurn(() => this.#roll())
      try {
        const { releases } = segment
        return { segment, frames: readFrames(await segment.read()), releases }
      } catch (error) {
        if (segment.gone !== undefined) continue
        this.#options.log.error({ err: error }, 'a spool file cannot be read; its results are lost')
        await this.#vanish(segment)
      }
    }
  }

  #open(segment: SpoolSegment, frame: Frame): StoredResults | undefined {
    const { number, results, at } = frame
    if (!segment.isWaiting(number)) return undefined
    const entries = openFrame(frame, segment.cipherOf(frame.salt))
    if (entries === undefined || entries.length !== results) {
      segment.lose(number, results)
      this.#lose('damaged', results)
      this.#reportDamage(0, results)
      return undefined
    }
    segment.hold(number, results)
    const bytes = entries.reduce((sum, { length }) => sum + length, 0)
    const safe = Promise.withResolvers<void>()
    return { entries, bytes, at, isUrgent: false, segment, number, safe }
  }

  /** Removes results that were delivered, or refused for good. Never rejects. */
  async forget(all: readonly StoredResults[]): Promise<void> {
    for (const stored of all) {
      const { entries, safe, segment, number } = stored
      this.waiting -= entries.length
      safe.resolve()
      if (segment === undefined) this.#forgotten.add(stored)
      else if (segment.gone === undefined) segment.done(number, entries.length)
    }
    const bySegment = Map.groupBy(all, ({ segment }) => segment)
    for (const [segment, some] of bySegment) {
      if (segment === undefined || segment.gone !== undefined) continue
      const isOver = segment.isDone() && segment !== this.#active
      // Without the note a restart sends it again, and the platform knows it already.
      if (!isOver) await segment.note(some.map(({ number }) => number)).catch(() => undefined)
      else await this.#removeDone([segment])
    }
  }

  /** Releases results, so that they are read back later; false when they are only in memory. */
  giveBack(stored: StoredResults): boolean {
    const { segment, number, entries, at } = stored
    if (segment === undefined || segment.gone === 'vanished') {
      stored.segment = undefined
      return false
    }
    if (segment.gone === 'dropped') {
      this.#lose('full', entries.length)
      this.#options.dropped?.add(entries)
    } else segment.release(number, entries.length, at)
    return true
  }

  /** Drops results that are only in memory, for want of room there. */
  drop(stored: StoredResults): void {
    this.#lose('memory', stored.entries.length)
    this.#options.dropped?.add(stored.entries)
    stored.safe.reject(new Error('there is no room for it, neither on disk nor in memory'))
  }

  /** Writes gathered results and syncs the file. Never rejects. */
  async flush(): Promise<void> {
    this.#gathering.finish()
    await this.#written
    await this.#inTurn(async () => this.#active?.sync()).catch(() => undefined)
  }

  /** Nothing is appended after this. Never rejects. */
  async close(): Promise<void> {
    await this.flush()
    await this.#inTurn(() => this.#roll())
    for (const segment of this.#segments) await segment.close(false)
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(act)
    this.#turn = result.catch(() => undefined)
    return result
  }

  async #removeDone(segments: readonly SpoolSegment[]): Promise<void> {
    for (const segment of segments) {
      if (!segment.isDone() || segment === this.#active) continue
      this.#without(segment)
      await segment.remove().catch(() => undefined)
    }
  }

  #without(segment: SpoolSegment): void {
    this.#segments = this.#segments.filter((one) => one !== segment)
  }

  #lose(reason: Loss, results: number): void {
    this.lost[reason] += results
    this.waiting -= results
  }

  #reportDamage(places: number, results: number): void {
    this.damagedPlaces += places
    this.#disk.isDamaged(places, results)
  }
}

const OVER: IteratorResult<Frame, number> = { value: 0, done: true }
