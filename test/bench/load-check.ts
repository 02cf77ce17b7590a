// The load of a bench must have run: figures of a load that did not run mean nothing.
import type { Verdict } from '../../src/contract/result.ts'
import { growth } from './metrics-text.ts'

/** Expected results of a load. */
export interface ExpectedLoad {
  /** All types where it is absent. */
  checkType?: string
  verdict: Verdict
  /** Fewer runs mean that the load did not run. */
  runsMin: number
}

/**
 * Throws where an agent, by two scrapes of its metrics, ran fewer slots than `runsMin` to this verdict, or any to
 * another one. Missed slots are no runs.
 */
export function checkRuns(before: string, after: string, load: ExpectedLoad): void {
  const { checkType, verdict, runsMin } = load
  const type = checkType === undefined ? [] : [`type="${checkType}"`]
  const of = (...labels: string[]) =>
    growth(before, after, 'vedette_results_total', ...type, ...labels)
  const runs = of(`verdict="${verdict}"`)
  const others = of() - runs - of('verdict="missed"')
  if (others === 0 && runs >= runsMin) return
  const expected = `expected at least ${runsMin} and no other`
  throw new Error(`load did not run: ${runs} runs ${verdict} and ${others} not, ${expected}`)
}
