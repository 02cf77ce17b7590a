// Polls all native sockets at once, in one thread of Node's pool, and only while at least one is watched.
import type { Libc } from './libc.ts'
import { POLL } from './socket-options.ts'

/** A watched descriptor. */
export interface Watch {
  /** Stops watching until `resume`. */
  pause(): void
  resume(): void
  /** Ends the watch; close the descriptor after that. */
  close(): void
}

/**
 * Calls back whenever the descriptor is ready for one of `events` (of POLL) or has an error, until it is
 * paused or closed. Entries of the error queue count as errors: the callback repeats until
 * they are read. A watch that is not paused keeps the process alive.
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

export function watchedNow(): number {
  return poller?.active ?? 0
}

let poller: Poller | undefined

interface Entry {
  readonly fd: number
  readonly events: number
  readonly onReady: (events: number) => void
  active: boolean
  /** The newest round that polls it. */
  inRound: number
}

/** Length limit of a round: a lost signal delays a change no longer than this. */
const ROUND_MS_MAX = 1000
/** Delay after a round that could not start. */
const RETRY_MS = 20
const POLLFD_BYTES = 8
const EFD_FLAGS = 0o4000 | 0o2000000
const ONE = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0])

class Poller {
  readonly #libc: Libc
  readonly #entries = new Set<Entry>()
  /** An eventfd; a write to it ends the round early. */
  readonly #condition: number
  #round = 0
  #waited: Entry[] = []
  /** The round's descriptors, in the form of poll(2); the condition comes first. */
  #polled = Buffer.alloc(64 * POLLFD_BYTES)
  #isPolling = false
  #isBegun = false
  #isSignalled = false

  constructor(libc: Libc) {
    this.#libc = libc
    this.#condition = libc.eventfd(0, EFD_FLAGS)
    // Node waits for its pool when it exits.
    process.once('exit', () => this.#signal())
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
        // A round keeps its sockets open: the port of a closed one would stay in use.
        if (this.#entries.delete(entry) && this.#isPolling && entry.inRound === this.#round) {
          this.#signal()
        }
      },
    }
  }

  /** Ends a round with outdated descriptors, or starts one if none runs. */
  #changed(entry: Entry): void {
    if (!this.#isPolling) {
      if (entry.active) this.#begin()
    } else if (entry.active ? entry.inRound !== this.#round : this.#active().length === 0) {
      this.#signal()
    }
  }

  #signal(): void {
    if (!this.#isPolling || this.#isSignalled) return
    this.#isSignalled = true
    this.#libc.write(this.#condition, ONE, ONE.length)
  }

  /** Starts one round for all changes in this turn of the event loop. */
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
      this.#libc.poll.async(this.#polled, count + 1, ROUND_MS_MAX, () => this.#ended())
    } catch {
      // The binding limits the number of concurrent calls.
      this.#isPolling = false
      setTimeout(() => this.#begin(), RETRY_MS)
    }
  }

  #write(): void {
    const bytes = (this.#waited.length + 1) * POLLFD_BYTES
    if (bytes > this.#polled.length) this.#polled = Buffer.alloc(2 * bytes)
    const put = (index: number, fd: number, events: number) => {
      this.#polled.writeInt32LE(fd, index * POLLFD_BYTES)
      this.#polled.writeInt32LE(events, index * POLLFD_BYTES + 4)
    }
    put(0, this.#condition, POLL.in)
    for (const [index, entry] of this.#waited.entries()) {
      put(index + 1, entry.fd, entry.events)
      entry.inRound = this.#round
    }
  }

  #ended(): void {
    this.#isPolling = false
    if (this.#isSignalled) {
      this.#isSignalled = false
      this.#libc.read(this.#condition, Buffer.alloc(8), 8)
    }
    this.#begin()
    const ready = this.#waited
      .map((entry, index) => ({
        entry,
        events: this.#polled.readInt16LE((index + 1) * POLLFD_BYTES + 6),
      }))
      .filter(({ events }) => events !== 0)
    for (const { entry, events } of ready) {
      // An earlier callback may have closed it.
      if (entry.active) entry.onReady(events)
    }
  }
}
