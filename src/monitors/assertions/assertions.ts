// Evaluates the assertions of a check in order and reports each one that does not hold. Cheap assertions
// run inline; user regexes and expensive JSON paths run in a thread with a time limit.
import { setImmediate as turn } from 'node:timers/promises'
import { TARGETLESS, type Assertion } from '../../contract/assertion.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import { compileJsonPath, StepsExceeded } from '../../contract/json-path/json-path.ts'
import { evaluationThread, type ThreadOutcome } from './evaluation-thread.ts'
import { evaluate, type Material } from './evaluate.ts'
import type { Actual } from './comparison.ts'

/** Source of the value of an assertion. */
export type AssertionSource =
  /**
   * One value, or several of which `property` names one; `target` is passed for values with several spellings.
   * `order` gives all values, lowest first, if they are compared by their order.
   */
  | {
      kind: 'value'
      value: (property: string, target: string) => unknown
      order?: (property: string) => readonly string[] | undefined
    }
  /**
   * A text, which is asked for at most once. `property` is a JSONPath for JSON, or a regex whose first group (or
   * whole match) is used for others; empty for the whole.
   */
  | { kind: 'json' | 'text'; text: () => string }

/** Values of headers by their names, in any case; several of one name are a list. */
export function headerSource(
  valueOf: (name: string) => string | string[] | undefined,
): AssertionSource {
  const value = (name: string) => {
    const found = valueOf(name.toLowerCase())
    return Array.isArray(found) ? found.join(', ') : found
  }
  return { kind: 'value', value }
}

/** Sources by name. */
export type AssertionSources = Readonly<Record<string, AssertionSource>>

/** Steps of a backtracking regex that are well below ten milliseconds. */
const REGEX_STEPS_INLINE_MAX = 5_000_000
/** Values visited by a JSONPath that are well below ten milliseconds. */
const PATH_STEPS_INLINE_MAX = 20_000
/** JSON that is parsed within a few milliseconds. */
const JSON_CHARACTERS_INLINE_MAX = 262_144
/** One is cheap, hundreds are not: time after which the event loop gets a turn. */
const INLINE_MS_MAX = 20

/**
 * Evaluates all assertions in order. Every one that does not hold gives ASSERTION_FAILED with details
 * {index (from 0), source, property, comparison, target, actual}; one that cannot be evaluated gives
 * ASSERTION_REGEX_TIMEOUT, ASSERTION_QUEUE_FULL or ASSERTION_INVALID with the same details.
 *
 * Never rejects. When the signal is aborted, evaluation stops with an additional failure: CANCELLED, or
 * ASSERTION_REGEX_TIMEOUT when the deadline of the check came while an assertion was evaluated.
 */
export async function evaluateAssertions(
  assertions: readonly Assertion[],
  sources: AssertionSources,
  signal: AbortSignal,
): Promise<Failure[]> {
  const failures: Failure[] = []
  const materials = new Map<string, Material>()
  let since = performance.now()
  let isTimeUp = false
  for (const [index, assertion] of assertions.entries()) {
    const material = materialOf(assertion, sources[assertion.source], materials)
    // Most are evaluated in place: no promise for those, this is the hot path.
    const inline = isTimeUp ? undefined : evaluateInline(assertion, material)
    const outcome =
      inline ?? (await evaluationThread.evaluate(assertion, material as Material, signal))
    const failed = failureOf(index, assertion, outcome)
    if (failed !== undefined) failures.push(failed)
    if (inline === undefined && signal.aborted) break
    if (performance.now() - since < INLINE_MS_MAX) continue
    await turn()
    since = performance.now()
    isTimeUp = signal.aborted
  }
  return failures
}

/**
 * End of the first match of the regex in the text, -1 for none; within the same bounds as
 * in assertions. `^` and `$` match at line ends. Never rejects: an error is returned as a failure.
 */
export async function endOfMatch(
  pattern: string,
  text: string,
  signal: AbortSignal,
): Promise<number | Failure> {
  const assertion: Assertion = {
    source: 'TEXT',
    property: `(?m:${pattern})`,
    // Holds for every text and for none: the place of the match counts, not its value.
    comparison: 'NOT_HAS_KEY',
    target: '',
    regex: null,
  }
  const material: Material = { kind: 'text', text }
  const outcome =
    evaluateInline(assertion, material) ??
    (await evaluationThread.evaluate(assertion, material, signal))
  if ('failure' in outcome) return outcome.failure
  const { evaluation } = outcome
  return evaluation.holds ? (evaluation.end ?? -1) : -1
}

function materialOf(
  assertion: Assertion,
  source: AssertionSource | undefined,
  known: Map<string, Material>,
): Material | undefined {
  if (source === undefined) return undefined
  if (source.kind === 'value') {
    const { property, target } = assertion
    const value = source.value(property, target) as Actual
    const order = source.order?.(property)
    return { kind: 'value', value, ...(order !== undefined && { order }) }
  }
  const material = known.get(assertion.source) ?? { kind: source.kind, text: source.text() }
  known.set(assertion.source, material)
  return material
}

/** Outcome of a cheap assertion; undefined for one that belongs in the thread. */
function evaluateInline(
  assertion: Assertion,
  material: Material | undefined,
): ThreadOutcome | undefined {
  if (material === undefined) {
    const message = `this type of monitor has no ${assertion.source}`
    return { failure: failure('ASSERTION_INVALID', message) }
  }
  if (!isCheap(assertion, material)) return undefined
  try {
    return { evaluation: evaluate(assertion, material, PATH_STEPS_INLINE_MAX) }
  } catch (error) {
    if (error instanceof StepsExceeded) return undefined
    const message = `cannot be evaluated: ${(error as Error).message}`
    return { failure: failure('ASSERTION_INVALID', message) }
  }
}

function isCheap({ property, regex }: Assertion, material: Material): boolean {
  const text = material.kind === 'value' ? material.value : material.text
  const characters = typeof text === 'string' ? text.length : JSON.stringify(text ?? null).length
  if (!isCheapRegex(regex, characters)) return false
  switch (material.kind) {
    case 'value':
      return true
    case 'text':
      return isCheapRegex(property, characters)
    case 'json':
    default:
      return characters <= JSON_CHARACTERS_INLINE_MAX && isCheapPath(property)
  }
}

function isCheapRegex(pattern: string | null, characters: number): boolean {
  if (pattern === null || pattern === '') return true
  return regexStepsMax(pattern, characters) <= REGEX_STEPS_INLINE_MAX
}

/**
 * Tells regular expressions that are certainly cheap from those that might not be, without understanding them:
 * an upper bound for the steps that a backtracking engine takes to search `pattern` in a text of
 * `characters`; Infinity if this simple estimate does not apply.
 *
 * Without lookaround, references and repeated groups, each unbounded repetition multiplies the work by
 * the length of the text, each choice by two. Escaped and bracketed signs are counted as if they
 * meant something, which only makes the bound larger.
 */
function regexStepsMax(pattern: string, characters: number): number {
  if (/\(\?[=!<]|\\[1-9k]|\)[*+{]/.test(pattern)) return Infinity
  const repetitions = pattern.match(/[*+{]/g)?.length ?? 0
  const choices = pattern.match(/[|?]/g)?.length ?? 0
  return pattern.length * (characters + 1) ** (repetitions + 1) * 2 ** choices
}

function isCheapPath(path: string): boolean {
  if (path === '') return true
  try {
    return !compileJsonPath(path).hasRegex
  } catch {
    // The evaluation reports its error.
    return true
  }
}

function failureOf(
  index: number,
  assertion: Assertion,
  outcome: ThreadOutcome,
): Failure | undefined {
  const { source, property, comparison, target } = assertion
  const details = { index, source, property, comparison, target }
  const what = `assertion ${index + 1}: ${readable(assertion)}`
  if ('failure' in outcome) {
    const { code, message } = outcome.failure
    return { code, message: `${what}: ${message}`, details }
  }
  const { evaluation } = outcome
  if (evaluation.holds) return undefined
  if (evaluation.problem !== undefined) {
    // A value that cannot be inspected shows nothing about the target.
    const code = evaluation.ours === true ? 'ASSERTION_INVALID' : 'ASSERTION_FAILED'
    return failure(code, `${what}: ${evaluation.problem}`, details)
  }
  const { actual } = evaluation
  return failure('ASSERTION_FAILED', `${what}: got ${actual}`, { ...details, actual })
}

/** The assertion as its one-line shorthand. */
function readable({ source, property, comparison, target }: Assertion): string {
  const parts = [source, property, comparison]
  if (!TARGETLESS.includes(comparison)) {
    parts.push(/^-?[0-9.]+$/.test(target) ? target : JSON.stringify(target))
  }
  return parts.filter((part) => part !== '').join(' ')
}
