// Messages between the agent, the supervisor of a run and the launcher: the command, its limits, and reports about
// it. Plain JSON, one object a line.

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
  /** The same for a run whose time ran out, for which no user waits as for a cancelled one. */
  lateGraceMs?: number
}

/** Which addresses may be connected to; the same settings that the agent's own monitors obey. */
export interface SandboxNetwork {
  blocked: readonly string[]
  allowed: readonly string[]
  /** The run's own proxy on 127.0.0.1, which checks connections by itself. */
  proxyPort?: number
}

/** Whether a run starts where the system cannot enforce all of the sandbox. */
export type ScriptIsolation = 'require' | 'best'

/** The agent's request to the supervisor. */
export interface SupervisorRequest {
  command: string
  args: readonly string[]
  /** The run's own folder, existing; the only place that it may write to. */
  folder: string
  cwd: string
  environment: Record<string, string>
  /** Added, with lower precedence, where the supervisor cannot enforce the network policy. */
  environmentUnenforced?: Readonly<Record<string, string>>
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

/** Commands of the agent to the supervisor after the request. */
export type SupervisorCommand =
  { do: 'ask'; outcome: SandboxOutcome } | { do: 'kill'; outcome: SandboxOutcome }

/** The layers of isolation that are enforced. */
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
  /** The largest sum that was observed; short peaks between two looks are missed. */
  peakMemoryBytes: number
  processesMax: number
  diskBytes: number
}

/** The end of a run, as the supervisor reports it. */
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

/** Reports of the supervisor. */
export type SupervisorReport =
  | { event: 'started'; pid: number; layers: SandboxLayers }
  | { event: 'blocked'; blocked: BlockedConnection }
  | { event: 'ended'; end: SupervisorEnd }

/** The supervisor's request to the launcher. */
export interface LaunchRequest {
  command: string
  args: readonly string[]
  cwd: string
  environment: Record<string, string>
  environmentUnenforced?: Readonly<Record<string, string>>
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
  /** Without a supervisor to ask. */
  alone: string
}

/** Paths and what may be done below them. */
export interface LandlockPlan {
  read: readonly string[]
  write: readonly string[]
  /** Existing files that may be written to; nothing may be created next to them. */
  writeInto: readonly string[]
}

/** The launcher's report before it becomes the command; the descriptor of the filter comes with it. */
export type LaunchReport = { ready: SandboxLayers } | { problem: string }
