// Results that are not delivered yet. Fresh ones are in memory and on disk; beyond a bound, and after a restart, they
// are only on disk, which is bounded in bytes. A disk that fails costs safety, not results: they stay in memory, within
// a bound, until it works again.
import { rm, rmdir } from 'node:fs/promises'
import { PROTOCOL_BOUNDS } from '../../../contract/protocol/agent-protocol.ts'
import type { Log } from '../../../process/log.ts'
import type { DroppedSpans } from '../dropped-spans.ts'
import type { AgentFolder } from './agent-folder.ts'
import { Adoption } from './adoption.ts'
import { encodeFrames, type FrameDraft } from './frame.ts'
import {
  countsOf,
  createGathering,
  findResults,
  isUnsafe,
  onDisk,
  readEntries,
  sum,
  takeSome,
  writeResults,
  type ResultsFile,
  type StoredResults,
} from './stored-results.ts'

/** Why results were lost: none of them is lost in another way. */
export type Loss = 'full' | 'damaged' | 'memory'

/** How much of the spool is in memory. */
export interface MemoryBounds {
  results: number
  bytes: number
  /** Older results without a copy on disk. */
  unsafeBytes: number
}

export interface SpoolOptions {
  folder: AgentFolder
  bytesMax: number
  log: Log
  dropped: DroppedSpans
  /** Limits the other users of `bytesMax` to so many bytes. */
  shareRoom: (bytes: number) => void
  /** There are more results to deliver. */
  onMore: () => void
  memoryBounds?: MemoryBounds | undefined
}

const MEMORY_BOUNDS: MemoryBounds = {
  results: 4000,
  bytes: 8 * 1024 * 1024,
  unsafeBytes: 16 * 1024 * 1024,
}
/** Results that are delivered at a time, and those that share a file when they leave the memory. */
export const BATCH: { results: number; bytes: number } = {
  results: PROTOCOL_BOUNDS.resultsPerBatchMax,
  bytes: PROTOCOL_BOUNDS.batchBytesMax,
}
/** Before a disk that failed is tried again. */
const RETRY_MS = 5000

export class Spool {
  /** Results lost since the start, by reason. */
  readonly lost: Record<Loss, number> = { full: 0, damaged: 0, memory: 0 }
  /** Files in which something could not be read. */
  damagedPlaces = 0
  /** Results that are neither delivered nor lost. */
  waiting = 0
  /** Results that earlier processes left. */
  found = 0
  /** Bytes on disk. */
  bytes = 0
  readonly #options: SpoolOptions
  readonly #memoryBounds: MemoryBounds
  readonly #batch: typeof BATCH
  readonly #gathering = createGathering((gathered) => this.#onGathered(gathered))
  readonly #adoption: Adoption
  /** Fresh results, in memory. */
  readonly #recent: StoredResults[] = []
  /** Older ones, on disk or without a disk in memory, the oldest first. */
  #old: StoredResults[] = []
  /** Those that are being delivered or written. */
  readonly #taken = new Set<StoredResults>()
  #diskProblem: string | undefined
  #retryAt = 0
  /** Writes happen one after another. */
  #turn: Promise<unknown> = Promise.resolve()

  constructor(options: SpoolOptions) {
    const { folder, log, bytesMax, memoryBounds = MEMORY_BOUNDS } = options
    this.#options = options
    // Of a small spool an eighth, so that little is dropped at once.
    this.#memoryBounds = { ...memoryBounds, bytes: Math.min(memoryBounds.bytes, bytesMax / 8) }
    this.#batch = { ...BATCH, bytes: Math.min(BATCH.bytes, bytesMax / 8) }
    this.#adoption = new Adoption(folder, log)
  }

  /** Finds the results of earlier processes of this agent, and writes those in memory. Never rejects. */
  load(): Promise<void> {
    return this.#inTurn(async () => {
      try {
        for (const place of this.#options.folder.places('spool'))
          this.#add(await findResults(place))
      } catch (error) {
        this.#fails(error)
      }
      await this.#rescue()
    })
  }

  /** Why results are not stored on disk at present. */
  get problem(): string | undefined {
    return this.#options.folder.problem ?? this.#diskProblem
  }

  /** Bytes that none of this agent's keys opens. */
  get foreignBytes(): number {
    return this.#adoption.foreignBytes
  }

  get recentResults(): number {
    return countsOf(this.#recent).results
  }

  get isUrgent(): boolean {
    return this.#recent.some((one) => one.isUrgent)
  }

  /** When the oldest waiting result came; Infinity when there is none. */
  oldestAt(): number {
    let oldestAt = Infinity
    for (const { at } of [...this.#taken, ...this.#old, ...this.#recent]) {
      oldestAt = Math.min(oldestAt, at)
    }
    return oldestAt
  }

  /** Resolves when the entry is safe on disk; without a disk when it is forgotten. Rejects when it is lost. */
  append(entry: string, isUrgent = false): Promise<void> {
    this.waiting++
    return this.#gathering.add(entry, isUrgent)
  }

  /** The oldest of the fresh results, a batch at most. */
  takeRecent(): StoredResults[] {
    return this.#take(this.#recent)
  }

  /** The oldest of the others, a batch at most. Those that cannot be read are lost. */
  async takeOld(): Promise<StoredResults[]> {
    for (;;) {
      const some = this.#take(this.#old)
      if (some.length === 0) return []
      for (const one of some) await this.#read(one)
      const readable = some.filter(({ left }) => left > 0)
      if (readable.length > 0) return readable
    }
  }

  /** Takes over what an agent that has ended left, as far as there is room; false: nothing. Never rejects. */
  async adopt(): Promise<boolean> {
    const before = this.found
    const room = this.#options.bytesMax / 2 - this.bytes
    await this.#inTurn(async () => this.#add(await this.#adoption.adopt(room)))
    return this.found > before
  }

  /** One of the taken results is delivered, or refused for good. Never rejects. */
  async forget(stored: StoredResults): Promise<void> {
    this.waiting--
    if (--stored.left > 0) return
    this.#taken.delete(stored)
    stored.safe?.resolve()
    // Without that a restart sends them again, and the platform knows them already.
    await this.#removeFile(stored)
  }

  /** Writes everything to disk; nothing is appended after it. What cannot be written is lost. Never rejects. */
  async close(): Promise<void> {
    this.#gathering.finish()
    await this.#inTurn(async () => {
      this.#recent.unshift(...[...this.#taken].filter(isUnsafe))
      this.#taken.clear()
      this.#retryAt = 0
      while (this.#recent.length > 0) await this.#moveToOld(this.#recent)
      await this.#rescue()
      this.#old.filter(isUnsafe).forEach((one) => this.#drop(one))
      const [, ...former] = this.#options.folder.places('spool')
      for (const { folder } of former) await rmdir(folder).catch(() => undefined)
    })
  }

  /** Hands over what is gathered. */
  flush(): void {
    this.#gathering.finish()
  }

  #onGathered(gathered: StoredResults): void {
    this.#recent.push(gathered)
    this.#options.onMore()
    void this.#inTurn(() => this.#store(gathered))
    const { results, characters } = countsOf(this.#recent)
    if (results > this.#memoryBounds.results || characters > this.#memoryBounds.bytes) {
      void this.#inTurn(() => this.#moveToOld(this.#recent))
    }
  }

  #add(found: readonly StoredResults[]): void {
    for (const { results, file } of found) {
      this.found += results
      this.waiting += results
      this.bytes += file?.bytes ?? 0
    }
    if (found.length > 0) this.#old = [...this.#old, ...found].toSorted((a, b) => a.at - b.at)
  }

  #take(from: StoredResults[]): StoredResults[] {
    const some = takeSome(from, this.#batch)
    for (const one of some) this.#taken.add(one)
    return some
  }

  async #read(stored: StoredResults): Promise<void> {
    const { file, results } = stored
    if (file === undefined || stored.entries !== undefined) return
    try {
      stored.entries = await readEntries(file)
    } catch (error) {
      this.#options.log.error({ err: error }, 'a spool file cannot be read; its results are lost')
      stored.entries = []
    }
    const damaged = results - stored.entries.length
    if (damaged <= 0) return
    this.damagedPlaces++
    this.#options.log.warn(
      { results: damaged },
      'the spool is damaged; the rest of it is delivered',
    )
    stored.left -= damaged
    this.#lose('damaged', damaged)
    if (stored.left > 0) return
    this.#taken.delete(stored)
    await this.#removeFile(stored)
  }

  /** Writes results that are only in memory. */
  async #store(stored: StoredResults): Promise<void> {
    if (stored.file !== undefined || stored.left === 0) return
    const file = await this.#write([stored])
    if (file === undefined) return
    stored.file = file
    stored.safe?.resolve()
    // They were delivered meanwhile.
    if (stored.left === 0) await this.#removeFile(stored)
  }

  /** The oldest of these leave the memory: they share one file from now on. */
  async #moveToOld(from: StoredResults[]): Promise<void> {
    const some = this.#take(from)
    const [first] = some
    if (first === undefined) return
    const file = await this.#write(some, true)
    for (const one of some) this.#taken.delete(one)
    if (file === undefined) {
      for (const one of some) if (!isUnsafe(one)) one.entries = undefined
      this.#old.push(...some)
    } else {
      const left = sum(some, (one) => one.left)
      this.#old.push({ ...onDisk({ ...countsOf(some), at: first.at }, file), left })
      for (const one of some) {
        await this.#removeFile(one)
        one.left = 0
        one.safe?.resolve()
      }
    }
    this.#dropUnsafe()
    this.#options.onMore()
  }

  /** Writes results into one file; undefined when the disk fails. */
  async #write(
    some: readonly StoredResults[],
    isFlushed = false,
  ): Promise<ResultsFile | undefined> {
    const { folder } = this.#options
    const [[place], [first]] = [folder.places('spool'), some]
    if (place === undefined || first === undefined || Date.now() < this.#retryAt) return undefined
    try {
      if (!folder.isHeld()) throw new Error(`the folder ${folder.path} is locked by another agent`)
      const drafts = some.flatMap(({ at, entries }): FrameDraft[] =>
        entries ? [{ at, entries }] : [],
      )
      const content = encodeFrames(drafts, folder.cipher)
      await this.#makeRoom(content.length)
      const counts = { ...countsOf(some), at: first.at }
      const file = await writeResults(place, counts, { content, isFlushed })
      this.bytes += file.bytes
      this.#works()
      return file
    } catch (error) {
      this.#fails(error)
      return undefined
    }
  }

  async #makeRoom(bytes: number): Promise<void> {
    const { bytesMax, shareRoom, log, dropped } = this.#options
    for (;;) {
      const room = bytesMax - this.bytes - bytes
      shareRoom(Math.max(0, room))
      const oldest = this.#old.findIndex((one) => !isUnsafe(one))
      if (room >= 0 || oldest === -1) return
      const [one] = this.#old.splice(oldest, 1) as [StoredResults]
      const { file, left } = one
      dropped.add((file && (await readEntries(file).catch(() => []))) ?? [])
      this.#lose('full', left)
      log.warn({ results: left }, 'the spool is full; its oldest results are dropped')
      await this.#removeFile(one)
    }
  }

  #dropUnsafe(): void {
    let bytes = countsOf(this.#old.filter(isUnsafe)).characters
    while (bytes > this.#memoryBounds.unsafeBytes) {
      const oldest = this.#old.find(isUnsafe) as StoredResults
      bytes -= oldest.characters
      this.#drop(oldest)
    }
  }

  /** Drops older results that are only in memory. */
  #drop(stored: StoredResults): void {
    this.#old = this.#old.filter((one) => one !== stored)
    this.#lose('memory', stored.left)
    this.#options.dropped.add(stored.entries ?? [])
    stored.left = 0
    stored.safe?.reject(new Error('there is no space for it, neither on disk nor in memory'))
  }

  async #removeFile(stored: StoredResults): Promise<void> {
    const { file } = stored
    if (file === undefined) return
    stored.file = undefined
    this.bytes -= file.bytes
    await rm(file.path, { force: true }).catch(() => undefined)
  }

  #lose(reason: Loss, results: number): void {
    this.lost[reason] += results
    this.waiting -= results
  }

  #fails(error: unknown): void {
    this.#retryAt = Date.now() + RETRY_MS
    if (this.#diskProblem === undefined) {
      this.#options.log.error(
        { err: error },
        'results cannot be stored on disk; they are kept in memory',
      )
    }
    this.#diskProblem = error instanceof Error ? error.message : String(error)
  }

  #works(): void {
    if (this.#diskProblem === undefined) return
    this.#diskProblem = undefined
    this.#options.log.info('results are stored on disk again')
    void this.#inTurn(() => this.#rescue())
  }

  /** The disk works again: writes results that are only in memory, those in delivery included. */
  async #rescue(): Promise<void> {
    for (const one of [...this.#taken, ...this.#recent]) await this.#store(one)
    const unsafe = this.#old.filter(isUnsafe)
    this.#old = this.#old.filter((one) => !isUnsafe(one))
    while (unsafe.length > 0) await this.#moveToOld(unsafe)
  }

  #inTurn(act: () => Promise<void>): Promise<void> {
    const result = this.#turn.then(act)
    this.#turn = result
    return result
  }
}
