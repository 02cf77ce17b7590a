// Results as lines of the log: all that an agent without a platform does with them.
import type { Failure } from '../contract/failure.ts'
import type { Result, Verdict } from '../contract/result.ts'
import { LIMITS } from '../contract/versions.ts'
import { LeastRecentlyUsed } from '../network/least-recently-used.ts'
import type { Log, LogLevel } from '../process/log.ts'
import { paint } from '../process/pretty-line.ts'
import { printable, observationLabels, timeText, verdictLabel } from './run/result-text.ts'

export interface ResultLogOptions {
  log: Log
  /** All of them, or those whose verdict differs from the one before; also the first of each monitor. */
  which: 'all' | 'changes'
  /** One readable line each; else an object with the result but for what was observed. */
  pretty: boolean
  colour?: boolean
}

const LEVELS: Readonly<Record<Verdict, LogLevel>> = {
  passed: 'info',
  degraded: 'info',
  failed: 'warn',
  errored: 'error',
  cancelled: 'warn',
  missed: 'warn',
}

/** Makes the log. */
export function createResultLog(options: ResultLogOptions): (result: Result) => void {
  const { log, which, pretty, colour = false } = options
  const verdicts = new LeastRecentlyUsed<string, Verdict>(LIMITS.monitorsMax)
  return (result) => {
    const before = verdicts.get(result.monitorId)
    if (which === 'changes') verdicts.set(result.monitorId, result.verdict)
    if (which === 'changes' && before === result.verdict) return
    const level = LEVELS[result.verdict]
    if (pretty) log[level](resultLine(result, colour))
    else log[level](brief(result), `${result.monitorName}: ${result.verdict}`)
  }
}

/** `passed    Front page  URL  12 ms  HTTP 200`, and what failed first. */
export function resultLine(result: Result, colour: boolean): string {
  const { verdict, monitorName, checkType, missedReason, failures, attempts } = result
  const columns = [
    verdictLabel(verdict, colour),
    printable(monitorName),
    paint(colour, 'gray', checkType),
    ...(attempts.length === 0 ? [] : [timeText(result), ...observationLabels(result)]),
    ...(missedReason === undefined ? [] : [missedReason]),
    ...failureTexts(failures),
  ]
  return columns.join('  ')
}

function failureTexts(failures: readonly Failure[]): string[] {
  const [first, ...others] = failures
  if (first === undefined) return []
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`
  return [`${first.code}: ${printable(first.message)}${more}`]
}

/** The result without what was observed, which can be as large as a page. */
function brief(result: Result): Record<string, unknown> {
  const { observed, attempts, artifacts, ...rest } = result
  const { statusCode, address } = observed
  return {
    result: {
      ...rest,
      attempts: attempts.length,
      ...(artifacts.length === 0 ? {} : { artifacts: artifacts.length }),
      ...(statusCode === undefined ? {} : { statusCode }),
      ...(address === undefined ? {} : { address }),
    },
  }
}
