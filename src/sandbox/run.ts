// Interface for running user code, for the monitors that do: the command, and how it ended.
import type { Readable } from 'node:stream'
import type {
  BlockedConnection,
  StopRequest,
  SandboxLayers,
  SandboxLimits,
  SupervisorEnd,
} from './request.ts'

/** What is to run. */
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
  /** For its standard input, which is then closed; a stream goes on until it ends. */
  input?: string | Readable
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

/** How a run ended. */
export interface SandboxEnd extends WatchedEnd {
  /** The limits that applied; the time is that of the deadline that ended it, where one did. */
  limits: SandboxLimits
  /** The memory of the order, where the agent’s container leaves less to runs. */
  memoryBytesWanted?: number
}

/** Observations about the end of a run. */
export interface WatchedEnd extends SupervisorEnd {
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

/** A run that has begun. */
export interface SandboxRun {
  /** Never rejects; what is wrong with the sandbox itself is an outcome, too. */
  ended: Promise<SandboxEnd>
}

/** Runs user code. */
export interface Sandbox {
  /** No run goes ahead whose connections are not all evaluated by the supervisor. */
  readonly alwaysEnforcesNetwork: boolean
  /** The users that runs may have. */
  readonly userIds: readonly number[]
  /**
   * Starts a run. When the signal is aborted, the command is asked to end, and killed after its grace:
   * the outcome is `out-of-time` where the signal's reason is a deadline, else `cancelled`.
   */
  run(order: SandboxRequest, signal: AbortSignal): SandboxRun
  /** Ends the spare supervisor for the next run; runs go on. */
  close(): void
}
