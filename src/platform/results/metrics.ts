// Metrics: outcomes of the results that agents send, and the account of slots.
import { Counter, Gauge, type Registry } from 'prom-client'
import type { ResultsAnswer } from '../../contract/protocol/agent-protocol.ts'
import type { SweptSpan } from './queries/accounting.ts'

/** Counts the outcomes of batches. */
export interface ResultsMetrics {
  answered(answer: ResultsAnswer): void
}

/** Registers `vedette_results_total`. */
export function createResultsMetrics(registry: Registry): ResultsMetrics {
  const results = new Counter({
    name: 'vedette_results_total',
    help: 'Results that agents sent, by what became of them: recorded, known before, or refused with a code.',
    labelNames: ['outcome', 'code'],
    registers: [registry],
  })
  return {
    answered({ recorded, known, refused }) {
      results.inc({ outcome: 'recorded', code: '' }, recorded)
      results.inc({ outcome: 'known', code: '' }, known)
      for (const { code } of refused) results.inc({ outcome: 'refused', code })
    },
  }
}

/** Gauges of the account, and what each shows. */
const ACCOUNT: [name: string, help: string, of: (span: SweptSpan) => number][] = [
  [
    'vedette_slots_expected_total',
    'Slots that were due and are accounted for.',
    ({ expectedTotal }) => expectedTotal,
  ],
  [
    'vedette_slots_recorded_total',
    'Slots of these that have their row.',
    ({ recordedTotal }) => recordedTotal,
  ],
  [
    'vedette_slots_missing',
    'Slots of these without a row; must be 0.',
    ({ expectedTotal, recordedTotal }) => expectedTotal - recordedTotal,
  ],
  [
    'vedette_slots_swept_until_seconds',
    'Up to this instant slots are accounted for, seconds since the Unix epoch.',
    ({ sweptUntilMs }) => sweptUntilMs / 1000,
  ],
]

/**
 * Registers the account of slots, read at each scrape; NaN while it cannot be read. It is the
 * database's, the same on every process.
 */
export function registerAccount(
  registry: Registry,
  read: () => Promise<SweptSpan | undefined>,
): void {
  let reading: Promise<SweptSpan | undefined> | undefined
  // All gauges of a scrape ask at once, and one answer does for them.
  const readOnce = () => {
    reading ??= read()
      .catch(() => undefined)
      .finally(() => {
        reading = undefined
      })
    return reading
  }
  for (const [name, help, of] of ACCOUNT) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        const span = await readOnce()
        gauge.set(span === undefined ? Number.NaN : of(span))
      },
    })
  }
}
