// Adoption: takes over the results of agents that have ended. Their spools are in the folders next to this agent's,
// and the owner of a folder's lock may move their files. Spools that no known key opens are removed after a week.
import { mkdir, readdir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Log } from '../../../process/log.ts'
import { lockAgentFolder, type AgentFolder } from './agent-folder.ts'
import type { AgentCipher } from './agent-cipher.ts'
import {
  fileName,
  findResults,
  sum,
  type ResultsFile,
  type StoredResults,
} from './stored-results.ts'

/** After this time no agent with the key is expected any more. */
const FOREIGN_MS_MAX = 7 * 24 * 3600 * 1000
const SPOOL = /^spool\.[0-9a-f]{12}$/

export class Adoption {
  /** Bytes that another key encrypted, as found by the last look. */
  foreignBytes = 0
  readonly #own: AgentFolder
  readonly #log: Log
  /** By the name of their spool. */
  readonly #ciphers: ReadonlyMap<string, AgentCipher>
  readonly #reported = new Set<string>()

  constructor(own: AgentFolder, log: Log) {
    this.#own = own
    this.#log = log
    const ciphers = [own.cipher, ...own.formerCiphers]
    this.#ciphers = new Map(ciphers.map((cipher) => [`spool.${cipher.fingerprint}`, cipher]))
  }

  /** Moves files of at most `bytesMax` bytes from another agent's folder into this agent's. Never rejects. */
  async adopt(bytesMax: number): Promise<StoredResults[]> {
    const { path: own } = this.#own
    if (own === undefined) return []
    this.foreignBytes = 0
    await this.#lookAtForeign(own).catch(() => undefined)
    const neighbours = dirname(own)
    for (const name of await namesIn(neighbours)) {
      const path = join(neighbours, name)
      if (path === own) continue
      const adopted = await this.#adoptFrom(path, bytesMax).catch(() => [])
      if (adopted.length > 0) return adopted
    }
    return []
  }

  async #adoptFrom(path: string, bytesMax: number): Promise<StoredResults[]> {
    // The lock is only tried where there is something, since for another container's it takes seconds.
    const spools = (await spoolsIn(path)).map((name) => namesIn(join(path, name)))
    if ((await Promise.all(spools)).flat().length === 0) return []
    let isLost = false
    const lock = await lockAgentFolder(path, () => (isLost = true))
    if (lock === undefined) return []
    try {
      await this.#lookAtForeign(path)
      const adopted = await this.#move(path, bytesMax, () => !isLost)
      const results = sum(adopted, (one) => one.results)
      if (results > 0) this.#log.info({ path, results }, 'delivering results of another agent')
      return adopted
    } finally {
      lock.release()
    }
  }

  async #move(path: string, bytesMax: number, isOurs: () => boolean): Promise<StoredResults[]> {
    const adopted: StoredResults[] = []
    let bytes = 0
    for (const [name, cipher] of this.#ciphers) {
      const [from, to] = [join(path, name), join(this.#own.path ?? '', name)]
      for (const one of await findResults({ folder: from, cipher })) {
        const file = one.file as ResultsFile
        const moved = join(to, fileName(one))
        if (bytes + file.bytes > bytesMax || !isOurs() || !this.#own.isHeld()) return adopted
        try {
          await mkdir(to, { recursive: true, mode: 0o700 })
          await rename(file.path, moved)
        } catch {
          return adopted
        }
        bytes += file.bytes
        adopted.push({ ...one, file: { ...file, path: moved } })
      }
      await rmdir(from).catch(() => undefined)
    }
    return adopted
  }

  /** Names spools of other keys once, and removes them when they are old. */
  async #lookAtForeign(path: string): Promise<void> {
    for (const name of (await spoolsIn(path)).filter((one) => !this.#ciphers.has(one))) {
      const spool = join(path, name)
      const stats = await Promise.all((await namesIn(spool)).map((one) => stat(join(spool, one))))
      const bytes = stats.reduce((total, { size }) => total + size, 0)
      const facts = { spool, bytes }
      if (stats.every(({ mtimeMs }) => Date.now() - mtimeMs > FOREIGN_MS_MAX)) {
        const message = 'results encrypted with another API_KEY are a week old and are removed'
        if (bytes > 0) this.#log.warn(facts, message)
        await rm(spool, { recursive: true, force: true })
        continue
      }
      this.foreignBytes += bytes
      if (this.#reported.has(spool)) continue
      this.#reported.add(spool)
      const message = 'an agent with that key, or with it in API_KEY_PREVIOUS, delivers them'
      this.#log.warn(facts, `another API_KEY encrypted these results; ${message}`)
    }
  }
}

async function spoolsIn(path: string): Promise<string[]> {
  return (await namesIn(path)).filter((name) => SPOOL.test(name))
}

async function namesIn(path: string): Promise<string[]> {
  const names: string[] = await readdir(path).catch(() => [])
  return names.toSorted()
}
