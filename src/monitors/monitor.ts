// The one signature of all monitors. A monitor only observes: a refused connection is data, not an
// exception, and what it throws is a fault of ours.
import type * as z from 'zod'
import type { Failure } from '../contract/failure.ts'
import type { CheckType } from '../contract/monitor.ts'
import type { Dialler } from '../network/dial.ts'
import type { RunProgress, ScriptGround } from '../scripts/host.ts'
import type { HeaderHearing } from '../scripts/playwright/seen-headers.ts'

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

/** What the runner lends to a monitor for one attempt. */
export interface Context {
  /**
   * Aborted when time is up or the run is cancelled; `isDeadline(signal)` tells which. A monitor lets go
   * of everything within 50 ms, and when its deadline came reports the phase in which it stood.
   */
  signal: AbortSignal
  /** The only way out to the network: it holds the network policy, the resolver and the proxy. */
  dial: Dialler
  /** A folder for this attempt alone, made at first use and removed afterwards. */
  workFolder(): Promise<string>
  /** Hands over a file of the work folder as an artifact of the result; it must be whole when the run ends. */
  attach(path: string): void
  /** What people's own code stands on; absent where this agent runs none. */
  scripts?: ScriptGround | undefined
  /** Variables of account, group and monitor, for the environment of people's own code. */
  variables?: Readonly<Record<string, string>>
  /** The definition before variables were put in, for who puts them in later. */
  written?: Readonly<Record<string, unknown>>
  /** Name of the location. */
  location?: string
  /** Takes the run's secrets out of a text that is to become part of a name. */
  withoutSecrets?: (text: string) => string
  /** Hears what sensitive headers held that people's own code sent or got; absent where nobody asks. */
  headers?: HeaderHearing
  /** Whose monitor it is, where a platform says so. */
  accountId?: string
  source?: RunSource
  /** Tells how far the run is; the newest word counts. */
  progress?(at: RunProgress): void
}

/** Why a run runs, in the words of the public contract: the timetable, somebody's asking, a trial. */
export type RunSource = 'SCHEDULER' | 'TRIGGER_API' | 'TEST_NO_RECORD'

/** One number for Prometheus about the newest run of a monitor. */
export interface Sample {
  /** A name of SAMPLES. */
  name: string
  value: number
  labels?: Record<string, string>
}

/** A type of monitor: its schema, its run, and the metrics that its observations give. */
export interface MonitorType<M> {
  checkType: CheckType
  schema: z.ZodType<M>
  run(monitor: M, context: Context): Promise<Observation>
  /** Metrics under blackbox_exporter's names where it has one. */
  samples(observed: Record<string, unknown>): Sample[]
  /** How long one attempt may take, from the monitor's own settings. Milliseconds. */
  deadlineMs(monitor: M): number
  /** How long a run may take to end when it is told to; the runner's own patience where absent. */
  overrunMsMax?: number
}

/** A type of monitor whose own settings are forgotten, so that one table can hold them all. */
export interface AnyMonitorType {
  checkType: CheckType
  schema: z.ZodType
  run(monitor: unknown, context: Context): Promise<Observation>
  samples(observed: Record<string, unknown>): Sample[]
  deadlineMs(monitor: unknown): number
  overrunMsMax?: number
}

/** Ties a schema to its run and then forgets the type. */
export function defineMonitor<M>(type: MonitorType<M>): AnyMonitorType {
  return {
    checkType: type.checkType,
    schema: type.schema,
    // The runner passes only what `schema` has parsed.
    run: (monitor, context) => type.run(monitor as M, context),
    samples: (observed) => type.samples(observed),
    deadlineMs: (monitor) => type.deadlineMs(monitor as M),
    ...(type.overrunMsMax === undefined ? {} : { overrunMsMax: type.overrunMsMax }),
  }
}
