// Delivers what agents left behind that are gone: their spools lie in the folders beside this agent's, and
// whoever has a folder's lock may deliver them. Spools that another key sealed are put up with for a week.
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { FolderLock } from '../host/folder-lock.ts'
import type { Log } from '../host/log.ts'
import { lockAgentFolder, type AgentFolder } from './agent-folder.ts'
import { openSpool, type Spool } from './spool.ts'

/** A spool of an agent that is gone. */
export interface AdoptedSpool {
  spool: Spool
  /** Gives the folder back. Never rejects. */
  close(): Promise<void>
}

/** Looks for spools. */
export interface SpoolAdoption {
  /** The next one with something in it; undefined when there is none now. Never rejects. */
  next(): Promise<AdoptedSpool | undefined>
  /** Bytes that another key sealed, as found by the last look. */
  foreignBytes(): number
}

/** After this long nobody is expected to come back with the key. */
const FOREIGN_MS_MAX = 7 * 24 * 3600 * 1000
const SPOOL = /^spool\.([0-9a-f]{12})$/

/** The name of the folder in which results lie that were sealed under this key. */
export function spoolName(fingerprint: string): string {
  return `spool.${fingerprint}`
}

/** Makes the search for an agent in its folder. */
export function createSpoolAdoption(folder: AgentFolder, log: Log): SpoolAdoption {
  return new Search(folder, log)
}

class Search implements SpoolAdoption {
  readonly #folder: AgentFolder
  readonly #log: Log
  readonly #ours: string
  readonly #told = new Set<string>()
  #foreignBytes = 0

  constructor(folder: AgentFolder, log: Log) {
    this.#folder = folder
    this.#log = log
    this.#ours = spoolName(folder.seal.fingerprint)
  }

  foreignBytes(): number {
    return this.#foreignBytes
  }

  async next(): Promise<AdoptedSpool | undefined> {
    const { neighbours, path: own } = this.#folder
    if (neighbours === undefined || own === undefined) return undefined
    this.#foreignBytes = 0
    await this.#lookAtForeign(own, await spoolsIn(own)).catch(() => undefined)
    for (const name of await namesIn(neighbours)) {
      const path = join(neighbours, name)
      if (path === own) continue
      const adopted = await this.#lookInto(path).catch(() => undefined)
      if (adopted !== undefined) return adopted
    }
    return undefined
  }

  async #lookInto(path: string): Promise<AdoptedSpool | undefined> {
    // The lock is only tried where there is something, since for another container's it takes seconds.
    if ((await spoolsIn(path)).size === 0) return undefined
    const held = { isLost: false }
    const lock = await lockAgentFolder(path, () => (held.isLost = true))
    if (lock === undefined) return undefined
    let adopted: AdoptedSpool | undefined
    try {
      const spools = await spoolsIn(path)
      await this.#lookAtForeign(path, spools)
      if (spools.has(this.#ours)) adopted = await this.#open(join(path, this.#ours), lock, held)
    } finally {
      if (adopted === undefined) giveBack(lock)
    }
    return adopted
  }

  async #open(
    path: string,
    lock: FolderLock,
    held: { isLost: boolean },
  ): Promise<AdoptedSpool | undefined> {
    const { seal } = this.#folder
    const spool = await openSpool({
      folder: path,
      seal,
      bytesMax: Infinity,
      log: this.#log,
      onKept: () => undefined,
      isHeld: () => !held.isLost,
    })
    const close = async () => {
      await spool.close()
      giveBack(lock)
    }
    if (!spool.hasOld()) {
      await spool.close()
      return undefined
    }
    this.#log.info({ spool: path, results: spool.waiting }, 'delivering what another agent left')
    return { spool, close }
  }

  async #lookAtForeign(path: string, spools: Map<string, Contents>): Promise<void> {
    for (const [name, found] of spools) {
      if (name === this.#ours) continue
      const spool = join(path, name)
      const facts = { spool, bytes: found.bytes }
      if (Date.now() - found.newestMs > FOREIGN_MS_MAX) {
        this.#log.warn(facts, 'results that another API_KEY sealed are a week old and are removed')
        await rm(spool, { recursive: true, force: true })
        continue
      }
      this.#foreignBytes += found.bytes
      if (this.#told.has(spool)) continue
      this.#told.add(spool)
      this.#log.warn(facts, 'another API_KEY sealed these results; an agent with it delivers them')
    }
  }
}

interface Contents {
  bytes: number
  newestMs: number
}

/** The spools of a folder that hold something, by their names. */
async function spoolsIn(path: string): Promise<Map<string, Contents>> {
  const spools = new Map<string, Contents>()
  for (const name of (await namesIn(path)).filter((one) => SPOOL.test(one))) {
    const spool = join(path, name)
    const files = (await namesIn(spool)).filter((one) => one.endsWith('.seg'))
    if (files.length === 0) continue
    const stats = await Promise.all(files.map((one) => stat(join(spool, one))))
    const bytes = stats.reduce((sum, { size }) => sum + size, 0)
    spools.set(name, { bytes, newestMs: Math.max(...stats.map(({ mtimeMs }) => mtimeMs)) })
  }
  return spools
}

async function namesIn(path: string): Promise<string[]> {
  const names: string[] = await readdir(path).catch(() => [])
  return names.toSorted()
}

function giveBack(lock: FolderLock): void {
  try {
    lock.release()
  } catch {
    return
  }
}
