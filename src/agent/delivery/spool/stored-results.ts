// Results on their way to the platform, and their files on disk.
//   <time>-<number>-<results>-<characters>-<random>.results   frames; removed when all of its results are delivered
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { untilAborted, withDeadline } from '../../../network/deadline.ts'
import type { AgentCipher } from './agent-cipher.ts'
import { replaceFile, type EncryptedFolder } from './agent-folder.ts'
import { decodeFrames } from './frame.ts'

/** Results that are stored, delivered and forgotten together. */
export interface StoredResults {
  /** When the first came. Milliseconds since the Unix epoch. */
  at: number
  /** A line of JSON for each result; undefined: only on disk. */
  entries: readonly string[] | undefined
  results: number
  /** Length of the lines. */
  characters: number
  /** Results that are neither delivered, nor refused, nor lost. */
  left: number
  /** A caller waits for one of them. */
  isUrgent: boolean
  /** Undefined: only in memory. */
  file: ResultsFile | undefined
  /** Settled when they are on disk, delivered or lost. */
  safe?: PromiseWithResolvers<void>
}

/** A file of results. */
export interface ResultsFile {
  path: string
  bytes: number
  cipher: AgentCipher
}

const NAME = /^(\d{16})-\d{8}-(\d{1,9})-(\d{1,12})-[\w-]+\.results$/
/** A file of version 8.4.0; what it delivered was noted in another file. */
const EARLIER = /^(\d{16})\.seg$/
/** A write that takes longer counts as a failed disk, so that it holds up no other result. */
const WRITE_MS_MAX = 10_000
const REMAINS = /^\d{16}\.done$|\.results\./

type Counts = Pick<StoredResults, 'at' | 'results' | 'characters'>

let fileNames = 0

/** A name that is new wherever the file is moved to; names sort by time. */
export function fileName({ at, results, characters }: Counts): string {
  const order = `${String(at).padStart(16, '0')}-${String(++fileNames).padStart(8, '0')}`
  return `${order}-${results}-${characters}-${randomUUID()}.results`
}

/** Writes results into a new file. Rejects when the disk fails; then there is none. `write` is for tests. */
export async function writeResults(
  { folder, cipher }: EncryptedFolder,
  counts: Counts,
  { content, isFlushed }: { content: Buffer; isFlushed: boolean },
  write: (path: string, bytes: Buffer, isFlushed: boolean) => Promise<void> = replaceFile,
): Promise<ResultsFile> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const path = join(folder, fileName(counts))
  const written = write(path, content, isFlushed)
  try {
    const { signal } = new AbortController()
    await withDeadline(signal, WRITE_MS_MAX, (deadline) => untilAborted(written, deadline))
  } catch (error) {
    // A file that is complete after all would be delivered a second time.
    written.then(() => rm(path, { force: true })).catch(() => {})
    throw error
  }
  return { path, bytes: content.length, cipher }
}

/** The files that earlier processes left, oldest first. Rejects when there can be no such folder. */
export async function findResults(place: EncryptedFolder): Promise<StoredResults[]> {
  const names: string[] = await readdir(place.folder).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  })
  const found: StoredResults[] = []
  for (const name of names.toSorted()) {
    const path = join(place.folder, name)
    if (REMAINS.test(name)) await rm(path, { force: true })
    const { size: bytes } = await stat(path).catch(() => ({ size: 0 }))
    const one = await foundIn({ path, bytes, cipher: place.cipher }, name)
    if (one !== undefined) found.push(one)
  }
  return found
}

async function foundIn(file: ResultsFile, name: string): Promise<StoredResults | undefined> {
  const [, at, results, characters] = NAME.exec(name) ?? []
  if (at !== undefined) {
    const counts = { results: Number(results), characters: Number(characters) }
    return onDisk({ ...counts, at: Number(at) }, file)
  }
  const [, earlierAt] = EARLIER.exec(name) ?? []
  if (earlierAt === undefined) return undefined
  const entries = await readEntries(file)
  const counts = { results: entries.length, characters: entries.join('').length }
  return onDisk({ ...counts, at: Number(earlierAt) }, file)
}

/** Results that are only on disk. */
export function onDisk(counts: Counts, file: ResultsFile): StoredResults {
  return { ...counts, left: counts.results, isUrgent: false, entries: undefined, file }
}

/** Whether there is no copy on disk. */
export function isUnsafe({ file }: StoredResults): boolean {
  return file === undefined
}

export function sum(all: readonly StoredResults[], value: (one: StoredResults) => number): number {
  return all.reduce((total, one) => total + value(one), 0)
}

/** Results and characters in all of these. */
export function countsOf(all: readonly StoredResults[]): Omit<Counts, 'at'> {
  return {
    results: sum(all, ({ results }) => results),
    characters: sum(all, ({ characters }) => characters),
  }
}

/** The entries of a file, but for damaged ones. Rejects when it cannot be read. */
export async function readEntries({ path, cipher }: ResultsFile): Promise<string[]> {
  return decodeFrames(await readFile(path), cipher)
}

/** Removes from the front what fits into a batch, at least one. */
export function takeSome(
  from: StoredResults[],
  max: { results: number; bytes: number },
): StoredResults[] {
  let [results, characters, taken] = [0, 0, 0]
  for (const stored of from) {
    results += stored.results
    characters += stored.characters
    if (taken > 0 && (results > max.results || characters > max.bytes)) break
    taken++
  }
  return from.splice(0, taken)
}

/** Gathers entries. */
export interface Gathering {
  /** Resolves when the entry is safe. */
  add(entry: string, isUrgent: boolean): Promise<void>
  /** Hands over the entries so far. */
  finish(): void
}

const GATHER_CHARS_MAX = 64 * 1024
const GATHER_RESULTS_MAX = 500
const GATHER_MS = 20

/** Makes a gathering that hands over what came within 20 ms, 64 KiB or 500 results, or is urgent. */
export function createGathering(onGathered: (gathered: StoredResults) => void): Gathering {
  let entries: string[] = []
  let present: StoredResults | undefined
  let timer: NodeJS.Timeout | undefined
  const finish = () => {
    clearTimeout(timer)
    const gathered = present
    present = undefined
    if (gathered !== undefined) onGathered(gathered)
  }
  const begin = () => {
    timer = setTimeout(finish, GATHER_MS)
    const safe = Promise.withResolvers<void>()
    // The caller that added an entry handles it.
    safe.promise.catch(() => undefined)
    entries = []
    const none = { results: 0, characters: 0, left: 0, isUrgent: false, file: undefined }
    return { ...none, at: Date.now(), entries, safe }
  }
  return {
    add(entry, isUrgent) {
      const gathered = (present ??= begin())
      entries.push(entry)
      gathered.results++
      gathered.left++
      gathered.characters += entry.length
      gathered.isUrgent ||= isUrgent
      const isFull =
        gathered.characters >= GATHER_CHARS_MAX || gathered.results >= GATHER_RESULTS_MAX
      const { safe } = gathered
      if (isUrgent || isFull) finish()
      return (safe as PromiseWithResolvers<void>).promise
    },
    finish,
  }
}
