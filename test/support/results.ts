// Constructed results for tests of their processing.
import type { Result } from '../../src/contract/result.ts'

/** A passed result; `changes` overrides any field. */
export function aResult(changes: Partial<Result> = {}): Result {
  return {
    monitorId: 'shop',
    monitorName: 'Shop',
    checkType: 'URL',
    location: 'office',
    slot: 1_700_000_000_000,
    verdict: 'passed',
    startedAt: 1_700_000_000_001,
    durationMs: 12.34,
    attempts: [],
    observed: {},
    failures: [],
    artifacts: [],
    ...changes,
  }
}
