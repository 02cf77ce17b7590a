// Where results go. Declared by the agent, which alone uses it.
import type { Registry } from 'prom-client'
import type { Artifact, Result } from '../contract/result.ts'

/**
 * Receives scrubbed results. There is no stop signal, on purpose: a result that exists is delivered,
 * whatever happens to the agent. A rejection is counted and logged, and ends nothing.
 */
export interface ResultSink {
  deliver(result: Result): Promise<void>
  /** After the last result: delivers what is left, or puts it where it is safe. Never rejects. */
  flush?(deadlineMs: number): Promise<void>
  /** For `/health`. */
  facts?(): Record<string, unknown>
  /** For readiness: problems that do not stop the agent. */
  warnings?(): string[]
  /** Adds the metrics of the sink to the agent's. */
  registerMetrics?(registry: Registry): void
  /** Stores the files of results; without it only their names and sums are known. */
  files?: FileStaging
}

/** Stores files of a run until their result is delivered. */
export interface FileStaging {
  /** One file; larger ones are left out. */
  bytesMax(): number
  /** Copies the file before the run's folder is removed. Returns why it cannot, or undefined. Never rejects. */
  stage(path: string, artifact: Artifact): Promise<string | undefined>
}
