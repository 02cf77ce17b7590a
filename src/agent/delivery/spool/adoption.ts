// Delivers the results of agents that have ended: their spools are in the folders next to this agent's, and the
// owner of a folder's lock may deliver them. The same applies to results under a former API_KEY. Spools that no
// known key opens are removed after a week.
import { readdir, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { FolderLock } from '../../../process/folder-lock.ts'
import type { Log } from '../../../process/log.ts'
import { lockAgentFolder, type AgentFolder } from './agent-folder.ts'
import type { AgentCipher } from './agent-cipher.ts'
import { openSpool, type Spool } from './spool.ts'
import type { Loss } from '../stored-results.ts'

/** A spool of an agent that has ended. */
export interface AdoptedSpool {
  spool: Spool
  /** Gives the folder back. Never rejects. */
  close(): Promise<void>
}

/** Looks for spools. */
export interface SpoolAdoption {
  /** The next one with something in it; undefined when there is none now. Never rejects. */
  next(): Promise<AdoptedSpool | undefined>
  /** Those in this agent's own folder that a former key encrypted. Never rejects. */
  own(): Promise<AdoptedSpool[]>
  /** Bytes that another key encrypted, as found by the last look. */
  foreignBytes(): number
}

/** After this time no agent with the key is expected any more. */
const FOREIGN_MS_MAX = 7 * 24 * 3600 * 1000
const SPOOL = /^spool\.([0-9a-f]{12})$/

/** The name of the folder of results that this key encrypted. */
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
  /** By the name of their spool: this agent's key first. */
  readonly #ciphers: ReadonlyMap<string, AgentCipher>
  readonly #reported = new Set<string>()
  #foreignBytes = 0

  constructor(folder: AgentFolder, log: Log) {
    this.#folder = folder
    this.#log = log
    const ciphers = [folder.cipher, ...folder.formerCiphers]
    this.#ciphers = new Map(ciphers.map((cipher) => [spoolName(cipher.fingerprint), cipher]))
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

  async own(): Promise<AdoptedSpool[]> {
    const { path } = this.#folder
    const found: AdoptedSpool[] = []
    if (path === undefined) return found
    const present = spoolName(this.#folder.cipher.fingerprint)
    for (const name of (await spoolsIn(path).catch(() => new Map<string, Contents>())).keys()) {
      if (name === present || !this.#ciphers.has(name)) continue
      const hold = { release: () => undefined, isHeld: () => this.#folder.isHeld() }
      const spool = await this.#open(path, name, hold).catch(() => undefined)
      if (spool !== undefined) found.push(spool)
    }
    return found
  }

  async #lookInto(path: string): Promise<AdoptedSpool | undefined> {
    // The lock is only tried where there is something, since for another container's it takes seconds.
    if ((await spoolsIn(path)).size === 0) return undefined
    let isLost = false
    const lock = await lockAgentFolder(path, () => (isLost = true))
    if (lock === undefined) return undefined
    const hold = { release: () => giveBack(lock), isHeld: () => !isLost }
    let adopted: AdoptedSpool | undefined
    try {
      const spools = await spoolsIn(path)
      await this.#lookAtForeign(path, spools)
      for (const name of this.#ciphers.keys()) {
        if (spools.has(name)) adopted ??= await this.#open(path, name, hold)
      }
    } finally {
      if (adopted === undefined) hold.release()
    }
    return adopted
  }

  async #open(
    path: string,
    name: string,
    hold: { release: () => void; isHeld: () => boolean },
  ): Promise<AdoptedSpool | undefined> {
    const cipher = this.#ciphers.get(name)
    if (cipher === undefined) return undefined
    const folder = join(path, name)
    const spool = await openSpool({
      folder,
      cipher,
      bytesMax: Infinity,
      log: this.#log,
      onStored: () => undefined,
      isHeld: hold.isHeld,
    })
    const close = async () => {
      await spool.close()
      // Only where nothing is left in it.
      if (cipher !== this.#folder.cipher) await rmdir(folder).catch(() => undefined)
      hold.release()
    }
    // A spool that is wholly damaged is reported as well.
    if (spool.found + spool.damagedPlaces === 0) {
      await spool.close()
      return undefined
    }
    const facts = { spool: folder, results: spool.waiting }
    this.#log.info(facts, 'delivering what another agent left, or was kept under a former key')
    return { spool, close }
  }

  async #lookAtForeign(path: string, spools: Map<string, Contents>): Promise<void> {
    for (const [name, found] of spools) {
      if (this.#ciphers.has(name)) continue
      const spool = join(path, name)
      const facts = { spool, bytes: found.bytes }
      if (Date.now() - found.newestMs > FOREIGN_MS_MAX) {
        this.#log.warn(
          facts,
          'results that another API_KEY encrypted are a week old and are removed',
        )
        await rm(spool, { recursive: true, force: true })
        continue
      }
      this.#foreignBytes += found.bytes
      if (this.#reported.has(spool)) continue
      this.#reported.add(spool)
      const message = 'an agent with it, or with it in API_KEY_PREVIOUS, delivers them'
      this.#log.warn(facts, `another API_KEY encrypted these results; ${message}`)
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

const LOSSES = ['full', 'damaged', 'memory'] as const

/** Spools of others. */
export class InheritedSpools {
  readonly #adoption: SpoolAdoption
  #open: AdoptedSpool[] = []
  /** Of those that are closed. */
  #found = 0
  #damagedPlaces = 0
  readonly #lost: Record<Loss, number> = { full: 0, damaged: 0, memory: 0 }

  constructor(adoption: SpoolAdoption) {
    this.#adoption = adoption
  }

  /** Opens those of this agent's own folder. Never rejects. */
  async openOwn(): Promise<void> {
    this.#open.push(...(await this.#adoption.own()))
  }

  /** The one to be delivered now; undefined when there is none. Never rejects. */
  async present(): Promise<AdoptedSpool | undefined> {
    if (this.#open.length === 0) {
      const next = await this.#adoption.next()
      if (next !== undefined) this.#open.push(next)
    }
    return this.#open[0]
  }

  /** Closes a spool that is delivered, or stays for another agent. Never rejects. */
  async close(adopted: AdoptedSpool): Promise<void> {
    if (!this.#open.includes(adopted)) return
    this.#open = this.#open.filter((one) => one !== adopted)
    const { spool } = adopted
    for (const reason of LOSSES) this.#lost[reason] += spool.lost[reason]
    this.#damagedPlaces += spool.damagedPlaces
    // What is left goes back: it was never ours.
    this.#found += spool.found - spool.waiting
    await adopted.close()
  }

  /** Closes all of them. Never rejects. */
  async closeAll(): Promise<void> {
    for (const one of this.#open) await this.close(one)
  }

  /** Results that were in them when they were opened. */
  found(): number {
    return this.#open.reduce((sum, { spool }) => sum + spool.found, this.#found)
  }

  waiting(): number {
    return this.#open.reduce((sum, { spool }) => sum + spool.waiting, 0)
  }

  bytes(): number {
    return this.#open.reduce((sum, { spool }) => sum + spool.bytes(), 0)
  }

  lost(reason: Loss): number {
    return this.#open.reduce((sum, { spool }) => sum + spool.lost[reason], this.#lost[reason])
  }

  damagedPlaces(): number {
    return this.#open.reduce((sum, { spool }) => sum + spool.damagedPlaces, this.#damagedPlaces)
  }

  /** When the oldest result came that lies in them; Infinity when there is none. */
  oldestAt(): number {
    return Math.min(Infinity, ...this.#open.map(({ spool }) => spool.oldestAt()))
  }

  /** Bytes that none of this agent's keys opens. */
  foreignBytes(): number {
    return this.#adoption.foreignBytes()
  }
}
