// The outcome of `vedette check` for people: one line a result, failures beneath it, a closing count.
import { type Result, VERDICTS } from '../contract/result.ts'
import { counted } from '../contract/schema/amounts.ts'
import { printable, observationLabels, timeText, verdictLabel } from '../agent/run/result-text.ts'

/** The whole report: a table in the order of `results`, then the counts by verdict. */
export function tableOf(results: readonly Result[], options: { colour: boolean }): string {
  const rows = results.map((result) => ({ result, cells: cellsOf(result) }))
  const widths = [0, 1, 2, 3].map((column) =>
    Math.max(...rows.map(({ cells }) => cells[column]?.length ?? 0), 0),
  )
  const [verdictWidth = 0, nameWidth = 0, typeWidth = 0, timeWidth = 0] = widths
  const lines = rows.flatMap(({ result, cells }) => {
    const [, name = '', type = '', time = '', observation = ''] = cells
    const verdict = verdictLabel(result.verdict, options.colour, verdictWidth)
    const rest = [
      name.padEnd(nameWidth),
      type.padEnd(typeWidth),
      time.padStart(timeWidth),
      observation,
    ]
    const indent = ' '.repeat(verdictWidth + 2)
    return [
      [verdict, ...rest].join('  ').trimEnd(),
      ...result.failures.map((one) => `${indent}${one.code}: ${printable(one.message)}`),
    ]
  })
  return `${[...lines, '', countsOf(results)].join('\n')}\n`
}

/** How often each verdict came, like `7 passed, 1 failed (8 monitors)`. */
export function countsOf(results: readonly Result[]): string {
  const counts = VERDICTS.map((verdict) => ({
    verdict,
    count: results.filter((one) => one.verdict === verdict).length,
  })).filter(({ count }) => count > 0)
  const monitors = counted(results.length, 'monitor')
  return `${counts.map(({ verdict, count }) => `${count} ${verdict}`).join(', ')} (${monitors})`
}

/** Verdict, name, type, time, what came back. */
function cellsOf(result: Result): string[] {
  const { verdict, monitorName, checkType } = result
  return [
    verdict,
    printable(monitorName),
    checkType,
    timeText(result),
    observationLabels(result).join(', '),
  ]
}
