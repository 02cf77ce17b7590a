// Cache of revocation data: answers by certificate, lists by URL. Bounded in number, bytes and age.
import { SSL_LIMITS } from '../definition.ts'
import type { Dialler } from '../../../network/dial.ts'
import { LeastRecentlyUsed } from '../../../network/least-recently-used.ts'
import type { Problem } from './ocsp-message.ts'
import type { RevocationList } from './list.ts'
import { SharedWork } from './shared-work.ts'

interface Cached<V> {
  value: V
  until: number
}

/** Some hundred bytes each. */
const ANSWERS_MAX = 5000
/** Time after which a failed responder is asked again. */
const PROBLEM_AGE_MS_MAX = 60_000

/** Answers and lists that were fetched through one dialler. */
class RevocationMemory<A> {
  /** Answers by their request, problems included. */
  readonly #answers = new LeastRecentlyUsed<string, Cached<A>>(ANSWERS_MAX)
  readonly #lists = new Map<string, Cached<RevocationList>>()
  #listBytes = 0
  readonly asking = new SharedWork<A>()
  readonly reading = new SharedWork<RevocationList | Problem>()

  answer(key: string, now: number): A | undefined {
    const cached = this.#answers.get(key)
    return cached === undefined || cached.until <= now ? undefined : cached.value
  }

  /** Caches an answer until `holdsUntil`; a problem, which has no such time, for a minute. */
  cacheAnswer(key: string, value: A, now: number, holdsUntil: number | undefined): void {
    const until =
      holdsUntil === undefined
        ? now + PROBLEM_AGE_MS_MAX
        : Math.min(holdsUntil, now + SSL_LIMITS.revocationAgeMsMax)
    this.#answers.set(key, { value, until })
  }

  list(url: string, now: number): RevocationList | undefined {
    const cached = this.#lists.get(url)
    return cached === undefined || cached.until <= now ? undefined : cached.value
  }

  /** Caches a list until its successor is due; evicts the oldest ones. */
  cacheList(url: string, list: RevocationList, now: number): void {
    this.#forget(url)
    const until = Math.min(list.nextUpdate ?? Infinity, now + SSL_LIMITS.revocationAgeMsMax)
    this.#lists.set(url, { value: list, until })
    this.#listBytes += list.bytes.length
    for (const oldest of this.#lists.keys()) {
      if (this.#listBytes <= SSL_LIMITS.crlsBytesMax) break
      this.#forget(oldest)
    }
  }

  #forget(url: string): void {
    const cached = this.#lists.get(url)
    if (cached === undefined) return
    this.#listBytes -= cached.value.bytes.length
    this.#lists.delete(url)
  }
}

const memories = new WeakMap<Dialler, RevocationMemory<unknown>>()

/** The cache of this dialler: another egress may lead to other answers. */
export function memoryOf<A>(dial: Dialler): RevocationMemory<A> {
  let memory = memories.get(dial)
  if (memory === undefined) {
    memory = new RevocationMemory<unknown>()
    memories.set(dial, memory)
  }
  return memory as RevocationMemory<A>
}
