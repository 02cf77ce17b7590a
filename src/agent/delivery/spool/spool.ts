// Results that are not delivered yet, on disk: appended in few writes, read back oldest first and a file at a
// time, forgotten when they are delivered, bounded in bytes. A disk that fails costs safety, not results:
// they stay in memory, within a bound, until it works again.
import { mkdir, open } from 'node:fs/promises'
import type { Log } from '../../../process/log.ts'
import type { AgentCipher } from './agent-cipher.ts'
import type { DroppedSpans } from '../dropped-spans.ts'
import type { Kept, Loss } from '../stored-results.ts'
import { findSegments, segmentName } from './folder.ts'
import { openFrame, readFrames, type Frame } from './frame.ts'
import { createGathering, type Gathered } from './gathering.ts'
import { SpoolDisk } from './disk.ts'
import { SpoolSegment, type OpenFile, type SegmentPlace } from './segment.ts'
import { within } from '../../platform/within.ts'

/** What a spool needs. */
export interface SpoolOptions {
  /** Undefined: everything is kept in memory. It is made when it is missing. */
  folder: string | undefined
  cipher: AgentCipher
  bytesMax: number
  log: Log
  /** Whether the folder may be written to now. */
  isHeld: () => boolean
  /** Takes what is safe on disk, or cannot be; it is held until it is forgotten or given back. */
  onKept: (kept: Kept) => void
  /** The disk works again. */
  onRecovered?: () => void
  /** Other things that share the bound may take no more than this. */
  shareRoom?: (bytes: number) => void
  /** Notes which results were lost for want of room. */
  dropped?: DroppedSpans
  openFile?: OpenFile
}

/** Bytes of one file at most; of a small spool an eighth, so that little is dropped at once. */
const SEGMENT_BYTES_MAX = 4 * 1024 * 1024
/** A disk that has not taken a write by then counts as failed. */
const WRITE_MS_MAX = 10_000

interface Pass {
  segment: SpoolSegment
  frames: Generator<Frame, number>
  /** Of the segment, when the pass began. */
  releases: number
}

/** Opens the spool with what an earlier run left in it. Never rejects: at worst it is in memory. */
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
  readonly #gathering = createGathering((gathered) => this.#keep(gathered))
  /** Resolves when everything that was gathered has been written, or could not be. */
  #kept: Promise<void> = Promise.resolve()
  /** Everything that changes which file is written to happens one after another. */
  #turn: Promise<unknown> = Promise.resolve()
  #pass: Pass | undefined
  /** What was delivered out of memory. */
  readonly #forgotten = new WeakSet<Kept>()

  constructor(options: SpoolOptions) {
    this.#options = options
    const { folder, cipher, openFile = open } = options
    this.#place = folder === undefined ? undefined : { folder, cipher, openFile }
    this.#disk = new SpoolDisk(options.log, () => options.onRecovered?.())
    this.#segmentBytesMax = Math.min(SEGMENT_BYTES_MAX, options.bytesMax / 8)
  }

  /** Why results are not kept on disk at present. */
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
      this.#tellDamage(found.damaged, found.damagedResults)
    } catch (error) {
      this.#disk.fails(error)
    }
  }

  /**
   * Goes on in a folder, with what an earlier run left there, where nothing could be kept on disk before.
   * Never rejects.
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

  /** When the oldest result came that lies on disk alone; Infinity when there is none. */
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

  #keep({ entries, at, isUrgent, safe, chars }: Gathered): void {
    const kept: Kept = { entries, at, isUrgent, safe, bytes: chars, segment: undefined, number: 0 }
    const put = async () => {
      const isSafe = await this.#put(kept)
      this.#options.onKept(kept)
      if (isSafe) safe.resolve()
    }
    this.#kept = this.#kept.then(put)
  }

  /** Tries to have on disk what is only in memory; false when the disk does not take it. */
  async rescue(kept: Kept): Promise<boolean> {
    const isSafe = await this.#put(kept)
    if (isSafe) kept.safe.resolve()
    const { segment, number, entries } = kept
    // It was delivered while it was written.
    if (segment !== undefined && this.#forgotten.has(kept)) {
      segment.done(number, entries.length)
      await this.#removeDone([segment])
    }
    return isSafe
  }

  async #put(kept: Kept): Promise<boolean> {
    const place = this.#place
    if (place === undefined || !this.#disk.isDue()) return false
    const written = this.#inTurn(() => this.#write(place, kept))
    try {
      const [segment, number] = await within(written, WRITE_MS_MAX)
      kept.segment = segment
      kept.number = number
      this.#disk.works()
      return true
    } catch (error) {
      // A write that ends after all must not be sent a second time.
      written.then(
        ([segment, number]) => {
          segment.done(number, kept.entries.length)
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

  async #write(place: SegmentPlace, kept: Kept): Promise<[SpoolSegment, number]> {
    if (!this.#options.isHeld()) throw new Error(`the folder ${place.folder} is not ours any more`)
    if (this.#active?.isRemoved() === true) await this.#vanish(this.#active)
    if (this.#active !== undefined && this.#active.bytes >= this.#segmentBytesMax) {
      await this.#roll()
    }
    await this.#makeRoom(kept.bytes)
    const segment = this.#active ?? (await this.#begin(place))
    try {
      return [segment, await segment.append(kept.entries, kept.at)]
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
   * The oldest results that lie on disk alone; they are held until they are forgotten or given back.
   * Undefined when there are none. One call at a time.
   */
  async next(): Promise<Kept | undefined> {
    for (;;) {
      this.#pass ??= await this.#newPass()
      if (this.#pass === undefined) return undefined
      const { segment, frames, releases } = this.#pass
      const step = segment.gone === undefined ? frames.next() : OVER
      if (step.done === true) {
        this.#pass = undefined
        // What was not met in a whole pass is not there any more.
        if (segment.gone === undefined && segment.releases === releases) {
          this.#lose('damaged', segment.loseWaiting())
          await this.#removeDone([segment])
        }
        continue
      }
      const kept = this.#open(segment, step.value)
      if (kept !== undefined) return kept
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

  #open(segment: SpoolSegment, frame: Frame): Kept | undefined {
    const { number, results, at } = frame
    if (!segment.isWaiting(number)) return undefined
    const entries = openFrame(frame, segment.cipherOf(frame.salt))
    if (entries === undefined || entries.length !== results) {
      segment.lose(number, results)
      this.#lose('damaged', results)
      this.#tellDamage(0, results)
      return undefined
    }
    segment.hold(number, results)
    const bytes = entries.reduce((sum, { length }) => sum + length, 0)
    const safe = Promise.withResolvers<void>()
    return { entries, bytes, at, isUrgent: false, segment, number, safe }
  }

  /** What was delivered, or refused for good. Never rejects. */
  async forget(all: readonly Kept[]): Promise<void> {
    for (const kept of all) {
      const { entries, safe, segment, number } = kept
      this.waiting -= entries.length
      safe.resolve()
      if (segment === undefined) this.#forgotten.add(kept)
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

  /** Lets go of what is held, so that it is read back later; false when it is in memory alone. */
  giveBack(kept: Kept): boolean {
    const { segment, number, entries, at } = kept
    if (segment === undefined || segment.gone === 'vanished') {
      kept.segment = undefined
      return false
    }
    if (segment.gone === 'dropped') {
      this.#lose('full', entries.length)
      this.#options.dropped?.add(entries)
    } else segment.release(number, entries.length, at)
    return true
  }

  /** Gives up what is in memory alone, for want of room there. */
  drop(kept: Kept): void {
    this.#lose('memory', kept.entries.length)
    this.#options.dropped?.add(kept.entries)
    kept.safe.reject(new Error('there is no room for it, neither on disk nor in memory'))
  }

  /** Writes what has been gathered, and has the disk itself take it. Never rejects. */
  async flush(): Promise<void> {
    this.#gathering.finish()
    await this.#kept
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

  #tellDamage(places: number, results: number): void {
    this.damagedPlaces += places
    this.#disk.isDamaged(places, results)
  }
}

const OVER: IteratorResult<Frame, number> = { value: 0, done: true }
