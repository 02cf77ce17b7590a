// Retention of results: creates partitions ahead of time, and drops expired ones.
import type { Database } from '../../database/database.ts'
import { forgetSlotsBefore } from './queries/accounting.ts'
import { dropPartitions, ensurePartitions, startOfDay } from './queries/result-partitions.ts'
import { dropExpired } from './queries/retention.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'

const DAY_MS = 86_400_000
/** Partitions are made this long before they are needed. */
const AHEAD_MS = 3 * DAY_MS

/** Default retention of results. */
export const RESULTS_MS = 30 * DAY_MS

export interface RetentionParts {
  database: Database
  /** Milliseconds on the platform's clock. */
  now: () => number
  resultsMs: number
  rollupsMs: number
}

/** Retention as a background job. */
export function retentionJob(parts: RetentionParts): BackgroundJob {
  return {
    name: 'retention',
    everyMs: 3_600_000,
    timeoutMs: 600_000,
    run: (signal) => retain(parts, signal),
  }
}

/**
 * Creates the partitions of every retained day, and of the next days. To be called at the
 * start, before anything is recorded.
 */
export async function prepareResults({ database, now, resultsMs }: RetentionParts): Promise<void> {
  await ensurePartitions(database, now() - resultsMs, now() + AHEAD_MS)
}

/** Creates the partitions of the next days and drops expired rows. */
export async function retain(parts: RetentionParts, signal: AbortSignal): Promise<void> {
  await prepareResults(parts)
  const { database, now, resultsMs, rollupsMs } = parts
  const keptFromMs = startOfDay(now() - resultsMs)
  // The account of these slots ends first, then their rows are dropped.
  await forgetSlotsBefore(database, keptFromMs)
  await dropPartitions(database, keptFromMs)
  await dropExpired(database, 'expectations', keptFromMs, signal)
  await dropExpired(database, 'monitors', keptFromMs, signal)
  await dropExpired(database, 'rollups', now() - rollupsMs, signal)
}
