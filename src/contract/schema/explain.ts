// Validation messages: turns Zod's issues into plain sentences, each with its path and, for a wrong key or
// value, the accepted ones.
import * as z from 'zod'

/** One objection of a schema. */
export interface Objection {
  /** Path from the root of the value; of an unknown key, the key itself. */
  path: (string | number)[]
  /** The problem and the accepted values, without the value itself. */
  message: string
  kind: 'unknown-key' | 'missing' | 'value'
  /** Keys or values that the schema accepts here, for "did you mean …?". */
  candidates?: readonly string[]
}

type Issue = z.core.$ZodIssue
type JsonSchema = Record<string, unknown>

/** The objections in an error of `schema` against `value`, in Zod's order. */
export function objections(error: z.ZodError, schema: z.ZodType, value: unknown): Objection[] {
  return error.issues
    .filter((issue) => !isSafeIntegerBound(issue) || !hasCompany(issue, error.issues))
    .flatMap((issue) => [...explain(issue, [], schema, value)])
}

/** Zod's built-in bound for whole numbers, less precise than the schema's. */
function isSafeIntegerBound(issue: Issue): boolean {
  if (issue.code === 'too_big') return issue.maximum === Number.MAX_SAFE_INTEGER
  return issue.code === 'too_small' && issue.minimum === Number.MIN_SAFE_INTEGER
}

function hasCompany(issue: Issue, issues: readonly Issue[]): boolean {
  const place = issue.path.join('.')
  return issues.some((one) => one !== issue && one.path.join('.') === place)
}

function* explain(
  issue: Issue,
  above: (string | number)[],
  schema: z.ZodType,
  root: unknown,
): Generator<Objection> {
  const path = [...above, ...issue.path.map((key) => (typeof key === 'number' ? key : String(key)))]
  if (issue.code === 'unrecognized_keys') {
    const known = keysAt(schema, path)
    const nearby = keysNearby(schema, path)
    for (const key of issue.keys) {
      const place = nearby.get(key)
      const message = `unknown key${place === undefined ? knownHere(known) : `; ${place}`}`
      const candidates = place === undefined ? known : []
      yield { path: [...path, key], message, kind: 'unknown-key', candidates }
    }
    return
  }
  const given = valueAt(root, path)
  if (given === undefined && issue.code !== 'custom') {
    const candidates = issue.code === 'invalid_value' ? issue.values.map(String) : []
    const offer = candidates.length === 0 ? '' : `; one of ${candidates.join(', ')}`
    yield { path, message: `is missing${offer}`, kind: 'missing' }
    return
  }
  if (issue.code === 'invalid_union' && issue.message === 'Invalid input') {
    const branch = nearestBranch(issue.errors)
    if (branch !== undefined) {
      for (const inner of branch) yield* explain(inner, path, schema, root)
      return
    }
  }
  const objection: Objection = { path, message: sentence(issue, given), kind: 'value' }
  if (issue.code === 'invalid_value') objection.candidates = issue.values.map(String)
  yield objection
}

/** Keys that a message names. */
const KEYS_SHOWN_MAX = 15

function knownHere(keys: readonly string[]): string {
  if (keys.length === 0) return ''
  const shown = keys.slice(0, KEYS_SHOWN_MAX).join(', ')
  const more = keys.length > KEYS_SHOWN_MAX ? ` and ${keys.length - KEYS_SHOWN_MAX} more` : ''
  return `; known here: ${shown}${more}`
}

/** Keys that the schema knows one level further in or out, each with a message on its place. */
function keysNearby(schema: z.ZodType, path: readonly (string | number)[]): Map<string, string> {
  const nearby = new Map<string, string>()
  for (const inner of keysAt(schema, path)) {
    for (const key of keysAt(schema, [...path, inner])) nearby.set(key, `it belongs under ${inner}`)
  }
  const outer = path.at(-1)
  if (typeof outer === 'string') {
    for (const key of keysAt(schema, path.slice(0, -1))) {
      nearby.set(key, `it belongs next to ${outer}, not under it`)
    }
  }
  return nearby
}

/** Codes of a value that does not match the branch at all. */
const OTHER_BRANCH: ReadonlySet<string> = new Set(['invalid_type', 'invalid_value'])

/** The branch of a union that the value was meant for: the one that fails deepest inside. */
function nearestBranch(errors: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  const inside = errors.filter((issues) =>
    issues.every((one) => one.path.length > 0 || !OTHER_BRANCH.has(one.code)),
  )
  return inside.length === 1 ? inside[0] : undefined
}

const KINDS: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a mapping',
  record: 'a mapping',
  null: 'null',
}

/** How Zod's own messages begin. */
const ZODS = /^(?:Invalid |Too (?:small|big): )/

function sentence(issue: Issue, given: unknown): string {
  if (!ZODS.test(issue.message)) return issue.message
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${kindOf(issue.expected, given)}`
    case 'invalid_value':
      // As YAML and JSON read a version such as 2024.09 without quotes.
      if (typeof given === 'number' && issue.values.includes(String(given))) {
        return 'must be a string; put it in quotes'
      }
      return issue.values.length === 1
        ? `must be ${String(issue.values[0])}`
        : `must be one of ${issue.values.map(String).join(', ')}`
    case 'too_small':
      return issue.inclusive === false
        ? `must be above ${issue.minimum}`
        : `must ${bound(issue.origin, 'at least', Number(issue.minimum))}`
    case 'too_big':
      return `must ${bound(issue.origin, 'at most', Number(issue.maximum))}`
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'invalid_union':
      return issue.message === 'Invalid input' ? unionSentence(issue.errors) : issue.message
    case 'invalid_format':
      return issue.format === 'guid' ? 'must be a GUID' : issue.message
    case 'unrecognized_keys':
    case 'invalid_key':
    case 'invalid_element':
    case 'custom':
    default:
      return issue.message
  }
}

function kindOf(expected: string, given: unknown): string {
  const kind = KINDS[expected] ?? expected
  if (expected === 'string' && ['number', 'boolean'].includes(typeof given)) {
    return `${kind}; put it in quotes`
  }
  const plain = typeof given === 'string' ? UNQUOTED[expected] : undefined
  return plain?.test(given as string) === true ? `${kind}; write it without quotes` : kind
}

const NUMBER = /^-?\d+(?:\.\d+)?$/
/** Texts that would fit the expected type without their quotes. */
const UNQUOTED: Record<string, RegExp> = {
  number: NUMBER,
  int: NUMBER,
  boolean: /^(?:true|false)$/,
}

function bound(origin: string, comparison: string, limit: number): string {
  if (origin === 'string' && comparison === 'at least' && limit === 1) return 'not be empty'
  if (origin === 'string') return `have ${comparison} ${limit} characters`
  if (origin === 'array') return `have ${comparison} ${limit} entries`
  return `be ${comparison} ${limit}`
}

function unionSentence(errors: readonly (readonly Issue[])[]): string {
  const kinds = errors.flatMap((issues) =>
    issues
      .filter((one) => one.path.length === 0)
      .map((one) => sentence(one, undefined).replace(/^must be /, '')),
  )
  return `must be ${[...new Set(kinds)].join(', or ')}`
}

/** The value at the path; undefined if there is none. */
export function valueAt(root: unknown, path: readonly (string | number)[]): unknown {
  let value = root
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<string | number, unknown>)[key]
  }
  return value
}

const jsonSchemas = new WeakMap<z.ZodType, JsonSchema>()

/** The keys that the schema knows for the mapping at `path`. */
export function keysAt(schema: z.ZodType, path: readonly (string | number)[]): string[] {
  let json = jsonSchemas.get(schema)
  if (json === undefined) {
    json = z.toJSONSchema(schema, {
      io: 'input',
      unrepresentable: 'any',
      reused: 'inline',
      // Without their ids, which would make references of schemas that have one.
      metadata: z.registry(),
    })
    jsonSchemas.set(schema, json)
  }
  let places: JsonSchema[] = [json]
  for (const key of path) places = places.flatMap((one) => step(one, key))
  const found = places.flatMap(branches).flatMap((one) => Object.keys(one['properties'] ?? {}))
  return [...new Set(found)]
}

function branches(json: JsonSchema): JsonSchema[] {
  const inner = [json['anyOf'], json['oneOf'], json['allOf']].flatMap(
    (list) => (list ?? []) as JsonSchema[],
  )
  return inner.length === 0 ? [json] : inner.flatMap(branches)
}

function step(json: JsonSchema, key: string | number): JsonSchema[] {
  return branches(json).flatMap((one) => {
    if (typeof key === 'number') return one['items'] === undefined ? [] : [one['items']]
    const properties = one['properties'] as Record<string, JsonSchema> | undefined
    return properties !== undefined && Object.hasOwn(properties, key) ? [properties[key]] : []
  }) as JsonSchema[]
}
