// Counts of delivery, and its metrics for Prometheus: every produced result is delivered, waits, was refused or was
// lost.
import { Counter, Gauge, type Registry } from 'prom-client'
import { registerScraped } from '../scraped-metrics.ts'
import type { Spool } from './spool/spool.ts'

/** Counts since the start. */
export type DeliveryTally = ReturnType<typeof createTally>

/** An empty tally. */
export function createTally() {
  return {
    /** Results that were handed over. */
    produced: 0,
    /** Acknowledged by the platform, those that it knew already included. */
    delivered: 0,
    /** By code: refused by the platform, or given up because it refuses their batch. */
    refused: new Map<string, number>(),
    /** Batches by what came of them: the action, or the code of the error. */
    batches: new Map<string, number>(),
    bytesSent: 0,
    artifacts: new Map<string, number>(),
  }
}

/** Adds one to a count. */
export function count(counts: Map<string, number>, key: string): void {
  // Codes of later platforms are counted separately, up to a bound.
  const known = counts.has(key) || counts.size < 50 ? key : 'other'
  counts.set(known, (counts.get(known) ?? 0) + 1)
}

/** How long the oldest result has waited. Milliseconds. */
export function oldestAgeMs(spool: Spool): number {
  const oldestAt = spool.oldestAt()
  return oldestAt === Infinity ? 0 : Math.max(0, Date.now() - oldestAt)
}

/** Registers the metrics of delivery. */
export function registerDeliveryMetrics(
  registry: Registry,
  tally: DeliveryTally,
  spool: Spool,
  artifacts: { count(): number; bytes(): number },
): void {
  registerScraped(registry, Counter, {
    results_produced_total: ['Results handed to delivery.', () => tally.produced],
    results_adopted_total: ['Results taken over from an earlier process.', () => spool.found],
    results_delivered_total: ['Results that the platform has.', () => tally.delivered],
    results_refused_total: ['Results refused by the platform.', () => tally.refused, 'code'],
    spool_damaged_total: ['Files of the spool with damage.', () => spool.damagedPlaces],
    spool_dropped_results_total: [
      'Results lost before they were delivered.',
      () => Object.entries(spool.lost),
      'reason',
    ],
    delivery_batches_total: ['Batches by outcome.', () => tally.batches, 'outcome'],
    delivery_sent_bytes_total: ['Bytes of batches and artifacts, as sent.', () => tally.bytesSent],
    artifacts_total: ['Artifacts by outcome.', () => tally.artifacts, 'outcome'],
  })
  registerScraped(registry, Gauge, {
    results_waiting: ['Results not delivered yet.', () => spool.waiting],
    results_oldest_age_seconds: [
      'Age of the oldest result not delivered.',
      () => oldestAgeMs(spool) / 1000,
    ],
    spool_bytes: ['Bytes of results on disk.', () => spool.bytes],
    spool_foreign_bytes: ['Bytes of results that another key encrypted.', () => spool.foreignBytes],
    spool_on_disk: [
      'Whether results are kept on disk (1) or in memory (0).',
      () => (spool.problem === undefined ? 1 : 0),
    ],
    artifacts_waiting: ['Artifacts not delivered yet.', () => artifacts.count()],
    artifact_spool_bytes: ['Bytes of artifacts on disk.', () => artifacts.bytes()],
  })
}
