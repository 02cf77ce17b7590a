// Where monitors come from: a file, or the platform. Declared by the agent, which alone uses it.
import type { Registry } from 'prom-client'
import type { NetworkProblem } from '../contract/failure.ts'
import type { Instant, RunId } from '../contract/job.ts'
import type { Monitor, Variable } from '../contract/monitor.ts'
import type { ProgressBoard } from './run/progress-board.ts'
import type { Slots } from '../contract/timetable.ts'

/** Which slots of a monitor are this agent's: those within [from, until). */
export interface Assignment {
  slots: Slots
  from: Instant
  until?: Instant | undefined
}

/** Everything that an agent watches, as a whole: what is not in it is dropped. */
export interface Snapshot {
  /** Name of the location that the agent stands in; part of every result's identity. */
  location: string
  /** Proxy for all checks of the location, `http://user:password@host:port`. */
  proxyUrl?: string
  /** Whose location it is, where a platform says so. */
  accountId?: string
  /** Known to all monitors; a monitor's own `environmentVariables` go before them. */
  variables: readonly Variable[]
  /** Ids are unique. An unchanged monitor may be the same object as before or an equal one. */
  monitors: readonly Monitor[]
  /** By the monitor's id. Without it all slots of every monitor are this agent's, by the monitor's timing. */
  assignments?: ReadonlyMap<string, Assignment>
}

/** News from a source. */
export type Change =
  /** The monitors from now on. */
  | { kind: 'monitors'; snapshot: Snapshot }
  /** New monitors came but are unusable, so the ones before stay; `reason` is for people. */
  | { kind: 'refused'; reason: string }
  /**
   * Somebody wants this monitor run now, in front of all that waits. With `monitor` it is run by that
   * definition, whether the agent watches it or not. Asked again, it is not run again.
   */
  | { kind: 'run'; run: RunId; monitorId: string; monitor?: Monitor }
  /** Somebody wants a run that was asked for ended, waiting or running. */
  | { kind: 'cancel'; run: RunId }
  /** There will never be monitors again: the agent has to stop, with this exit code. */
  | { kind: 'over'; reason: string; exitCode: number }

/** An agent's state, as its source reports it; read each time. */
export interface AgentReport {
  /** Jobs by queue. */
  queues(): Record<'uptime' | 'scripted', { waiting: number; running: number; free: number }>
  /** Runs on demand that are not over. */
  runs(): { run: RunId; state: 'waiting' | 'running' }[]
  /** What is wrong with the agent's own network. */
  network?(): NetworkProblem | undefined
  /** Calls back whenever `runs` or `network` has changed. */
  onRunsChanged(changed: () => void): void
  /** How far runs of code are. */
  progress?: Pick<ProgressBoard, 'newest' | 'onReported' | 'slots'>
}

/** The final report of an agent. */
export interface Leaving {
  /** It starts no slot from then on. */
  leftAt: Instant
  /** Slots before that which had not been started. */
  notStarted: { monitorId: string; slot: Instant }[]
}

/** The state of a source, for probes; the sentences are for people. */
export interface SourceState {
  /** Why the agent is not ready. */
  unready?: string | undefined
  /** What is wrong while the agent goes on with the monitors that it has. */
  warnings: string[]
  /** For `/health`. */
  facts: Record<string, unknown>
}

/** Yields the first set of monitors as soon as it can and then each change, until `stop`. */
export interface MonitorSource {
  follow(stop: AbortSignal, report: AgentReport): AsyncIterable<Change>
  /**
   * Reports that the agent leaves while `follow` goes on; resolves, within seconds, with whether others take
   * over the slots that were not started. Never rejects. A source without it has no others.
   */
  leave?(leaving: Leaving): Promise<boolean>
  state?(): SourceState
  /** Adds the metrics of the source to the agent's. */
  registerMetrics?(registry: Registry): void
}
