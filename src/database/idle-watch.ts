// Cuts connections on which an answer is overdue by so much that only an unresponsive network explains it. One
// timer looks after all of them: one timer a statement would cost more than everything else about it.
import type { PoolClient } from 'pg'

const LOOK_MS = 1000

/** Watches connections that wait for an answer. */
export class IdleWatch {
  readonly #limitMs: number
  readonly #waiting = new Map<PoolClient, number>()
  readonly #timer: NodeJS.Timeout

  constructor(limitMs: number) {
    this.#limitMs = limitMs
    this.#timer = setInterval(() => this.#look(), Math.min(LOOK_MS, limitMs))
    this.#timer.unref()
  }

  /** From now on an answer is expected. */
  begin(client: PoolClient): void {
    this.#waiting.set(client, performance.now())
  }

  end(client: PoolClient): void {
    this.#waiting.delete(client)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const tooOld = performance.now() - this.#limitMs
    for (const [client, since] of this.#waiting) {
      if (since > tooOld) return
      this.#waiting.delete(client)
      // The statement then fails as with any lost connection. Not client.end(): that would wait.
      const { connection } = client as unknown as { connection: { stream: { destroy(): void } } }
      connection.stream.destroy()
    }
  }
}
