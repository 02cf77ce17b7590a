// Recording of results: preparation at the start, background jobs, and metrics.
import type { Registry } from 'prom-client'
import { readSweptSpan } from './results/queries/accounting.ts'
import type { Database } from '../database/database.ts'
import type { BackgroundJob } from './jobs/background-jobs.ts'
import { prepareResults, retentionJob } from './results/retention.ts'
import { createResultsMetrics, registerAccount, type ResultsMetrics } from './results/metrics.ts'
import { rollupsJob } from './analytics/rollups.ts'
import { sweepJob } from './results/sweep.ts'

/** Dependencies of recording. */
export interface RecordingParts {
  database: Database
  /** Milliseconds on the platform's clock. */
  now: () => number
  registry: Registry
  resultsMs: number
  rollupsMs: number
  /** How long agents have to deliver before a slot counts as missed. */
  graceMs: number
}

/** Recording as the platform wires it. */
export interface Recording {
  backgroundJobs: BackgroundJob[]
  /** For `resultsOperation`. */
  metrics: ResultsMetrics
  /** To be called at the start, before agents are answered. Rejects when the database does not answer. */
  prepare(): Promise<void>
}

/** Makes it; starts nothing. */
export function createRecording(parts: RecordingParts): Recording {
  const { database, now, registry, resultsMs, graceMs } = parts
  registerAccount(registry, () => readSweptSpan(database))
  return {
    backgroundJobs: [
      sweepJob({ database, now, retentionMs: resultsMs, graceMs }),
      rollupsJob(database),
      retentionJob(parts),
    ],
    metrics: createResultsMetrics(registry),
    prepare: () => prepareResults(parts),
  }
}
