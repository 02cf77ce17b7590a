// The outcome of `vedette check` for people: one line a result, failures beneath it, a closing count.
import type { Result, Verdict } from '../contract/result.ts'
import { VERDICTS } from '../contract/result.ts'

const COLOURS: Record<Verdict, number> = {
  passed: 32,
  degraded: 33,
  failed: 31,
  errored: 35,
  cancelled: 36,
  missed: 36,
}

/** A verdict, coloured for a terminal where asked. */
export function paint(verdict: Verdict, text: string, colour: boolean): string {
  return colour ? `\u001B[${COLOURS[verdict]}m${text}\u001B[0m` : text
}

/** The whole report: a table in the order of `results`, then the counts by verdict. */
export function tableOf(results: readonly Result[], options: { colour: boolean }): string {
  const rows = results.map((result) => ({ result, cells: cellsOf(result) }))
  const widths = [0, 1, 2, 3].map((column) =>
    Math.max(...rows.map(({ cells }) => cells[column]?.length ?? 0), 0),
  )
  const lines = rows.flatMap(({ result, cells }) => {
    const padded = cells.map((cell, column) =>
      column === 3 ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
    )
    const [verdict = '', ...others] = padded
    return [
      [paint(result.verdict, verdict, options.colour), ...others].join('  ').trimEnd(),
      ...result.failures.map((one) => `  ${' '.repeat(widths[0] ?? 0)}${one.code}: ${one.message}`),
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
  const monitors = `${results.length} monitor${results.length === 1 ? '' : 's'}`
  return `${counts.map(({ verdict, count }) => `${count} ${verdict}`).join(', ')} (${monitors})`
}

/** Verdict, name, type, time, what came back. */
function cellsOf(result: Result): string[] {
  const timeMs = result.responseTimeMs ?? result.durationMs
  return [
    result.verdict,
    printable(result.monitorName),
    result.checkType,
    `${timeMs < 10 ? timeMs.toFixed(1) : Math.round(timeMs)} ms`,
    summaryOf(result),
  ]
}

/** The most telling thing that was seen, in a few words. */
export function summaryOf(result: Result): string {
  const parts: string[] = []
  const response = result.observed['response'] as Record<string, unknown> | undefined
  if (typeof response?.['statusCode'] === 'number') parts.push(`HTTP ${response['statusCode']}`)
  const hops = result.observed['hops']
  if (Array.isArray(hops) && hops.length > 1)
    parts.push(`${hops.length - 1} redirect${hops.length > 2 ? 's' : ''}`)
  if (result.attempts.length > 1) parts.push(`${result.attempts.length} attempts`)
  return parts.join(', ')
}

/** Names come from files: control characters in them must not reach a terminal. */
function printable(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001F\u007F-\u009F]/g, '\uFFFD')
}
