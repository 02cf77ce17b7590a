// Waits for all native sockets at once with epoll(7), in one thread of Node's pool, and only while one is watched.
import { checked, libcFunction } from './syscalls.ts'

const epoll_create1 = libcFunction('int epoll_create1(int)')
const epoll_ctl = libcFunction('int epoll_ctl(int, int, int, void *)')
const epoll_wait = libcFunction('int epoll_wait(int, void *, int, int)')
const eventfd = libcFunction('int eventfd(unsigned int, int)')

const CLOSE_ON_EXEC = 0o2000000
const [ADD, REMOVE] = [1, 2]
/** Events read at a time; the others follow. */
const EVENTS_MAX = 256
/** struct epoll_event: without padding on x86-64. */
const [EVENT_BYTES, ID_AT] = process.arch === 'x64' ? [12, 4] : [16, 8]
/** Delay after a wait that could not start. */
const RETRY_MS = 20

/** A watched descriptor. */
export interface Watch {
  /** Stops watching until `resume`. */
  pause(): void
  resume(): void
  /** Ends the watch; close the descriptor after that. */
  close(): void
}

type OnReady = (events: number) => void

/**
 * Calls back whenever the descriptor is ready for one of `events` (of POLL) or has an error, until it is paused or
 * closed. Entries of the error queue count as errors: the callback repeats until they are read. A watch that is not
 * paused keeps the process alive. Throws a SystemCallError.
 */
export function watch(fd: number, events: number, onReady: OnReady): Watch {
  poller ??= new Poller()
  return poller.watch(fd, events, onReady)
}

/** The number of watches that are not paused. */
export function watchedNow(): number {
  return poller?.watched.size ?? 0
}

let poller: Poller | undefined

class Poller {
  /** Callbacks of the watches that are not paused. */
  readonly watched = new Map<number, OnReady>()
  readonly #epoll = checked('epoll_create1', epoll_create1(CLOSE_ON_EXEC))
  /** Always ready: a wait ends when this descriptor joins the others. */
  readonly #ready = checked('eventfd', eventfd(1, CLOSE_ON_EXEC))
  readonly #events = Buffer.alloc(EVENTS_MAX * EVENT_BYTES)
  #newestId = 0
  #isWaiting = false
  #isEnding = false

  constructor() {
    // Node waits for its pool when it exits.
    process.once('exit', () => this.#endWait())
  }

  watch(fd: number, events: number, onReady: OnReady): Watch {
    // Unlike a descriptor, an id is never used again.
    const id = ++this.#newestId
    let isClosed = false
    let isWanted = true
    const add = () => {
      this.watched.set(id, onReady)
      this.#begin()
    }
    const resume = () => {
      isWanted = true
      if (isClosed || this.watched.has(id)) return
      if (this.#control(ADD, fd, events, id) >= 0) add()
      // The kernel may be short of memory for a moment.
      else setTimeout(() => isWanted && resume(), RETRY_MS).unref()
    }
    const pause = () => {
      isWanted = false
      if (!this.watched.delete(id)) return
      this.#control(REMOVE, fd)
      if (this.watched.size === 0) this.#endWait()
    }
    checked('epoll_ctl', this.#control(ADD, fd, events, id))
    add()
    return {
      pause,
      resume,
      close() {
        isClosed = true
        pause()
      },
    }
  }

  #control(operation: number, fd: number, events = 0, id = 0): number {
    const event = Buffer.alloc(EVENT_BYTES)
    event.writeUInt32LE(events, 0)
    event.writeUInt32LE(id, ID_AT)
    return epoll_ctl(this.#epoll, operation, fd, event)
  }

  /** Waits from the next turn of the event loop on: many watches last no longer than this one. */
  #begin(): void {
    if (this.#isWaiting) return
    this.#isWaiting = true
    setImmediate(() => this.#wait())
  }

  #wait(): void {
    if (this.watched.size === 0) return this.#ended(0)
    try {
      epoll_wait.async(this.#epoll, this.#events, EVENTS_MAX, -1, (_: unknown, count: number) =>
        this.#ended(count),
      )
    } catch {
      // The binding limits the number of concurrent calls.
      setTimeout(() => this.#wait(), RETRY_MS)
    }
  }

  #endWait(): void {
    if (!this.#isWaiting || this.#isEnding) return
    this.#isEnding = true
    this.#control(ADD, this.#ready, 1)
  }

  #ended(count: number): void {
    this.#isWaiting = false
    if (this.#isEnding) this.#control(REMOVE, this.#ready)
    this.#isEnding = false
    if (this.watched.size > 0) this.#begin()
    for (let at = 0; at < count * EVENT_BYTES; at += EVENT_BYTES) {
      // An earlier callback may have ended the watch.
      this.watched.get(this.#events.readUInt32LE(at + ID_AT))?.(this.#events.readUInt32LE(at))
    }
  }
}
