// The interface of delivery to a platform, and its options.
import type { Result } from '../../contract/result.ts'
import type { Log } from '../../process/log.ts'
import type { AgentFolder } from './spool/agent-folder.ts'
import type { RecentBounds } from './recent-results.ts'
import type { FileStaging, ResultSink } from '../sink.ts'
import type { OpenFile } from './spool/segment.ts'
import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'

/** The platform's latest settings of delivery. */
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
  /** This agent's id; by default that of its folder. */
  agentId?: () => string
  recentBounds?: RecentBounds
  openFile?: OpenFile
}

/** Delivers to the platform. */
export interface Delivery extends ResultSink {
  /**
   * Resolves when the result is safe on disk; without a disk, when it is delivered.
   * Rejects when it is lost for want of room.
   */
  deliver(result: Result): Promise<void>
  /** The platform answers: waiting attempts start at once. */
  hurry(): void
  /**
   * Ends delivery: tries to deliver what is left for `deadlineMs`, and no longer than makes sense; the rest
   * stays on disk for the next start. Never rejects.
   */
  flush(deadlineMs: number): Promise<void>
  /** Stores files of runs until they are delivered. */
  files: FileStaging
  /** For `/health`. */
  facts(): Record<string, unknown>
  /** For readiness: problems that do not stop the agent. */
  warnings(): string[]
  /** Prometheus text format 0.0.4. */
  metricsText(): Promise<string>
}

/** A call. */
export interface DeliveryAsk {
  method: 'POST' | 'PUT'
  path: string
  headers?: Record<string, string>
  body: Buffer | Readable
  bytes?: number
  deadlineMs: number
  signal: AbortSignal
}

/** Sends calls; rejects with an error that has a `code` when there is no usable answer. */
export interface DeliveryLink {
  request(ask: DeliveryAsk): Promise<{ status: number; headers: IncomingHttpHeaders; body: Buffer }>
}
