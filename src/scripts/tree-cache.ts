// A bounded cache of folders, each under the hash of what it was made from: dependencies of suites, unpacked
// bundles. Several agents may share one: what is there is whole, and what is in use is not removed.
import { randomUUID } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rename, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS } from '../contract/versions.ts'
import { LOCKABLE_MARK, makeLockedFolder, removeUnlocked } from '../sandbox/locked-folder.ts'
import { removeTree } from '../sandbox/remove-tree.ts'

/** Facts that are written next to a folder when it is complete. */
interface Entry<T> {
  bytes: number
  about: T
}

export interface CachedTree<T> extends Entry<T> {
  /** Of its content; nobody may write to it. */
  folder: string
}

/** What was used within this time may be in use still, and stays whatever it costs. */
const IN_USE_MS = LIMITS.suiteMsMax + 600_000
const ENTRY = 'entry.json'
const CONTENT = 'content'
const UNFINISHED = '.draft-'
const KEY = /^[0-9a-f]{64}$/

/** A cache below one folder, which need not exist yet. */
export class TreeCache<T> {
  readonly #root: string
  readonly #bytesMax: number

  constructor(root: string, bytesMax: number) {
    this.#root = root
    this.#bytesMax = bytesMax
  }

  /** The folder of a key, a SHA-256 in hex, which counts as used now; undefined when there is none. */
  async find(key: string): Promise<CachedTree<T> | undefined> {
    const own = join(this.#root, key)
    try {
      // Marked as used first and read then: an agent that makes room sees it in time.
      await utimes(join(own, ENTRY), new Date(), new Date())
      const { bytes, about } = JSON.parse(await readFile(join(own, ENTRY), 'utf8')) as Entry<T>
      return { folder: join(own, CONTENT), bytes, about }
    } catch {
      return undefined
    }
  }

  /** Stores what `fill` puts into a folder; the same of another run stays. Undefined when it is too large. */
  async store(
    key: string,
    fill: (folder: string) => Promise<Entry<T>>,
  ): Promise<CachedTree<T> | undefined> {
    if (!KEY.test(key)) throw new Error(`${key} is not a SHA-256`)
    await mkdir(this.#root, { recursive: true })
    const { path: draft, release } = await makeLockedFolder(this.#root, UNFINISHED)
    try {
      // Runs of other users read in it.
      await chmod(draft, 0o755)
      await mkdir(join(draft, CONTENT))
      const entry = await fill(join(draft, CONTENT))
      if (entry.bytes > this.#bytesMax) return undefined
      await writeFile(join(draft, ENTRY), JSON.stringify(entry))
      await rename(draft, join(this.#root, key)).catch(ignoreExisting)
    } finally {
      await removeTree(draft).finally(release)
    }
    await this.makeRoom()
    return this.find(key)
  }

  /** Removes what killed agents have left and what is too old; then the longest unused, until the rest fits. */
  async makeRoom(): Promise<void> {
    await removeUnlocked(this.#root, UNFINISHED)
    const now = Date.now()
    const entries = (await this.#entries()).sort((a, b) => b.usedAt - a.usedAt)
    let bytes = 0
    for (const entry of entries) {
      const ageMs = now - entry.usedAt
      const isYoung = ageMs <= LIMITS.packagesCacheAgeMsMax
      const fits = bytes + entry.bytes <= this.#bytesMax && isYoung
      if (fits || ageMs < IN_USE_MS) bytes += entry.bytes
      else await this.#remove(entry.key)
    }
  }

  async #remove(key: string): Promise<void> {
    const away = join(this.#root, `${UNFINISHED}${LOCKABLE_MARK}${randomUUID()}`)
    try {
      // In one step, so that no reader finds half of it.
      await rename(join(this.#root, key), away)
    } catch {
      // Another agent was faster.
      return
    }
    await removeTree(away)
  }

  async #entries(): Promise<{ key: string; bytes: number; usedAt: number }[]> {
    const keys = (await readdir(this.#root)).filter((name) => KEY.test(name))
    const all = await Promise.all(
      keys.map(async (key) => {
        const path = join(this.#root, key, ENTRY)
        try {
          const { bytes } = JSON.parse(await readFile(path, 'utf8')) as Entry<T>
          return { key, bytes, usedAt: (await stat(path)).mtimeMs }
        } catch {
          // Another agent has removed it.
          return undefined
        }
      }),
    )
    return all.filter((one) => one !== undefined)
  }
}

/** A folder of that name is there and not empty: the same was stored by another run. */
function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
}
