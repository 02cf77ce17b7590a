// Judges one assertion on the raw material of its source: extract, apply the regex, compare. Pure, so
// that it runs the same in the event loop and in the worker thread.
import type { Assertion } from '../contract/assertion.ts'
import { compileJsonPath, findByJsonPath, type Json } from '../contract/json-path.ts'
import { compileRegex } from '../contract/regex.ts'
import { LIMITS } from '../contract/versions.ts'
import { excerptOf, holds, type Actual } from './comparison.ts'

/** What a source gives, before an assertion picks its value out of it. */
export type Material =
  { kind: 'value'; value: Actual } | { kind: 'text'; text: string } | { kind: 'json'; text: string }

/**
 * Whether the assertion holds; `end` is where the match of a regex on a text ends, `actual` what it saw,
 * `problem` why it could not be compared at all.
 */
export type Judgement =
  { holds: true; end?: number } | { holds: false; actual?: string; problem?: string }

/** Characters of the value that a failure shows. */
const ACTUAL_CHARACTERS_MAX = 200

/** The last JSON text that was parsed: several assertions look into one body. */
let lastText: string | undefined
let lastJson: Json | undefined

/**
 * Judges an assertion. Throws StepsExceeded when its JSONPath needs more than `stepsMax` steps;
 * a regex in it runs for as long as it likes.
 */
export function judge(assertion: Assertion, material: Material, stepsMax: number): Judgement {
  const extracted = extract(assertion, material, stepsMax)
  if ('problem' in extracted) return { holds: false, problem: extracted.problem }
  const actual = applyRegex(assertion.regex, extracted.actual)
  if (holds(assertion.comparison, actual, assertion.target)) {
    return extracted.end === undefined ? { holds: true } : { holds: true, end: extracted.end }
  }
  return { holds: false, actual: excerptOf(actual, ACTUAL_CHARACTERS_MAX) }
}

type Extracted = { actual: Actual; end?: number } | { problem: string }

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
  if (nestsDeeperThan(text, LIMITS.jsonDepthMax)) {
    return { problem: `the JSON is nested deeper than ${LIMITS.jsonDepthMax}` }
  }
  let document: Json
  try {
    document = parseJson(text)
  } catch {
    const shown = excerptOf(text, 60)
    return {
      problem: text === '' ? 'there is no JSON, nothing came' : `this is not JSON: ${shown}`,
    }
  }
  if (property === '' || property === '$') return { actual: document }
  const found = findByJsonPath(compileJsonPath(property), document, stepsMax)
  // One match is that value; several are compared as a list.
  return { actual: found.length > 1 ? found : found[0] }
}

function parseJson(text: string): Json {
  if (text !== lastText) {
    lastJson = JSON.parse(text) as Json
    lastText = text
  }
  return lastJson as Json
}

function extractText(pattern: string, text: string): Extracted {
  if (pattern === '') return { actual: text }
  const match = compileRegex(pattern).exec(text)
  if (match === null) return { actual: undefined }
  return { actual: valueOf(match), end: match.index + match[0].length }
}

function applyRegex(pattern: string | null, actual: Actual): Actual {
  if (pattern === null || pattern === '' || actual === undefined) return actual
  const text = typeof actual === 'string' ? actual : JSON.stringify(actual)
  const match = compileRegex(pattern).exec(text)
  return match === null ? undefined : valueOf(match)
}

/** The first group, or the whole match where the pattern has none. */
function valueOf(match: RegExpExecArray): string | undefined {
  return match.length > 1 ? match[1] : match[0]
}

/** Whether brackets of a JSON text nest deeper than `depthMax`; before parsing, so that nothing overflows. */
export function nestsDeeperThan(text: string, depthMax: number): boolean {
  if (text.length <= depthMax) return false
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at)
    if (character === 0x22) at = endOfString(text, at)
    else if (character === 0x5b || character === 0x7b) {
      if (++depth > depthMax) return true
    } else if (character === 0x5d || character === 0x7d) depth--
  }
  return false
}

/** Where the JSON string that starts at `at` has its closing quote. */
function endOfString(text: string, at: number): number {
  for (;;) {
    const quote = text.indexOf('"', at + 1)
    if (quote === -1) return text.length
    let backslashes = 0
    while (text.charCodeAt(quote - 1 - backslashes) === 0x5c) backslashes++
    if (backslashes % 2 === 0) return quote
    at = quote
  }
}
