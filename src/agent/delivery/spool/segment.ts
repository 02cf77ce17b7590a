// One file of the spool and the states of its frames: waiting on disk, held for delivery, or done. Frames are
// only ever appended; delivered ones are noted in a small file next to it.
import { randomBytes } from 'node:crypto'
import { fstatSync } from 'node:fs'
import { readFile, rm, type FileHandle, type open } from 'node:fs/promises'
import { join } from 'node:path'
import { SALT_BYTES, type AgentCipher, type FileCipher } from './agent-cipher.ts'
import {
  encodeFrame,
  encodeRecord,
  FILE_HEAD_BYTES,
  fileHead,
  fileVersion,
  readFrames,
  readRecords,
  RECORD_BYTES,
  SPOOL_VERSION,
  type DamagedFrame,
} from './frame.ts'

/** Opens files; tests give one that fails. */
export type OpenFile = typeof open

const WAITING = 0
const HELD = 1
const DONE = 2

/** Where segments lie. */
export interface SegmentPlace {
  folder: string
  cipher: AgentCipher
  openFile: OpenFile
}

/** A file that an earlier run left. */
export interface FoundSegment {
  segment: SpoolSegment
  /** Places that could not be read, with an unknown number of results. */
  damaged: number
  /** Results in frames that could not be read, not counting those that had been delivered. */
  damagedResults: number
}

/** One file of the spool. */
export class SpoolSegment {
  readonly name: string
  /** Of this file and its notes. */
  bytes = FILE_HEAD_BYTES
  /** Frames so far; also the number of the next one. */
  frames = 0
  /** Results that are not done, and those of them that are held. */
  resultsLeft = 0
  resultsHeld = 0
  /** When the oldest frame that is only on disk came. */
  oldestAt = Infinity
  /** How often a frame was given back; a reader that was past it must start again. */
  releases = 0
  /** `dropped` to make room; `vanished` when the file was removed from outside. */
  gone: 'dropped' | 'vanished' | undefined
  readonly #place: SegmentPlace
  #salt: Buffer
  #cipher: FileCipher | undefined
  #file: FileHandle | undefined
  #notes: FileHandle | undefined
  #end = FILE_HEAD_BYTES
  #noting: Promise<void> = Promise.resolve()
  #framesDone = 0
  #framesHeld = 0
  /** By number; made when one of them is not WAITING any more. */
  #states: Uint8Array | undefined

  constructor(place: SegmentPlace, name: string, salt = randomBytes(SALT_BYTES)) {
    this.#place = place
    this.name = name
    this.#salt = salt
  }

  /** Creates the file. Rejects when the disk fails. */
  static async create(place: SegmentPlace, name: string): Promise<SpoolSegment> {
    const segment = new SpoolSegment(place, name)
    segment.#cipher = place.cipher.ofFile(segment.#salt)
    segment.#file = await place.openFile(segment.path(), 'wx', 0o600)
    await writeAll(segment.#file, fileHead(), 0)
    return segment
  }

  path(): string {
    return join(this.#place.folder, `${this.name}.seg`)
  }

  #notesPath(): string {
    return join(this.#place.folder, `${this.name}.done`)
  }

  isOpen(): boolean {
    return this.#file !== undefined
  }

  /** Whether the open file was removed, so that writes are lost. */
  isRemoved(): boolean {
    return this.#file === undefined ? false : fstatSync(this.#file.fd).nlink === 0
  }

  /** Appends a frame, which is held by the caller; resolves with its number. */
  async append(entries: readonly string[], at: number): Promise<number> {
    if (this.#file === undefined || this.#cipher === undefined) throw new Error('closed')
    const number = this.frames
    const bytes = encodeFrame({ number, at, entries }, this.#salt, this.#cipher)
    const file = this.#file
    await writeAll(file, bytes, this.#end).catch(async (error: unknown) => {
      // What is torn off would be counted as lost at the next start, and is not.
      await file.truncate(this.#end).catch(() => undefined)
      throw error
    })
    this.#end += bytes.length
    this.bytes += bytes.length
    this.frames++
    this.resultsLeft += entries.length
    this.hold(number, entries.length)
    return number
  }

  /** Frames on disk that are not held. */
  framesWaiting(): number {
    return this.gone === undefined ? this.frames - this.#framesDone - this.#framesHeld : 0
  }

  isDone(): boolean {
    return this.#framesDone >= this.frames
  }

  isWaiting(number: number): boolean {
    return number < this.frames && (this.#states?.[number] ?? WAITING) === WAITING
  }

  hold(number: number, results: number): void {
    this.#set(number, HELD)
    this.#framesHeld++
    this.resultsHeld += results
  }

  /** Gives a frame back: it is read from disk again. */
  release(number: number, results: number, at: number): void {
    this.#set(number, WAITING)
    this.#framesHeld--
    this.resultsHeld -= results
    this.releases++
    this.oldestAt = Math.min(this.oldestAt, at)
    if (this.#framesHeld === 0 && this.#framesDone === 0) this.#states = undefined
  }

  /** A held frame is done. */
  done(number: number, results: number): void {
    this.#framesHeld--
    this.resultsHeld -= results
    this.lose(number, results)
  }

  /** A frame that is not held is done, because it cannot be read. */
  lose(number: number, results: number): void {
    this.#set(number, DONE)
    this.#framesDone++
    this.resultsLeft -= results
  }

  /** Nothing on disk can be read any more; returns the results that are lost with it. */
  loseWaiting(): number {
    const lost = this.resultsLeft - this.resultsHeld
    for (let number = 0; number < this.frames; number++) {
      if (this.isWaiting(number)) this.lose(number, 0)
    }
    this.resultsLeft = this.resultsHeld
    return lost
  }

  /** Notes delivered frames on disk, so that a restart does not send them again. Rejects when it cannot. */
  note(numbers: readonly number[]): Promise<void> {
    const noted = this.#noting.then(() => this.#write(numbers))
    this.#noting = noted.catch(() => undefined)
    return noted
  }

  async #write(numbers: readonly number[]): Promise<void> {
    if (this.gone !== undefined) return
    const records = rangesOf(numbers).map(([first, last]) => encodeRecord(first, last, this.#salt))
    const bytes = Buffer.concat(records)
    const notes = this.#notes ?? (await this.#place.openFile(this.#notesPath(), 'a', 0o600))
    if (this.isOpen()) this.#notes = notes
    try {
      await writeAll(notes, bytes, null)
      this.bytes += bytes.length
    } finally {
      // Many older files may be noted on in turn, so that only the present one keeps its file open.
      if (!this.isOpen()) {
        this.#notes = undefined
        await notes.close()
      }
    }
  }

  read(): Promise<Buffer> {
    return readFile(this.path())
  }

  cipherOf(salt: Buffer): FileCipher {
    if (!salt.equals(this.#salt)) return this.#place.cipher.ofFile(salt)
    this.#cipher ??= this.#place.cipher.ofFile(this.#salt)
    return this.#cipher
  }

  /** Has everything on the disk itself, not only in the system's memory. */
  async sync(): Promise<void> {
    await this.#file?.sync()
  }

  /** No frame is appended after this. Never rejects. */
  async close(flush: boolean): Promise<void> {
    const [file, notes] = [this.#file, this.#notes]
    this.#file = undefined
    this.#notes = undefined
    if (flush) await file?.sync().catch(() => undefined)
    await file?.close().catch(() => undefined)
    await this.#noting
    await notes?.close().catch(() => undefined)
  }

  /** Removes the files; the notes last, since without them everything would be sent again. */
  async remove(): Promise<void> {
    this.gone ??= 'dropped'
    await this.close(false)
    await rm(this.path(), { force: true })
    await rm(this.#notesPath(), { force: true })
  }

  /** What a file of an earlier run holds. Rejects when it cannot be read. */
  static async found(place: SegmentPlace, name: string): Promise<FoundSegment | 'later version'> {
    const bytes = await readFile(join(place.folder, `${name}.seg`))
    if (fileVersion(bytes) > SPOOL_VERSION) return 'later version'
    const segment = new SpoolSegment(place, name, Buffer.alloc(SALT_BYTES))
    const notes = await readFile(segment.#notesPath()).catch(() => Buffer.alloc(0))
    segment.bytes = bytes.length + notes.length
    return { segment, ...segment.#scan(bytes, notes) }
  }

  #scan(bytes: Buffer, notes: Buffer): Omit<FoundSegment, 'segment'> {
    const results: number[] = []
    const times: number[] = []
    const damagedFrames: DamagedFrame[] = []
    const frames = readFrames(bytes, (frame) => damagedFrames.push(frame))
    let next = frames.next()
    for (; next.done !== true; next = frames.next()) {
      const { number, salt, at } = next.value
      // Numbers count the frames of a file; one that is far off was never written by us.
      if (number > bytes.length / RECORD_BYTES || results[number] !== undefined) continue
      if (results.length === 0) this.#salt = Buffer.from(salt)
      results[number] = next.value.results
      times[number] = at
    }
    const isOurs = ({ number, salt }: DamagedFrame) =>
      number <= bytes.length / RECORD_BYTES && (results.length === 0 || salt.equals(this.#salt))
    const known = damagedFrames.filter((one) => isOurs(one) && results[one.number] === undefined)
    const lost = new Map(known.map((one) => [one.number, one.results]))
    if (results.length === 0 && known[0] !== undefined) this.#salt = Buffer.from(known[0].salt)
    this.frames = Math.max(results.length, ...[...lost.keys()].map((number) => number + 1))
    this.resultsLeft = results.reduce((sum, count) => sum + count, 0)
    for (const [first, last] of readRecords(notes, this.#salt)) {
      for (let number = first; number <= last && number < this.frames; number++) {
        if (this.isWaiting(number)) this.lose(number, results[number] ?? 0)
        lost.delete(number)
      }
    }
    for (let number = 0; number < this.frames; number++) {
      if (!this.isWaiting(number)) continue
      if (results[number] === undefined) this.lose(number, 0)
      else this.oldestAt = Math.min(this.oldestAt, times[number] ?? Infinity)
    }
    const damagedResults = [...lost.values()].reduce((sum, count) => sum + count, 0)
    return { damaged: next.value + damagedFrames.length - known.length, damagedResults }
  }

  #set(number: number, state: number): void {
    let states = this.#states
    if (states === undefined || number >= states.length) {
      const grown = new Uint8Array(Math.max(64, 2 * (number + 1), this.frames))
      if (states !== undefined) grown.set(states)
      states = this.#states = grown
    }
    states[number] = state
  }
}

async function writeAll(file: FileHandle, bytes: Buffer, at: number | null): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const position = at === null ? null : at + done
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position)
    done += bytesWritten
  }
}

function rangesOf(numbers: readonly number[]): [number, number][] {
  const ranges: [number, number][] = []
  for (const number of numbers.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1)
    if (last !== undefined && last[1] + 1 === number) last[1] = number
    else ranges.push([number, number])
  }
  return ranges
}
