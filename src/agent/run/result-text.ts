// Labels of a result for people: the same in the log of an agent and in the table of `vedette check`.
import type { Result, Verdict } from '../../contract/result.ts'
import { DEFINITIONS } from '../../monitors/definitions.ts'
import { paint } from '../../process/pretty-line.ts'

const COLOURS = {
  passed: 'green',
  degraded: 'yellow',
  failed: 'red',
  errored: 'magenta',
  cancelled: 'cyan',
  missed: 'cyan',
} as const

/** A verdict, padded to a column and coloured where asked. */
export function verdictLabel(verdict: Verdict, colour: boolean, width = 9): string {
  return paint(colour, COLOURS[verdict], verdict.padEnd(width))
}

/** How long it took, like `7.3 ms` or `0.019 ms`: the response time where there was one. */
export function timeText({ responseTimeMs, durationMs }: Result): string {
  const timeMs = responseTimeMs ?? durationMs
  const decimals = timeMs < 0.1 ? 3 : timeMs < 1 ? 2 : timeMs < 10 ? 1 : 0
  return `${timeMs.toFixed(decimals)} ms`
}

/** The most important observations of a type of monitor, and how many attempts there were. */
export function observationLabels({ checkType, observed, attempts }: Result): string[] {
  const texts = DEFINITIONS.get(checkType)?.summary?.(observed) ?? []
  const repeated = attempts.length > 1 ? [`${attempts.length} attempts`] : []
  return [...texts.map(printable), ...repeated]
}

/** One line without control characters: names and messages come from outside. */
export function printable(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001F\u007F-\u009F]+/g, ' ')
}
