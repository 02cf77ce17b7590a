// A result in words for people: the same in the log of an agent and in the table of `vedette check`.
import type { Result, Verdict } from '../contract/result.ts'
import { paint } from '../host/pretty-line.ts'

const COLOURS = {
  passed: 'green',
  degraded: 'yellow',
  failed: 'red',
  errored: 'magenta',
  cancelled: 'cyan',
  missed: 'cyan',
} as const

/** A verdict, padded to a column and coloured where asked. */
export function verdictWord(verdict: Verdict, colour: boolean, width = 9): string {
  return paint(colour, COLOURS[verdict], verdict.padEnd(width))
}

/** How long it took, like `7.3 ms`: the response time where there was one. */
export function timeWord({ responseTimeMs, durationMs }: Result): string {
  const timeMs = responseTimeMs ?? durationMs
  return `${timeMs < 10 ? timeMs.toFixed(1) : Math.round(timeMs)} ms`
}

/** The most telling things that were seen: status, redirects, attempts. */
export function seenWords({ observed, attempts }: Result): string[] {
  const words: string[] = []
  if (typeof observed['statusCode'] === 'number') words.push(`HTTP ${observed['statusCode']}`)
  const redirects = Array.isArray(observed['hops']) ? observed['hops'].length - 1 : 0
  if (redirects > 0) words.push(`${redirects} redirect${redirects === 1 ? '' : 's'}`)
  if (attempts.length > 1) words.push(`${attempts.length} attempts`)
  return words
}

/** One line without control characters: names and messages come from outside. */
export function printable(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001F\u007F-\u009F]+/g, ' ')
}
