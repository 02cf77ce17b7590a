// Cuts connections on which an answer is overdue by so much that only an unresponsive network explains it. One
// timer looks after all of them: one timer a statement would cost more than everything else about it.
import type { ClientBase } from 'pg'

const LOOK_MS = 1000

/** A connection that waits for an answer, and until when. */
interface Waiting {
  client: ClientBase
  untilMs: number
}

/** Watches connections that wait for an answer. */
export class IdleWatch {
  readonly #waiting = new Set<Waiting>()
  readonly #timer: NodeJS.Timeout

  /** `limitMs`: the usual time for an answer. */
  constructor(limitMs: number) {
    this.#timer = setInterval(() => this.#look(), Math.min(LOOK_MS, limitMs))
    this.#timer.unref()
  }

  /** From now on an answer is expected; returns what ends that. */
  begin(client: ClientBase, limitMs: number): Waiting {
    const waiting = { client, untilMs: performance.now() + limitMs }
    this.#waiting.add(waiting)
    return waiting
  }

  end(waiting: Waiting): void {
    this.#waiting.delete(waiting)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const nowMs = performance.now()
    for (const waiting of this.#waiting) {
      if (waiting.untilMs > nowMs) continue
      this.#waiting.delete(waiting)
      // The statement then fails as with any lost connection. Not client.end(): that would wait.
      const { connection } = waiting.client as unknown as {
        connection: { stream: { destroy(): void } }
      }
      connection.stream.destroy()
    }
  }
}
