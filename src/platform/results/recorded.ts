// Notification about recorded results in the same transaction: alerts and runs on demand follow from them, all
// or nothing.
import type { WireResult } from '../../contract/protocol/agent-protocol.ts'
import type { Queryable } from '../../database/database.ts'

/** A result that was recorded just now. */
export interface RecordedResult {
  result: WireResult
  /** It came long after its run ended: history, which moves no alert. */
  late: boolean
}

/** Results of one location that were recorded just now; those that were known before are not among them. */
export interface Recorded {
  accountId: string
  locationId: string
  /** Null where the platform itself made the results. */
  agentId: string | null
  results: readonly RecordedResult[]
}

/** Called in the transaction that records; its errors roll the recording back. */
export type OnRecorded = (tx: Queryable, recorded: Recorded) => Promise<void>
