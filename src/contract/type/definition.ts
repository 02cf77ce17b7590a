// Definition of a monitor type, as data: agent and platform read the same definition.
import type * as z from 'zod'
import type { SourceRules } from '../assertion.ts'
import type { FailureTable } from '../failure.ts'
import type { MetricHelp } from './metrics.ts'

/** The analytics of a type of monitor under /v1/analytics. */
export interface AnalyticsDefinition {
  /** Names of the type in paths; the first is the preferred one. */
  paths: readonly [string, ...string[]]
  /** A second name of the response time in figures. */
  time?: { name: string; label: string }
  /** Whether lists of several monitors call the response time `latency`. */
  isLatency?: true
  /** Figures that the public document declares and that answers leave out. */
  unmeasured?: readonly string[]
}

/** User code of a run: the whole run is a program, or scripts run before and after its request. */
export type UserCode = 'program' | 'scripts'

/** A type of monitor. */
export interface TypeDefinition {
  checkType: string
  /** Name of the type in paths: `/v1/checks/tcp`. */
  path: string
  /** The whole definition of a monitor, `id` and `checkType` included. */
  schema: z.ZodObject
  /** The smallest definition: required fields in addition to `id`, `name` and `checkType`. */
  example: Readonly<Record<string, unknown>>
  /** Sources of assertions, and what each can be compared with. */
  sources?: SourceRules
  /** Failure codes that only this type gives. */
  failures?: FailureTable
  /** Every metric that the type gives, with its help text. */
  metrics: MetricHelp
  /** Limits of this type alone, each with its unit in its name. */
  limits?: Readonly<Record<string, number>>
  /** What user code a run of the monitor is or has; absent: none. */
  userCode?(monitor: Readonly<Record<string, unknown>>): UserCode | undefined
  /** No agent runs it: the platform waits for the pings of a job. */
  isPinged?: true
  /** Runs are never repeated, whatever monitor and group say. */
  isNeverRetried?: true
  /** Requirements in addition to the type, like `runtime:2026.04`. */
  requirements?(monitor: Readonly<Record<string, unknown>>): string[]
  /** The most important observations for people, each a few characters. */
  summary?(observed: Readonly<Record<string, unknown>>): string[]
  /** Absent: the type has no analytics. */
  analytics?: AnalyticsDefinition
}

/** A definition that retains its literal types, so that tables by `checkType` are typed. */
export function defineType<const D extends TypeDefinition>(definition: D): D {
  return definition
}

/** A part of an observation that may come from an agent of another version. */
export function partOf(whole: unknown, name: string): unknown {
  return typeof whole === 'object' && whole !== null
    ? (whole as Record<string, unknown>)[name]
    : undefined
}
