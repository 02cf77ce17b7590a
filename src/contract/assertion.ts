// Assertions in the public wire form: {source, property, comparison, target, regex}. Which sources and
// comparisons a type of monitor offers is a table of that type; the checks on them are shared here.
import * as z from 'zod'
import { jsonPathProblem } from './json-path.ts'
import { regexProblem } from './regex.ts'
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

/** Comparisons that look at the value alone and ignore `target`. */
export const TARGETLESS: readonly Comparison[] = ['IS_EMPTY', 'NOT_EMPTY', 'IS_NULL', 'NOT_NULL']

/** What one source of a type of monitor allows. */
export interface SourceRule {
  comparisons: readonly Comparison[]
  /** What `property` holds; `none` means that it must be empty. */
  property: 'none' | 'json-path' | 'regex' | 'header'
  /** Whether `target` must be a number, for the comparisons of NUMERIC. */
  numeric?: boolean
}

/** Source → what it allows. */
export type SourceRules = Readonly<Record<string, SourceRule>>

// The wire knows strings only; people write 200 and true in YAML, which means the same.
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
      for (const problem of problemsOf(assertion, rules[assertion.source] as SourceRule)) {
        context.addIssue({ code: 'custom', ...problem })
      }
    })
  return z.array(one).max(LIMITS.assertionsMax).default([])
}

interface Problem {
  path: string[]
  message: string
}

function* problemsOf(assertion: Assertion, rule: SourceRule): Generator<Problem> {
  const { source, comparison, property, target, regex } = assertion
  if (!rule.comparisons.includes(comparison)) {
    const offered = rule.comparisons.join(', ')
    yield {
      path: ['comparison'],
      message: `${source} cannot be compared by ${comparison}; use one of ${offered}`,
    }
  }
  const mend = propertyProblem(rule, property)
  if (mend !== undefined) yield { path: ['property'], message: mend }
  const regexMend = regex === null || regex === '' ? undefined : regexProblem(regex)
  if (regexMend !== undefined) yield { path: ['regex'], message: regexMend }
  const needsNumber =
    (rule.numeric === true && NUMERIC.includes(comparison)) ||
    comparison === 'GREATER_THAN' ||
    comparison === 'LESS_THAN'
  if (needsNumber && !isNumber(target)) {
    yield { path: ['target'], message: `${source} ${comparison} needs a number as target` }
  }
}

function propertyProblem(rule: SourceRule, property: string): string | undefined {
  if (property === '') {
    return rule.property === 'header' ? 'the name of a header is missing' : undefined
  }
  if (rule.property === 'none') return 'this source takes no property; leave it out'
  if (rule.property === 'json-path') return jsonPathProblem(property)
  if (rule.property === 'regex') return regexProblem(property)
  return undefined
}

/** Whether the text is a finite decimal number. */
export function isNumber(value: string): boolean {
  return value.trim() !== '' && Number.isFinite(Number(value))
}
