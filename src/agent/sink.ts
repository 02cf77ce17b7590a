// Where results go. Declared by the agent, which alone uses it.
import type { Result } from '../contract/result.ts'

/**
 * Takes scrubbed results. There is no stop signal, on purpose: a result that exists is delivered,
 * whatever happens to the agent. A rejection is counted and logged, and ends nothing.
 */
export interface ResultSink {
  deliver(result: Result): Promise<void>
}
