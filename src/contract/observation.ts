// What a run of a monitor saw, and the numbers that it gives Prometheus.
import type { Failure } from './failure.ts'

/** What a monitor saw in one attempt. */
export interface Observation {
  /** Facts for people, assertions and dashboards; plain JSON. */
  observed: Record<string, unknown>
  failures: Failure[]
  degraded?: boolean
  /** What thresholds are compared with, where the type has such a thing. */
  responseTimeMs?: number
  /**
   * What the run used that its definition does not hold, such as a request that a script has made. Secrets in it
   * are scrubbed as those of a definition are; it is shown to nobody.
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
