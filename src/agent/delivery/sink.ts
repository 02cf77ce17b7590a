// What delivery to a platform is for the rest of the agent, and what it needs.
import type { Result } from '../../contract/result.ts'
import type { Log } from '../../process/log.ts'
import type { AgentFolder } from './spool/agent-folder.ts'
import type { DeliveryLink } from './link.ts'
import type { RecentBounds } from './recent-results.ts'
import type { FileKeep, ResultSink } from '../sink.ts'
import type { OpenFile } from './spool/segment.ts'

/** What the platform last said about delivery. */
export interface DeliverySettings {
  fullPassedEveryMs: number
  artifactBytesMax: number
}

export interface DeliveryOptions {
  folder: AgentFolder
  link: DeliveryLink
  spoolBytesMax: number
  settings: () => DeliverySettings
  log: Log
  /** By what this agent goes; as its folder says unless told otherwise. */
  agentId?: () => string
  recentBounds?: RecentBounds
  openFile?: OpenFile
}

/** Delivers to the platform. */
export interface Delivery extends ResultSink {
  /**
   * Resolves when the result is safe on disk; where nothing can be kept on disk, when it is delivered.
   * Rejects when it is lost for want of room.
   */
  deliver(result: Result): Promise<void>
  /** The platform answers: what waits for its time is tried at once. */
  hurry(): void
  /**
   * Ends delivery: tries to deliver what is left for `deadlineMs`, and no longer than makes sense; the rest
   * stays on disk for the next start. Never rejects.
   */
  flush(deadlineMs: number): Promise<void>
  /** Keeps files of runs until they are delivered. */
  files: FileKeep
  /** For `/health`. */
  facts(): Record<string, unknown>
  /** For readiness: what somebody should know, though the agent goes on. */
  warnings(): string[]
  /** Prometheus text format 0.0.4. */
  metricsText(): Promise<string>
}
