// Assertions in the public wire form: {source, property, comparison, target, regex}. Which sources and
// comparisons a type of monitor offers is a table of that type; the checks on them are shared here.
import * as z from 'zod'
import { readNumber } from './exact-json.ts'
import { jsonPathProblem } from './json-path/json-path.ts'
import { regexProblem } from './schema/regex.ts'
import { LIMITS } from './versions.ts'

export const COMPARISONS = [
  'EQUALS',
  'NOT_EQUALS',
  'HAS_KEY',
  'NOT_HAS_KEY',
  'HAS_VALUE',
  'NOT_HAS_VALUE',
  'IS_EMPTY',
  'NOT_EMPTY',
  'GREATER_THAN',
  'LESS_THAN',
  'CONTAINS',
  'NOT_CONTAINS',
  'IS_NULL',
  'NOT_NULL',
] as const
export type Comparison = (typeof COMPARISONS)[number]

export const NUMERIC: readonly Comparison[] = ['EQUALS', 'NOT_EQUALS', 'LESS_THAN', 'GREATER_THAN']

/** Comparisons of texts. */
export const TEXTUAL = [
  'EQUALS',
  'NOT_EQUALS',
  'IS_EMPTY',
  'NOT_EMPTY',
  'LESS_THAN',
  'GREATER_THAN',
  'CONTAINS',
  'NOT_CONTAINS',
] as const satisfies readonly Comparison[]

/** All except those on keys and values of objects. */
export const WITHOUT_KEYS: readonly Comparison[] = [...TEXTUAL, 'IS_NULL', 'NOT_NULL']

/** Comparisons of the value alone, which ignore `target`. */
export const TARGETLESS: readonly Comparison[] = ['IS_EMPTY', 'NOT_EMPTY', 'IS_NULL', 'NOT_NULL']

/** Permitted comparisons and targets of a value. */
export interface ValueRule {
  comparisons: readonly Comparison[]
  /** Whether `target` must be a number, for the comparisons of NUMERIC. */
  numeric?: boolean
  /** Inclusive bounds of such a number. */
  range?: readonly [min: number, max: number]
  /** The only targets there are, lowest first: comparisons of NUMERIC go by this order. */
  targets?: readonly string[]
}

/** What a delay of the agent's own may do to a source: stretch its time, or cut it short. */
export type DelayEffect = 'stretched' | 'cut-short'

/** Rules of one source of a monitor type. */
export interface SourceRule extends ValueRule {
  /** Absent: nothing. */
  delay?: DelayEffect
  /** Content of `property`; `none` means that it must be empty. `header` and `metadata` are names. */
  property: 'none' | 'json-path' | 'regex' | 'header' | 'metadata'
}

/** A source of several values, of which `property` names one. */
export interface PropertiesRule {
  delay?: DelayEffect
  properties: Readonly<Record<string, ValueRule>>
}

/** Rules by source. */
export type SourceRules = Readonly<Record<string, SourceRule | PropertiesRule>>

// The wire form has strings only; 200 and true in YAML are accepted as well.
const text = z.union([z.string(), z.number(), z.boolean()]).transform(String)

/** One assertion; evaluated in order, one that does not hold fails the check. */
export interface Assertion {
  source: string
  /** JSONPath, header name or regular expression, as the source asks. */
  property: string
  comparison: Comparison
  /** Always a string on the wire; numbers and booleans in it are compared as such. */
  target: string
  /** Applied to the value before it is compared: its first group, or the whole match. */
  regex: string | null
}

/** The schema of a list of assertions over the given sources. Bad regexes and JSONPaths are refused here. */
export function assertionsSchema(rules: SourceRules) {
  const sources = Object.keys(rules) as [string, ...string[]]
  const one = z
    .strictObject({
      source: z.enum(sources),
      property: z.string().max(2048).default(''),
      comparison: z.enum(COMPARISONS),
      target: text.default(''),
      regex: z.string().max(2048).nullable().default(null),
    })
    .superRefine((assertion, context) => {
      for (const problem of problemsOf(assertion, rules[assertion.source])) {
        context.addIssue({ code: 'custom', ...problem })
      }
    })
  return z.array(one).max(LIMITS.assertionsMax).default([])
}

interface Problem {
  path: string[]
  message: string
}

function* problemsOf(
  assertion: Assertion,
  rule: SourceRule | PropertiesRule | undefined,
): Generator<Problem> {
  const { property, regex } = assertion
  const regexFix = regex === null || regex === '' ? undefined : regexProblem(regex)
  if (regexFix !== undefined) yield { path: ['regex'], message: regexFix }
  // An unknown source is reported elsewhere.
  if (rule === undefined) return
  if (!('properties' in rule)) {
    const fix = propertyProblem(rule, property)
    if (fix !== undefined) yield { path: ['property'], message: fix }
    yield* valueProblems(assertion, assertion.source, rule)
    return
  }
  const known = Object.keys(rule.properties)
  const value = Object.hasOwn(rule.properties, property) ? rule.properties[property] : undefined
  if (value !== undefined) yield* valueProblems(assertion, `${assertion.source} ${property}`, value)
  else {
    const message =
      property === ''
        ? `is missing; one of ${known.join(', ')}`
        : `must be one of ${known.join(', ')}`
    yield { path: ['property'], message }
  }
}

function* valueProblems(
  { comparison, target }: Assertion,
  what: string,
  rule: ValueRule,
): Generator<Problem> {
  if (!rule.comparisons.includes(comparison)) {
    const offered = rule.comparisons.join(', ')
    yield {
      path: ['comparison'],
      message: `${what} cannot be compared by ${comparison}; use one of ${offered}`,
    }
  }
  const fix = targetProblem(comparison, target, rule)
  if (fix !== undefined) yield { path: ['target'], message: `${what} ${comparison} ${fix}` }
}

function targetProblem(
  comparison: Comparison,
  target: string,
  rule: ValueRule,
): string | undefined {
  const { numeric = false, range, targets } = rule
  if (targets !== undefined) {
    const isKnown = TARGETLESS.includes(comparison) || targets.includes(target)
    return isKnown ? undefined : `needs one of ${targets.join(', ')} as target`
  }
  const needsNumber =
    (numeric && NUMERIC.includes(comparison)) ||
    comparison === 'GREATER_THAN' ||
    comparison === 'LESS_THAN'
  if (!needsNumber) return undefined
  if (!isNumber(target)) return 'needs a decimal number as target, such as 200 or 1.5'
  if (range === undefined) return undefined
  const [min, max] = range
  const isWithin = Number(target) >= min && Number(target) <= max
  return isWithin ? undefined : `needs a target from ${min} to ${max}`
}

function propertyProblem(rule: SourceRule, property: string): string | undefined {
  if (property === '') {
    if (rule.property === 'header') return 'the name of a header is missing'
    return rule.property === 'metadata' ? 'the name of a metadata entry is missing' : undefined
  }
  if (rule.property === 'none') return 'this source has no property; leave it out'
  if (rule.property === 'json-path') return jsonPathProblem(property)
  if (rule.property === 'regex') return regexProblem(property)
  return undefined
}

/** Whether the text is a finite decimal number, as comparisons read it. */
function isNumber(value: string): boolean {
  const number = readNumber(value)
  return typeof number === 'bigint' || Number.isFinite(number)
}
