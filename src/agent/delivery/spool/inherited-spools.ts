// Spools that this process delivers in addition to its own: those in its folder under a former API_KEY, then,
// one at a time, those of agents that have ended.
import type { Loss } from '../stored-results.ts'
import type { AdoptedSpool, SpoolAdoption } from './adoption.ts'

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
