// Disk usage of a run: the files below its folder, and open files without a name. Counting is expensive,
// so it is done when the limit may have been reached since last time, and now and then.
import {
  type Dirent,
  lstatSync,
  opendirSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { asUser, type ProcessFacts } from './processes.ts'

/** What an empty file counts, so that there is a bound on their number, too. */
const ENTRY_BYTES = 1024
/** Counted anew after so long whatever the file system says: what others freed hides what the run wrote. */
const COUNT_EVERY_MS = 5_000
/** Counted anew when so much of what was left may be gone. */
const SHARE_OF_REST = 0.1
/** How long counting may block the event loop, which answers the run's questions, at a stretch. */
const SLICE_MS = 2

/** Counts the bytes of one run, again and again. */
export class SupervisorDisk {
  readonly #folder: string
  readonly #limitBytes: number
  readonly #userId: number | undefined
  #countedAt = -Infinity
  #bytes = 0
  #used = 0

  constructor(folder: string, limitBytes: number, userId: number | undefined) {
    this.#folder = folder
    this.#limitBytes = limitBytes
    this.#userId = userId
  }

  /** Whether the run may use much more than at the last count. */
  mayHaveGrown(): boolean {
    if (performance.now() - this.#countedAt > COUNT_EVERY_MS) return true
    const grown = usedOfMachine(this.#folder) - this.#used
    return grown > (this.#limitBytes - this.#bytes) * SHARE_OF_REST
  }

  /** Bytes now; not much further than the limit is counted. */
  async count(all: readonly ProcessFacts[]): Promise<number> {
    this.#countedAt = performance.now()
    // Before counting: what comes meanwhile counts for the next time.
    this.#used = usedOfMachine(this.#folder)
    const unlinked = unlinkedBytes(all, this.#userId)
    this.#bytes = await countBelow(this.#folder, unlinked, this.#limitBytes)
    return this.#bytes
  }
}

/** Bytes in use on the file system of the folder, and in files that live in memory, of any owner. */
function usedOfMachine(folder: string): number {
  try {
    const { blocks, bfree, bsize } = statfsSync(folder)
    const shared = /^Shmem:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'latin1'))
    return (blocks - bfree) * bsize + Number(shared?.[1] ?? 0) * 1024
  } catch {
    return Infinity
  }
}

/** Bytes of files that are open and have no name any more, in memory or on disk. */
function unlinkedBytes(all: readonly ProcessFacts[], userId: number | undefined): number {
  const files = new Map<string, number>()
  // What has ended, or may not be looked into, counts nothing.
  for (const { pid } of all) asUser(userId, () => addUnlinkedOf(pid, files))
  let bytes = 0
  for (const size of files.values()) bytes += size
  return bytes
}

/** True when the process could be looked into. */
function addUnlinkedOf(pid: number, files: Map<string, number>): true | undefined {
  try {
    for (const fd of readdirSync(`/proc/${pid}/fd`)) {
      const facts = statSync(`/proc/${pid}/fd/${fd}`, { throwIfNoEntry: false })
      if (facts?.nlink === 0) files.set(`${facts.dev}:${facts.ino}`, facts.blocks * 512)
    }
    return true
  } catch {
    return undefined
  }
}

/** Adds up what lies below the folder, in slices between which the loop is free; ends when it is too much. */
async function countBelow(folder: string, already: number, bytesMax: number): Promise<number> {
  let bytes = already
  let sliceEnd = performance.now() + SLICE_MS
  const folders = [folder]
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    for (const entry of entriesOf(next)) {
      const path = join(next, entry.name)
      if (entry.isDirectory()) folders.push(path)
      bytes += Math.max(ENTRY_BYTES, blocksOf(path) * 512)
      if (bytes > bytesMax) return bytes
      if (performance.now() < sliceEnd) continue
      await turn()
      sliceEnd = performance.now() + SLICE_MS
    }
  }
  return bytes
}

/** Read in pieces: a hostile run may have a million files in one folder. */
function* entriesOf(folder: string): Generator<Dirent> {
  try {
    using entries = opendirSync(folder, { bufferSize: 256 })
    for (let one = entries.readSync(); one !== null; one = entries.readSync()) yield one
  } catch {
    // It is gone, or may not be read.
  }
}

function blocksOf(path: string): number {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.blocks ?? 0
  } catch {
    return 0
  }
}
