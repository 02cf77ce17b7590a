// PTR lookups of hop addresses: run in the background, cached, and awaited only briefly. An unresponsive name
// server delays the first run a moment, and later runs not at all.
import { Resolver } from 'node:dns/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { TRACEROUTE_LIMITS } from './definition.ts'
import { RESOLV_CONF } from '../../network/dns/resolv-conf.ts'
import { LeastRecentlyUsed } from '../../network/least-recently-used.ts'
import { watchedFile } from '../../network/watched-file.ts'

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
/** Codes of a server's answer that there is no name. */
const NO_NAME: ReadonlySet<unknown> = new Set(['ENOTFOUND', 'ENODATA'])

interface Entry {
  name: string | undefined
  untilMs: number
  /** While it is looked up. */
  asking: Promise<void> | undefined
}

/** A memory of names, empty at first. */
export class ReverseNames {
  readonly #entries = new LeastRecentlyUsed<string, Entry>(TRACEROUTE_LIMITS.reverseNamesMax)
  readonly #servers: () => Resolver
  readonly #now: () => number
  #asking = 0

  constructor({ servers, now = () => performance.now() }: ReverseNameSettings = {}) {
    this.#now = now
    this.#servers = watchedFile(RESOLV_CONF, () => {
      const resolver = new Resolver({ timeout: QUERY_MS, tries: 1 })
      if (servers !== undefined) resolver.setServers(servers)
      return resolver
    })
  }

  /** Begins to look the address up, unless its name is known; see `name`. Never throws. */
  ask(address: string): void {
    const entry = this.#entries.get(address) ?? { name: undefined, untilMs: 0, asking: undefined }
    if (entry.asking !== undefined || entry.untilMs > this.#now()) return
    if (this.#asking >= TRACEROUTE_LIMITS.reverseLookupsMax) return
    this.#entries.set(address, entry)
    entry.asking = this.#lookUp(address, entry)
  }

  async #lookUp(address: string, entry: Entry): Promise<void> {
    this.#asking++
    try {
      const names = await this.#servers().reverse(address.replace(/%.*/, ''))
      entry.name = names[0]
    } catch (error) {
      // An old name is better than none while the name server does not answer.
      if (NO_NAME.has((error as NodeJS.ErrnoException).code)) entry.name = undefined
    }
    this.#asking--
    entry.asking = undefined
    entry.untilMs = this.#now() + (entry.name === undefined ? NO_NAME_MS : NAME_MS)
  }

  /** The name, where it is known by now. */
  name(address: string): string | undefined {
    return this.#entries.get(address)?.name
  }

  /**
   * Waits until all look-ups of these addresses have ended, but no longer than that, nor than until the
   * signal is aborted. Never rejects.
   */
  async settle(addresses: readonly string[], waitMs: number, signal: AbortSignal): Promise<void> {
    // An entry that is refreshed has its old name meanwhile.
    const open = addresses.flatMap((address) => {
      const entry = this.#entries.get(address)
      return entry?.name === undefined ? (entry?.asking ?? []) : []
    })
    if (open.length === 0) return
    const waiting = pause(waitMs, undefined, { signal, ref: false })
    await Promise.race([Promise.all(open), waiting.catch(() => undefined)])
  }
}
