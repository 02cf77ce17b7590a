// The outcome of `vedette check` for people: one line a result, failures beneath it, a closing count.
import { type Result, VERDICTS } from '../contract/result.ts'
import { inColumns } from '../process/columns.ts'
import { counted } from '../contract/schema/amounts.ts'
import { printable, observationLabels, timeText, verdictLabel } from '../agent/run/result-text.ts'

/** The whole report: a table in the order of `results`, then the counts by verdict. */
export function tableOf(results: readonly Result[], { colour }: { colour: boolean }): string {
  const longest = (texts: readonly string[]) => Math.max(0, ...texts.map(({ length }) => length))
  const width = longest(results.map(({ verdict }) => verdict))
  const timeWidth = longest(results.map(timeText))
  const rows = inColumns(
    results.map((result) => [
      result.verdict,
      printable(result.monitorName),
      result.checkType,
      timeText(result).padStart(timeWidth),
      observationLabels(result).join(', '),
    ]),
  )
  const indent = ' '.repeat(width + 2)
  const lines = results.flatMap(({ verdict, failures }, index) => [
    (verdictLabel(verdict, colour, width) + rows[index]?.slice(width)).trimEnd(),
    ...failures.map((one) => `${indent}${one.code}: ${printable(one.message)}`),
  ])
  return `${[...lines, '', countsOf(results)].join('\n')}\n`
}

/** How often each verdict came, like `7 passed, 1 failed (8 monitors)`. */
function countsOf(results: readonly Result[]): string {
  const counts = VERDICTS.map((verdict) => ({
    verdict,
    count: results.filter((one) => one.verdict === verdict).length,
  })).filter(({ count }) => count > 0)
  const monitors = counted(results.length, 'monitor')
  return `${counts.map(({ verdict, count }) => `${count} ${verdict}`).join(', ')} (${monitors})`
}
