// The load of a bench and its expected results: figures of a load that did not run mean nothing.
import type { Result, Verdict } from '../../src/contract/result.ts'
import { growth } from './metrics-text.ts'

/** The part of a result that shows whether a load ran. */
export type LoadResult = Pick<Result, 'monitorId' | 'checkType' | 'verdict' | 'failures'>

/** A load, by the type of its monitors. */
export interface ExpectedLoad {
  checkType: LoadResult['checkType']
  /** Fewer results than this mean that it did not run. */
  runsMin: number
  verdict: Verdict
  /** Code of the first failure, where the verdict has one. */
  code?: string
}

/**
 * Throws where a load has too few results, with their number, or another result than it must have, with the first
 * one's monitor, verdict, code and message. Results of other types are wrong, too.
 */
export function checkLoad(results: readonly LoadResult[], expected: readonly ExpectedLoad[]): void {
  for (const { checkType, verdict, failures, monitorId } of results) {
    const load = expected.find((one) => one.checkType === checkType)
    const code = failures[0]?.code
    if (load?.verdict === verdict && load.code === code) continue
    const wanted = load === undefined ? 'none' : textOf(load.verdict, load.code)
    const given = `${textOf(verdict, code)} ${failures[0]?.message ?? ''}`.trim()
    throw new Error(`load did not run: ${checkType} ${monitorId}: ${given} (expected ${wanted})`)
  }
  for (const { checkType, runsMin } of expected) {
    const runs = results.filter((one) => one.checkType === checkType).length
    if (runs < runsMin) {
      throw new Error(`load did not run: ${runs} runs of ${checkType}, expected ${runsMin}`)
    }
  }
}

/**
 * Throws where an agent, by two scrapes of its metrics, ran fewer slots than `runsMin` to this verdict, or any to
 * another one. Missed slots are no runs.
 */
export function checkRuns(before: string, after: string, verdict: Verdict, runsMin: number): void {
  const of = (label?: string) => growth(before, after, 'vedette_results_total', label)
  const runs = of(`verdict="${verdict}"`)
  const others = of() - runs - of('verdict="missed"')
  if (others === 0 && runs >= runsMin) return
  const expected = `expected at least ${runsMin} and no other`
  throw new Error(`load did not run: ${runs} runs ${verdict} and ${others} not, ${expected}`)
}

function textOf(verdict: string, code: string | undefined): string {
  return code === undefined ? verdict : `${verdict} ${code}`
}
