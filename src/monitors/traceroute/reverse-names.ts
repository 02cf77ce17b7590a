// PTR lookups of hop addresses: run in the background, cached, and awaited only briefly. An unresponsive name
// server delays the first run a moment, and later runs not at all.
import { TRACEROUTE_LIMITS } from './definition.ts'
import { Resolver as NameServers } from 'node:dns'
import { LeastRecentlyUsed } from '../../network/least-recently-used.ts'

export interface ReverseNames {
  /** Begins to look the address up, unless its name is known; see `name`. Never throws. */
  ask(address: string): void
  /** The name, where it is known by now. */
  name(address: string): string | undefined
  /**
   * Waits until all look-ups of these addresses have ended, but no longer than that, nor than until the
   * signal is aborted. Never rejects.
   */
  settle(addresses: readonly string[], waitMs: number, signal: AbortSignal): Promise<void>
}

export interface ReverseNameSettings {
  /** Name servers instead of the system's: `address` or `address:port`. */
  servers?: readonly string[]
  now?: () => number
}

/** How long a name is cached, and a missing one. */
const NAME_MS = 600_000
const NO_NAME_MS = 60_000
/** One question to one name server. */
const QUERY_MS = 1000
/** How often the system's name servers are read again. */
const SERVERS_MS = 30_000

interface Entry {
  name: string | undefined
  untilMs: number
  /** While it is looked up. */
  asking: Promise<void> | undefined
}

/** Makes an empty memory of names; the name servers are read at first use. */
export function createReverseNames(settings: ReverseNameSettings = {}): ReverseNames {
  const now = settings.now ?? (() => performance.now())
  const entries = new LeastRecentlyUsed<string, Entry>(TRACEROUTE_LIMITS.reverseNamesMax)
  let servers: NameServers | undefined
  let serversUntilMs = 0
  let asking = 0
  const current = () => {
    if (servers !== undefined && now() < serversUntilMs) return servers
    servers = new NameServers({ timeout: QUERY_MS, tries: 1 })
    if (settings.servers !== undefined) servers.setServers(settings.servers)
    serversUntilMs = now() + SERVERS_MS
    return servers
  }
  const lookUp = async (address: string, entry: Entry): Promise<void> => {
    asking++
    const names = await reverse(current(), address)
    asking--
    entry.asking = undefined
    // An old name is better than none while the name server does not answer.
    if (names !== 'silent') entry.name = names[0]
    entry.untilMs = now() + (entry.name === undefined ? NO_NAME_MS : NAME_MS)
  }
  return {
    ask(address) {
      const known = entries.get(address)
      if (known?.asking !== undefined || (known?.untilMs ?? 0) > now()) return
      if (asking >= TRACEROUTE_LIMITS.reverseLookupsMax) return
      const entry = known ?? { name: undefined, untilMs: 0, asking: undefined }
      entries.set(address, entry)
      entry.asking = lookUp(address, entry)
    },
    name: (address) => entries.get(address)?.name,
    async settle(addresses, waitMs, signal) {
      // An entry that is refreshed has its old name meanwhile.
      const open = addresses.flatMap((address) => {
        const entry = entries.get(address)
        return entry?.asking !== undefined && entry.name === undefined ? [entry.asking] : []
      })
      if (open.length > 0) await within(Promise.all(open), waitMs, signal)
    },
  }
}

/** Names of the address; empty if there are none, `silent` without an answer. */
function reverse(servers: NameServers, address: string): Promise<string[] | 'silent'> {
  return new Promise((resolve) => {
    try {
      servers.reverse(address.replace(/%.*/, ''), (error, names) => {
        if (error === null) resolve(names)
        else resolve(error.code === 'ENOTFOUND' || error.code === 'ENODATA' ? [] : 'silent')
      })
    } catch {
      resolve([])
    }
  })
}

/** Waits for the work, but no longer than that, nor than until the signal is aborted. */
function within(work: Promise<unknown>, waitMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, signal.aborted ? 0 : waitMs)
    signal.addEventListener('abort', done, { once: true })
    void work.finally(done)
  })
}
