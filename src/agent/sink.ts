// Where results go. Declared by the agent, which alone uses it.
import type { Result } from '../contract/result.ts'

/**
 * Takes scrubbed results. There is no stop signal, on purpose: a result that exists is delivered,
 * whatever happens to the agent. A rejection is counted and logged, and ends nothing.
 */
export interface ResultSink {
  deliver(result: Result): Promise<void>
  /** After the last result: delivers what is left, or puts it where it is safe. Never rejects. */
  flush?(deadlineMs: number): Promise<void>
  /** For `/health`. */
  facts?(): Record<string, unknown>
  /** For readiness: what somebody should know, though the agent goes on. */
  warnings?(): string[]
  /** Prometheus text format 0.0.4. */
  metricsText?(): Promise<string>
}
