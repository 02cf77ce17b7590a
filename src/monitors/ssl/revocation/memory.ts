// What was learnt about revocation, kept for the next run: answers by certificate, lists by address. Bounded
// in number and in bytes, and never older than a fixed age, so that news arrives.
import { SSL_LIMITS } from '../definition.ts'
import type { Dialler } from '../../../network/dial.ts'
import { LeastRecentlyUsed } from '../../../network/least-recently-used.ts'
import type { Problem } from './ocsp-message.ts'
import type { RevocationList } from './list.ts'
import { SharedWork } from './shared-work.ts'

interface Kept<V> {
  value: V
  until: number
}

/** Answers take some hundred bytes each. */
const ANSWERS_MAX = 5000
/** After this time a responder that failed is asked again. */
const PROBLEM_AGE_MS_MAX = 60_000

/** Answers and lists that were fetched through one dialler. */
export class RevocationMemory<A> {
  /** Answers by their question, problems included. */
  readonly #answers = new LeastRecentlyUsed<string, Kept<A>>(ANSWERS_MAX)
  readonly #lists = new Map<string, Kept<RevocationList>>()
  #listBytes = 0
  readonly asking = new SharedWork<A>()
  readonly reading = new SharedWork<RevocationList | Problem>()

  answer(key: string, now: number): A | undefined {
    const kept = this.#answers.get(key)
    return kept === undefined || kept.until <= now ? undefined : kept.value
  }

  /** Keeps an answer that holds until then; a problem, for which there is no such time, for a minute. */
  keepAnswer(key: string, value: A, now: number, holdsUntil: number | undefined): void {
    const until =
      holdsUntil === undefined
        ? now + PROBLEM_AGE_MS_MAX
        : Math.min(holdsUntil, now + SSL_LIMITS.revocationAgeMsMax)
    this.#answers.set(key, { value, until })
  }

  list(url: string, now: number): RevocationList | undefined {
    const kept = this.#lists.get(url)
    return kept === undefined || kept.until <= now ? undefined : kept.value
  }

  /** Keeps a list until its successor is due; the oldest ones make room. */
  keepList(url: string, list: RevocationList, now: number): void {
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
    const kept = this.#lists.get(url)
    if (kept === undefined) return
    this.#listBytes -= kept.value.bytes.length
    this.#lists.delete(url)
  }
}

const memories = new WeakMap<Dialler, RevocationMemory<unknown>>()

/** The memory of what came through this dialler: another way out may lead to other answers. */
export function memoryOf<A>(dial: Dialler): RevocationMemory<A> {
  let memory = memories.get(dial)
  if (memory === undefined) {
    memory = new RevocationMemory<unknown>()
    memories.set(dial, memory)
  }
  return memory as RevocationMemory<A>
}
