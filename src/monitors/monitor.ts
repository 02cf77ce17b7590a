// Interface of all monitor types. A monitor only observes: a refused connection is data, not an exception;
// an exception is a fault of the agent.
import type * as z from 'zod'
import type { Observation, Sample } from '../contract/observation.ts'
import type { TypeDefinition } from '../contract/type/definition.ts'
import type { Dialler } from '../network/dial.ts'
import { TargetFailure } from '../network/target-failure.ts'

/** Resources of one attempt, provided by the runner. Scripted monitors get a `ScriptContext`. */
export interface Context {
  /**
   * Aborted at the deadline or when the run is cancelled; see `isDeadline(signal)`. A monitor then releases
   * its resources within 50 ms, and at the deadline reports its phase.
   */
  signal: AbortSignal
  /** The only access to the network: applies the network policy, the resolver and the proxy. */
  dial: Dialler
}

/** One attempt of a prepared monitor. */
export type Run<C extends Context = Context> = (context: C) => Promise<Observation>

/** A problem of a monitor's settings, with its path in the definition. */
export interface SettingsProblem {
  path: (string | number)[]
  message: string
}

/** A monitor type: its definition, its run, and the metrics of its observations. */
export interface MonitorType<M, C extends Context> {
  definition: TypeDefinition
  /**
   * Prepares the common part of all attempts of a monitor, once. Throws a TargetFailure for settings that no
   * attempt can use: each attempt then fails with it.
   */
  prepare(monitor: M): Run<C>
  /** A problem of the settings that only a parser of the type finds, as `vedette validate` shows it. */
  settingsProblem?(monitor: M): Promise<SettingsProblem | undefined>
  /** Metrics under blackbox_exporter's names where it has one; all of them stand in `definition.metrics`. */
  samples(observed: Record<string, unknown>): Sample[]
  /** How long one attempt may take, from the monitor's own settings. Milliseconds. */
  deadlineMs(monitor: M): number
  /** How long a run may take to end after its deadline or a cancellation; the runner's own limit where absent. */
  overrunMsMax?: number
}

/** A type of monitor without its settings' type, so that one table can hold them all. */
export interface AnyMonitorType extends Omit<MonitorType<unknown, Context>, 'definition'> {
  checkType: string
  schema: z.ZodType
}

/** Ties a definition to its run and then forgets the type: the runner passes only what `schema` has parsed. */
export function defineMonitor<M, C extends Context = Context>({
  definition: { checkType, schema },
  ...type
}: MonitorType<M, C>): AnyMonitorType {
  // The runner lends all that any type needs.
  const untyped = type as unknown as Omit<AnyMonitorType, 'checkType' | 'schema'>
  return { ...untyped, checkType, schema, prepare: (monitor) => preparedBy(untyped, monitor) }
}

/** A monitor whose settings are refused fails in each attempt, without network. Throws other errors. */
function preparedBy(type: Pick<AnyMonitorType, 'prepare'>, monitor: unknown): Run {
  try {
    return type.prepare(monitor)
  } catch (error) {
    if (!(error instanceof TargetFailure)) throw error
    const failures = [error.failure]
    return () => Promise.resolve({ observed: {}, failures })
  }
}
