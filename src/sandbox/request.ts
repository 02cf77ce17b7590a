// The words between the agent, the supervisor of a run and the launcher: what is to run and within which
// bounds, and what is told of it. Plain JSON, one object a line.

/** Bounds of one run, over all of its processes together. */
export interface SandboxLimits {
  /** From the start to the moment at which it is asked to end. */
  wallMs: number
  /** Processor time of all processes, those that have ended included. */
  cpuMs: number
  /** Anonymous and shared memory of all processes. */
  memoryBytes: number
  /** Processes at one time, threads not counted. */
  processes: number
  /** Standard output and standard error together. */
  outputBytes: number
  /** All files below the run's folder together. */
  diskBytes: number
  /** One file. */
  fileBytes: number
  /** Descriptors of one process. */
  openFiles: number
}

/** How a run is asked to end before it is killed. */
export interface StopRequest {
  signal: 'SIGINT' | 'SIGTERM'
  /** The command alone, or its whole process group, as a terminal would do. */
  to: 'leader' | 'group'
  /** From asking to killing. */
  graceMs: number
  /** The same of a run whose time ran out, for which nobody waits as for one that was cancelled. */
  lateGraceMs?: number
}

/** Which addresses may be connected to; the same settings that the agent's own monitors obey. */
export interface SandboxNetwork {
  blocked: readonly string[]
  allowed: readonly string[]
  /** The run's own proxy on 127.0.0.1, which evaluates by itself. */
  proxyPort?: number
}

/** Whether a run goes ahead where the system cannot hold it as it should. */
export type ScriptIsolation = 'require' | 'best'

/** What the agent hands to the supervisor. */
export interface SupervisorRequest {
  command: string
  args: readonly string[]
  /** The run's own folder, existing; the only place that it may write to. */
  folder: string
  cwd: string
  environment: Record<string, string>
  /** Added, below the others, where nobody can answer for the run's connections. */
  environmentUnheld?: Readonly<Record<string, string>>
  /** Users of this range run the code, each one run at a time; absent: the agent's own user. */
  userId?: number
  readable: readonly string[]
  limits: SandboxLimits
  /** How long it may take until the command begins. */
  startMs: number
  ask: StopRequest
  network: SandboxNetwork
  isolation: ScriptIsolation
}

/** What the agent may say to the supervisor after the order. */
export type SupervisorCommand =
  { do: 'ask'; outcome: SandboxOutcome } | { do: 'kill'; outcome: SandboxOutcome }

/** What holds the run. */
export interface SandboxLayers {
  /** Runs as a user of its own. */
  ownUser: boolean
  /** Version of Landlock that confines its files; 0 where the kernel has none. */
  landlock: number
  /** Every connection is made, or refused, by the supervisor. */
  network: boolean
}

/** Why and how a run ended. */
export type SandboxOutcome =
  | 'exited'
  | 'signalled'
  | 'cancelled'
  | 'out-of-time'
  | 'out-of-cpu'
  | 'out-of-memory'
  | 'out-of-disk'
  | 'out-of-output'
  | 'too-many-processes'
  | 'sandbox-failed'

/** What a run used. */
export interface SandboxUsage {
  wallMs: number
  cpuMs: number
  /** The largest sum that was seen; short peaks between two looks are missed. */
  peakMemoryBytes: number
  processesMax: number
  diskBytes: number
}

/** The end of a run, as the supervisor tells it. */
export interface SupervisorEnd {
  outcome: SandboxOutcome
  /** Of the command; null where a signal ended it, or it never began. */
  exitCode: number | null
  signal: NodeJS.Signals | null
  /** What went wrong with the sandbox itself, for `sandbox-failed`. */
  problem?: string
  usage: SandboxUsage
  /** Processes that still ran when the command had ended, and were killed. */
  leftovers: number
  /** Processes that could not be ended. */
  leftBehind: number
}

/** A connection that the network policy refused. */
export interface BlockedConnection {
  address: string
  port: number
  /** The network of the policy that it is in. */
  network: string
  /** The name that led the run there, where a name server gave it. */
  name?: string
}

/** What the supervisor says. */
export type SupervisorReport =
  | { event: 'started'; pid: number; layers: SandboxLayers }
  | { event: 'blocked'; blocked: BlockedConnection }
  | { event: 'ended'; end: SupervisorEnd }

/** What the supervisor hands to the launcher. */
export interface LaunchOrder {
  command: string
  args: readonly string[]
  cwd: string
  environment: Record<string, string>
  environmentUnheld?: Readonly<Record<string, string>>
  userId?: number
  /** Resource (setrlimit) → soft and hard bound. */
  resources: readonly (readonly [number, number])[]
  landlock: LandlockPlan
  /** The filters in front of system calls; absent on an architecture without one. */
  filters?: LaunchFilters
  isolation: ScriptIsolation
}

/** Instructions of launcher/filter.ts, base64: which of them fits is known only when Landlock is there. */
export interface LaunchFilters {
  /** Where Landlock keeps signals within the run. */
  scoped: string
  unscoped: string
  /** Where nobody can be asked. */
  alone: string
}

/** Paths and what may be done below them. */
export interface LandlockPlan {
  read: readonly string[]
  write: readonly string[]
  /** Files that exist and may be written to, and nothing be made beside them. */
  writeInto: readonly string[]
}

/** What the launcher says before it becomes the command; the descriptor of the filter comes along. */
export type LaunchReport = { ready: SandboxLayers } | { problem: string }
