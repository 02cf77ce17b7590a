// Observation of a monitor run, and its samples for Prometheus.
import type { Failure } from './failure.ts'

/** Observation of one attempt. */
export interface Observation {
  /** Facts for people, assertions and dashboards; plain JSON. */
  observed: Record<string, unknown>
  failures: Failure[]
  degraded?: boolean
  /** Response time for the thresholds, if the type has one. */
  responseTimeMs?: number
  /**
   * Values that the run used in addition to its definition, such as a request made by a script. Secrets in them
   * are scrubbed like those of a definition, those of a `{header, value}` like headers in `observed`. Never shown.
   */
  undisclosed?: Record<string, unknown>
}

/** One number for Prometheus about the newest run of a monitor. */
export interface Sample {
  /** A name of METRICS. */
  name: string
  value: number
  labels?: Record<string, string>
}
