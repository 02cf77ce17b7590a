// Evaluates one assertion on the raw material of its source: extract, apply the regex, compare. Pure, so
// that it runs the same in the event loop and in the worker thread.
import type { Assertion } from '../../contract/assertion.ts'
import { endOfString, parseExactJson } from '../../contract/exact-json.ts'
import { compileJsonPath, findByJsonPath, type Json } from '../../contract/json-path/json-path.ts'
import { compileRegex } from '../../contract/schema/regex.ts'
import { LIMITS } from '../../contract/versions.ts'
import { excerptOf, holds, textOf, type Actual } from './comparison.ts'

/** Data of a source, from which an assertion selects its value. */
export type Material =
  | {
      kind: 'value'
      value: Actual
      /** All values, lowest first, if GREATER_THAN and LESS_THAN compare by that order. */
      order?: readonly string[]
    }
  | { kind: 'text'; text: string }
  | { kind: 'json'; text: string }

/**
 * Outcome of an assertion; `end` is the end of the regex match in a text, `actual` the compared value,
 * `problem` why it could not be compared, and `ours` whether a limit of ours is the cause.
 */
export type Evaluation =
  | { holds: true; end?: number }
  | { holds: false; actual?: string; problem?: string; ours?: boolean }

/** Characters of the value that a failure shows. */
const ACTUAL_CHARACTERS_MAX = 200

type Unreadable = { problem: string; ours?: boolean }
type Parsed = { document: Json } | Unreadable

/** The last JSON text, parsed: several assertions use the same body. */
let lastText: string | undefined
let lastParsed: Parsed | undefined

/**
 * Evaluates an assertion. Throws StepsExceeded when its JSONPath needs more than `stepsMax` steps;
 * a regex in it runs for as long as it likes.
 */
export function evaluate(assertion: Assertion, material: Material, stepsMax: number): Evaluation {
  const extracted = extract(assertion, material, stepsMax)
  if ('problem' in extracted) return { holds: false, ...extracted }
  const actual = applyRegex(assertion.regex, extracted.actual)
  if (isTrue(assertion, actual, material)) {
    return extracted.end === undefined ? { holds: true } : { holds: true, end: extracted.end }
  }
  return { holds: false, actual: excerptOf(actual, ACTUAL_CHARACTERS_MAX) }
}

function isTrue({ comparison, target }: Assertion, actual: Actual, material: Material): boolean {
  const isOrdered = comparison === 'GREATER_THAN' || comparison === 'LESS_THAN'
  if (material.kind !== 'value' || material.order === undefined || !isOrdered) {
    return holds(comparison, actual, target)
  }
  const place = typeof actual === 'string' ? material.order.indexOf(actual) : -1
  // A value outside of the order is neither above nor below any other.
  return place >= 0 && holds(comparison, place, String(material.order.indexOf(target)))
}

type Extracted = { actual: Actual; end?: number } | Unreadable

function extract(assertion: Assertion, material: Material, stepsMax: number): Extracted {
  switch (material.kind) {
    case 'value':
      return { actual: material.value }
    case 'text':
      return extractText(assertion.property, material.text)
    case 'json':
    default:
      return extractJson(assertion.property, material.text, stepsMax)
  }
}

function extractJson(property: string, text: string, stepsMax: number): Extracted {
  const parsed = parseJson(text)
  if ('problem' in parsed) return parsed
  if (property === '' || property === '$') return { actual: parsed.document }
  const found = findByJsonPath(compileJsonPath(property), parsed.document, stepsMax)
  // One match is that value; several are compared as a list.
  return { actual: found.length > 1 ? found : found[0] }
}

/** Does beforehand what all evaluations on the material share, so that none of them is charged for it. */
export function prepare(material: Material): void {
  if (material.kind === 'json') parseJson(material.text)
}

function parseJson(text: string): Parsed {
  if (text !== lastText || lastParsed === undefined) {
    lastParsed = parseAnew(text)
    lastText = text
  }
  return lastParsed
}

function parseAnew(text: string): Parsed {
  const problem = sizeProblem(text)
  if (problem !== undefined) return { problem, ours: true }
  try {
    return { document: parseExactJson(text) as Json }
  } catch {
    if (text === '') return { problem: 'there is no JSON: the answer is empty' }
    return { problem: `this is not JSON: ${excerptOf(text, 60)}` }
  }
}

function extractText(pattern: string, text: string): Extracted {
  if (pattern === '') return { actual: text }
  const match = compileRegex(pattern).exec(text)
  if (match === null) return { actual: undefined }
  return { actual: valueOf(match), end: match.index + match[0].length }
}

function applyRegex(pattern: string | null, actual: Actual): Actual {
  if (pattern === null || pattern === '' || actual === undefined) return actual
  const match = compileRegex(pattern).exec(textOf(actual))
  return match === null ? undefined : valueOf(match)
}

/** The first group, or the whole match where the pattern has none. */
function valueOf(match: RegExpExecArray): string | undefined {
  return match.length > 1 ? match[1] : match[0]
}

/**
 * Error text of a JSON text too large to be parsed. Checked beforehand, because a parser that runs out of
 * memory or stack in the middle takes the whole process with it, worker thread or not.
 */
function sizeProblem(text: string): string | undefined {
  const { jsonDepthMax, jsonValuesMax } = LIMITS
  if (text.length <= jsonDepthMax) return undefined
  let depth = 0
  let values = 0
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at)
    if (character === 0x22) at = endOfString(text, at)
    else if (character === 0x2c) values++
    else if (character === 0x5b || character === 0x7b) {
      values++
      if (++depth > jsonDepthMax) return `the JSON is nested deeper than ${jsonDepthMax}`
    } else if (character === 0x5d || character === 0x7d) depth--
  }
  return values > jsonValuesMax ? `the JSON has more than ${jsonValuesMax} values` : undefined
}
