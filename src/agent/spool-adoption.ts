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
  const told = new Set<string>()
  let foreign = 0
  const mine = spoolName(folder.seal.fingerprint)

  const lookInto = async (path: string): Promise<'ours' | undefined> => {
    let isOurs = false
    for (const name of (await namesIn(path)).filter((one) => SPOOL.test(one))) {
      const spool = join(path, name)
      const found = await contents(spool)
      if (found === undefined) continue
      if (name === mine) isOurs = true
      else foreign += await keepForeign(spool, found)
    }
    return isOurs ? 'ours' : undefined
  }

  const keepForeign = async (spool: string, found: Contents): Promise<number> => {
    if (Date.now() - found.newestMs > FOREIGN_MS_MAX) {
      log.warn({ ...found, spool }, 'results that another API_KEY sealed are a week old; removed')
      await rm(spool, { recursive: true, force: true })
      return 0
    }
    if (!told.has(spool)) {
      told.add(spool)
      const what =
        'results lie here that another API_KEY sealed; only an agent with it delivers them'
      log.warn({ spool, bytes: found.bytes }, what)
    }
    return found.bytes
  }

  const adopt = async (path: string): Promise<AdoptedSpool | undefined> => {
    // Only looks that can lead to something take the lock, which for another container takes seconds.
    if (!(await namesIn(path)).some((name) => SPOOL.test(name))) return undefined
    const lock = await lockAgentFolder(path, () => undefined)
    if (lock === undefined) return undefined
    const isOurs = (await lookInto(path).catch(() => undefined)) === 'ours'
    const adopted = isOurs ? await open(join(path, mine), lock) : undefined
    if (adopted === undefined) giveBack(lock)
    return adopted
  }

  const open = async (path: string, lock: FolderLock): Promise<AdoptedSpool | undefined> => {
    const { seal } = folder
    const none = () => undefined
    const options = { folder: path, seal, bytesMax: Infinity, log, onKept: none }
    const spool = await openSpool({ ...options, isHeld: () => true })
    const close = async () => {
      await spool.close()
      giveBack(lock)
    }
    if (spool.hasOld()) {
      log.info({ spool: path, results: spool.waiting }, 'delivering what another agent left')
      return { spool, close }
    }
    await spool.close()
    return undefined
  }

  return {
    foreignBytes: () => foreign,
    async next() {
      const { neighbours, path: own } = folder
      if (neighbours === undefined || own === undefined) return undefined
      foreign = 0
      await lookInto(own).catch(() => undefined)
      for (const name of await namesIn(neighbours)) {
        const path = join(neighbours, name)
        if (path === own) continue
        const adopted = await adopt(path).catch(() => undefined)
        if (adopted !== undefined) return adopted
      }
      return undefined
    },
  }
}

interface Contents {
  bytes: number
  newestMs: number
}

/** What lies in a spool; undefined when there is nothing. */
async function contents(spool: string): Promise<Contents | undefined> {
  const files = (await namesIn(spool)).filter((name) => name.endsWith('.seg'))
  if (files.length === 0) return undefined
  const stats = await Promise.all(files.map((name) => stat(join(spool, name))))
  return {
    bytes: stats.reduce((sum, { size }) => sum + size, 0),
    newestMs: Math.max(...stats.map(({ mtimeMs }) => mtimeMs)),
  }
}

async function namesIn(path: string): Promise<string[]> {
  return (await readdir(path).catch(() => [])).toSorted()
}

function giveBack(lock: FolderLock): void {
  try {
    lock.release()
  } catch {
    return
  }
}
