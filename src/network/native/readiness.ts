// Waits for all sockets of our own at once: one thread of Node's pool polls them while there is something to
// wait for, and none does while there is not.
import { type Libc, type NativeMemory } from './libc.ts'
import { POLL } from './socket-options.ts'

/** A descriptor that is waited for. */
export interface Watch {
  /** Waits for it no more, until `resume`. */
  pause(): void
  resume(): void
  /** Forgets it; close the descriptor after that. */
  close(): void
}

/**
 * Calls back whenever the descriptor is ready for one of `events` (of POLL) or has an error, until it is
 * paused or closed. Entries of the error queue count as errors: who does not read them is called again
 * and again. A watch that is not paused keeps the process alive.
 */
export function watch(
  libc: Libc,
  fd: number,
  events: number,
  onReady: (events: number) => void,
): Watch {
  poller ??= new Poller(libc)
  return poller.watch({ fd, events, onReady, active: true, inRound: 0 })
}

/** Sockets that are waited for now. */
export function watchedNow(): number {
  return poller?.active ?? 0
}

let poller: Poller | undefined

interface Entry {
  readonly fd: number
  readonly events: number
  readonly onReady: (events: number) => void
  active: boolean
  /** The newest round that waits for it. */
  inRound: number
}

/** No round is longer: what went wrong with waking it would go unnoticed no longer than this. */
const ROUND_MS_MAX = 1000
/** After a round that could not begin. */
const RETRY_MS = 20
const POLLFD_BYTES = 8
const EFD_FLAGS = 0o4000 | 0o2000000
const ONE = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0])

class Poller {
  readonly #libc: Libc
  readonly #entries = new Set<Entry>()
  /** Written to in order to end a round early. */
  readonly #condition: number
  #round = 0
  #waited: Entry[] = []
  #memory: NativeMemory
  #isPolling = false
  #isBegun = false
  #isRung = false

  constructor(libc: Libc) {
    this.#libc = libc
    this.#condition = libc.eventfd(0, EFD_FLAGS)
    this.#memory = libc.allocate(64 * POLLFD_BYTES)
    // Node waits for its pool when it exits.
    process.once('exit', () => this.#ring())
  }

  get active(): number {
    return this.#active().length
  }

  #active(): Entry[] {
    return [...this.#entries].filter(({ active }) => active)
  }

  watch(entry: Entry): Watch {
    this.#entries.add(entry)
    this.#changed(entry)
    return {
      pause: () => {
        if (!entry.active) return
        entry.active = false
        this.#changed(entry)
      },
      resume: () => {
        if (entry.active || !this.#entries.has(entry)) return
        entry.active = true
        this.#changed(entry)
      },
      close: () => {
        entry.active = false
        // A round holds what it polls open; the port of a closed socket would stay taken.
        if (this.#entries.delete(entry) && this.#isPolling && entry.inRound === this.#round) {
          this.#ring()
        }
      },
    }
  }

  /** Ends the round where it waits for the wrong descriptors, and begins one where there is none. */
  #changed(entry: Entry): void {
    if (!this.#isPolling) {
      if (entry.active) this.#begin()
    } else if (entry.active ? entry.inRound !== this.#round : this.#active().length === 0) {
      this.#ring()
    }
  }

  #ring(): void {
    if (!this.#isPolling || this.#isRung) return
    this.#isRung = true
    this.#libc.write(this.#condition, ONE, ONE.length)
  }

  /** One round for all that changes in this turn of the event loop. */
  #begin(): void {
    if (this.#isBegun || this.#isPolling) return
    this.#isBegun = true
    setImmediate(() => {
      this.#isBegun = false
      this.#poll()
    })
  }

  #poll(): void {
    this.#waited = this.#active()
    const count = this.#waited.length
    if (count === 0) return
    this.#round++
    this.#write()
    try {
      this.#isPolling = true
      this.#libc.poll.async(this.#memory.address, count + 1, ROUND_MS_MAX, () => this.#ended())
    } catch {
      // The binding takes only so many calls at a time.
      this.#isPolling = false
      setTimeout(() => this.#begin(), RETRY_MS)
    }
  }

  /** The round's descriptors, in the form of poll(2); the condition comes first. */
  #write(): void {
    const bytes = (this.#waited.length + 1) * POLLFD_BYTES
    if (bytes > this.#memory.bytes.length) {
      this.#libc.free(this.#memory)
      this.#memory = this.#libc.allocate(2 * bytes)
    }
    const { view } = this.#memory
    const put = (index: number, fd: number, events: number) => {
      view.setInt32(index * POLLFD_BYTES, fd, true)
      view.setInt16(index * POLLFD_BYTES + 4, events, true)
      view.setInt16(index * POLLFD_BYTES + 6, 0, true)
    }
    put(0, this.#condition, POLL.in)
    for (const [index, entry] of this.#waited.entries()) {
      put(index + 1, entry.fd, entry.events)
      entry.inRound = this.#round
    }
  }

  #ended(): void {
    this.#isPolling = false
    if (this.#isRung) {
      this.#isRung = false
      this.#libc.read(this.#condition, Buffer.alloc(8), 8)
    }
    this.#begin()
    const { view } = this.#memory
    const ready = this.#waited
      .map((entry, index) => ({
        entry,
        events: view.getInt16((index + 1) * POLLFD_BYTES + 6, true),
      }))
      .filter(({ events }) => events !== 0)
    for (const { entry, events } of ready) {
      // An earlier callback may have closed it.
      if (entry.active) entry.onReady(events)
    }
  }
}
