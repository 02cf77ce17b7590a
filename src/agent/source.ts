// Where monitors come from: a file now, the platform later. Declared by the agent, which alone uses it.
import type { RunId } from '../contract/job.ts'
import type { Monitor, Variable } from '../contract/monitor.ts'

/** Everything that an agent watches, as a whole: what is not in it is dropped. */
export interface Snapshot {
  /** Name of the location that the agent stands in; part of every result's identity. */
  location: string
  /** Proxy for all checks of the location, `http://user:password@host:port`. */
  proxyUrl?: string
  /** Known to all monitors; a monitor's own `environmentVariables` go before them. */
  variables: readonly Variable[]
  /** Ids are unique. An unchanged monitor may be the same object as before or an equal one. */
  monitors: readonly Monitor[]
}

/** News from a source. */
export type Change =
  /** The monitors from now on. */
  | { kind: 'monitors'; snapshot: Snapshot }
  /** New monitors came but are unusable, so the ones before stay; `reason` is for people. */
  | { kind: 'refused'; reason: string }
  /** Somebody wants this monitor run now, in front of all that waits. */
  | { kind: 'run'; run: RunId; monitorId: string }
  /** Somebody wants a run that was asked for ended, waiting or running. */
  | { kind: 'cancel'; run: RunId }

/** Yields the first set of monitors as soon as it can and then each change, until `stop`. */
export interface MonitorSource {
  follow(stop: AbortSignal): AsyncIterable<Change>
}
