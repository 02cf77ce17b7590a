// The one signature of all monitors. A monitor only observes: a refused connection is data, not an
// exception, and what it throws is a fault of ours.
import type * as z from 'zod'
import type { Observation, Sample } from '../contract/observation.ts'
import type { TypeDefinition } from '../contract/type/definition.ts'
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

/** One attempt of a monitor that has been prepared. */
export type Run<C extends Context = Context> = (context: C) => Promise<Observation>

/** A type of monitor: its definition, how it runs, and the metrics that its observations give. */
export interface MonitorType<M, C extends Context> {
  definition: TypeDefinition
  /** Plans what is the same for all attempts of a monitor, once. Does not throw. */
  prepare(monitor: M): Run<C>
  /** Metrics under blackbox_exporter's names where it has one; all of them stand in `definition.metrics`. */
  samples(observed: Record<string, unknown>): Sample[]
  /** How long one attempt may take, from the monitor's own settings. Milliseconds. */
  deadlineMs(monitor: M): number
  /** How long a run may take to end after its deadline or a cancellation; the runner's own limit where absent. */
  overrunMsMax?: number
}

/** A type of monitor without its settings' type, so that one table can hold them all. */
export interface AnyMonitorType {
  checkType: string
  schema: z.ZodType
  prepare(monitor: unknown): Run
  samples(observed: Record<string, unknown>): Sample[]
  deadlineMs(monitor: unknown): number
  overrunMsMax?: number
}

/** Ties a definition to its run and then forgets the type. */
export function defineMonitor<M, C extends Context = Context>(
  type: MonitorType<M, C>,
): AnyMonitorType {
  const { checkType, schema } = type.definition
  return {
    checkType,
    schema,
    // The runner passes only what `schema` has parsed, and lends all that any type needs.
    prepare: (monitor) => type.prepare(monitor as M) as Run,
    samples: (observed) => type.samples(observed),
    deadlineMs: (monitor) => type.deadlineMs(monitor as M),
    ...(type.overrunMsMax === undefined ? {} : { overrunMsMax: type.overrunMsMax }),
  }
}
