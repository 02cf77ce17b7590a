// Interface for running user code, and the messages about a run between the agent, its supervisor and the launcher: the
// command, its limits, and reports. Messages are plain JSON, one object a line.
import type { Readable } from 'node:stream'

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

/** The time from asking to killing, for a run that ends in this way. */
export function graceMsOf(
  { graceMs, lateGraceMs = graceMs }: StopRequest,
  why: SandboxOutcome,
): number {
  return why === 'out-of-time' ? lateGraceMs : graceMs
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

/** The agent's request to the supervisor, which passes it on to the launcher. */
export interface SupervisorRequest extends Pick<
  SandboxRequest,
  'command' | 'args' | 'folder' | 'limits'
> {
  cwd: string
  environment: Record<string, string>
  /** Added, with lower precedence, where the supervisor cannot enforce the network policy. */
  environmentUnenforced?: Readonly<Record<string, string>>
  /** Users of this range run the code, each one run at a time; absent: the agent's own user. */
  userId?: number
  readable: readonly string[]
  /** How long it may take until the command begins. */
  startMs: number
  ask: StopRequest
  network: SandboxNetwork
  isolation: ScriptIsolation
}

/** Commands of the agent to the supervisor after the request. */
export interface SupervisorCommand {
  do: 'ask' | 'kill'
  outcome: SandboxOutcome
}

/** The layers of isolation that are enforced. */
export interface SandboxLayers {
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

/** The end of a run that never began, or whose supervisor died. */
export function sandboxFailed(problem: string, leftBehind = 0): SupervisorEnd {
  return {
    outcome: 'sandbox-failed',
    exitCode: null,
    signal: null,
    problem,
    usage: { wallMs: 0, cpuMs: 0, peakMemoryBytes: 0, processesMax: 0, diskBytes: 0 },
    leftovers: 0,
    leftBehind,
  }
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

/** The launcher's report before it becomes the command; the descriptor of the filter comes with it. */
export type LaunchReport = { ready: SandboxLayers } | { problem: string }

export interface SandboxRequest {
  /** Absolute path of the program. */
  command: string
  args: readonly string[]
  /** An existing folder of the run's own; everything in it is handed to the run. */
  folder: string
  /** Where it starts; the folder itself where absent. */
  cwd?: string
  /** In addition to `sandboxEnvironment`; wins over it. */
  environment?: Readonly<Record<string, string>>
  /** Folders with programs, before those of the system. */
  programs?: readonly string[]
  /** Files and folders outside that it may read. The system's own it may read anyway. */
  readable?: readonly string[]
  limits: SandboxLimits
  /** The proxy of the run, where it has one. */
  proxy?: SandboxProxy
  ask?: StopRequest
  /** For its standard input, until that ends; absent: it is closed. */
  input?: Readable
  /** Receives output as it comes, all of it before the end is reported. If it throws, the run ends. */
  onOutput?(chunk: Buffer, stream: OutputStream): void
  /** Receives lines of JSON that the run writes to descriptor 3; other lines are dropped. */
  onMessage?(message: unknown): void
}

/** A proxy for connections that cannot, or must not, be direct. */
export interface SandboxProxy {
  /** Where it listens on 127.0.0.1: reached even where that is in a blocked network. */
  port: number
  /** The variables that lead to it; those of the order win. */
  environment: Readonly<Record<string, string>>
  /** `unenforced`: only where the system lets no supervisor enforce the network policy. */
  when: 'always' | 'unenforced'
}

export type OutputStream = 'stdout' | 'stderr'

export interface SandboxEnd extends SupervisorEnd {
  /** The limits that applied; the time is that of the deadline that ended it, where one did. */
  limits: SandboxLimits
  /** The memory of the order, where the agent’s container leaves less to runs. */
  memoryBytesWanted?: number
  /** What a callback of the order threw: a mistake of ours, for which the run was ended. */
  fault?: Error
  /** Whose memory was out, for `out-of-memory`; absent: the run had used what it may. */
  scarce?: 'heap' | 'container'
  /** The last bytes of its output, and whether there was more. */
  tail: Record<OutputStream, string>
  outputBytes: number
  /** Connections that the network policy refused; the first ones. */
  blocked: BlockedConnection[]
  /** The layers that were enforced; absent when it never began. */
  layers?: SandboxLayers
}

export interface Sandbox {
  /** No run goes ahead whose connections are not all evaluated by the supervisor. */
  readonly alwaysEnforcesNetwork: boolean
  /** The users that runs may have. */
  readonly userIds: readonly number[]
  /**
   * Runs it to its end. When the signal is aborted, the command is asked to end, and killed after its grace:
   * the outcome is `out-of-time` where the signal's reason is a deadline, else `cancelled`. Never rejects; what is wrong
   * with the sandbox itself is an outcome, too.
   */
  run(order: SandboxRequest, signal: AbortSignal): Promise<SandboxEnd>
  /** Ends the spare supervisor for the next run; runs go on. */
  close(): void
}
