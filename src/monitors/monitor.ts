// The one signature of all monitors. A monitor only observes: a refused connection is data, not an
// exception, and what it throws is a fault of ours.
import type * as z from 'zod'
import type { CheckType } from '../contract/monitor.ts'
import type { Observation, Sample } from '../contract/observation.ts'
import type { Dialler } from '../network/dial.ts'

/** What the runner lends to a monitor for one attempt. What user code needs besides is a `ScriptContext`. */
export interface Context {
  /**
   * Aborted when time is up or the run is cancelled; `isDeadline(signal)` tells which. A monitor lets go
   * of everything within 50 ms, and when its deadline came reports the phase in which it stood.
   */
  signal: AbortSignal
  /** The only way out to the network: it holds the network policy, the resolver and the proxy. */
  dial: Dialler
}

/** A type of monitor: its schema, its run, and the metrics that its observations give. */
export interface MonitorType<M, C extends Context> {
  checkType: CheckType
  schema: z.ZodType<M>
  run(monitor: M, context: C): Promise<Observation>
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
export function defineMonitor<M, C extends Context = Context>(
  type: MonitorType<M, C>,
): AnyMonitorType {
  return {
    checkType: type.checkType,
    schema: type.schema,
    // The runner passes only what `schema` has parsed, and lends all that any type needs.
    run: (monitor, context) => type.run(monitor as M, context as C),
    samples: (observed) => type.samples(observed),
    deadlineMs: (monitor) => type.deadlineMs(monitor as M),
    ...(type.overrunMsMax === undefined ? {} : { overrunMsMax: type.overrunMsMax }),
  }
}
