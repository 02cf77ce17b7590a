// Where results go. Declared by the agent, which alone uses it.
import type { Artifact, Result } from '../contract/result.ts'

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
  /** Takes the files of results; without it only their names and sums are known. */
  files?: FileKeep
}

/** Keeps files of a run until their result is delivered. */
export interface FileKeep {
  /** One file; larger ones are left out. */
  bytesMax(): number
  /** Copies the file before the run's folder goes. Returns why it cannot be kept, or undefined. Never rejects. */
  stage(path: string, artifact: Artifact): Promise<string | undefined>
}
