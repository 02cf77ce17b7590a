// Parts of a request that both APIs validate: the length of its URL, parameters of the path, the query, values.
import type { Context } from 'hono'
import * as z from 'zod'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { nearest } from '../../process/nearest.ts'
import { problemsOf, problemText } from './draft-problem.ts'
import { ApiError, notFound } from './errors.ts'

/** Throws 400 for an URL that is longer than any we answer. */
export function checkTarget(c: Context): void {
  if (c.req.url.length > API_BOUNDS.targetBytesMax) {
    throw new ApiError(400, `The URL must have at most ${API_BOUNDS.targetBytesMax} characters`)
  }
}

/** The validated parameters of the path. Throws 404 for those that do not fit `schema`. */
export function readParams(c: Context, schema: z.ZodType | undefined): unknown {
  if (schema === undefined) return {}
  const result = schema.safeParse(c.req.param())
  if (!result.success) throw notFound('resource')
  return result.data
}

const SHORT_QUERY_CHARACTERS = 16
const SHORT_QUERIES_MAX = 100

/**
 * Reads the query of requests by `schema`. Short queries that were good, such as `limit=20`, are
 * remembered: most clients send the same one again and again.
 */
export function queryReader(
  shape: Record<string, z.ZodType>,
  repeatable: readonly string[],
): (c: Context) => unknown {
  const schema = z.object(shape)
  const names = new Set(Object.keys(shape))
  const lists = new Set(repeatable)
  const remembered = new Map<string, unknown>()
  return (c) => {
    const start = c.req.url.indexOf('?')
    const text = start === -1 ? '' : c.req.url.slice(start + 1)
    const known = remembered.get(text)
    if (known !== undefined) return known
    const query = Object.freeze(checked(schema, valuesOf(text, names, lists)))
    if (text.length <= SHORT_QUERY_CHARACTERS && remembered.size < SHORT_QUERIES_MAX) {
      remembered.set(text, query)
    }
    return query
  }
}

function valuesOf(
  text: string,
  names: ReadonlySet<string>,
  lists: ReadonlySet<string>,
): Record<string, string | string[]> {
  const single: Record<string, string> = {}
  const several: Record<string, string[]> = {}
  for (const [sent, value] of new URLSearchParams(text)) {
    const bare = sent.endsWith('[]') ? sent.slice(0, -2) : sent
    const name = lists.has(bare) ? bare : sent
    if (!names.has(name)) throw unknownParameter(name, names)
    if (value.includes('\0')) {
      throw new ApiError(400, `${name}: must not hold the character U+0000`)
    }
    if (lists.has(name)) (several[name] ??= []).push(value)
    else if (Object.hasOwn(single, name)) throw new ApiError(400, `${name}: must be given once`)
    else single[name] = value
  }
  return { ...single, ...several }
}

const NAME_CHARACTERS_SHOWN = 64

/** 400 for a query parameter that nothing would come of, such as a filter of a newer version. */
function unknownParameter(name: string, names: ReadonlySet<string>): ApiError {
  const near = nearest(name, names)
  const known = names.size === 0 ? 'none is known here' : `known here: ${[...names].join(', ')}`
  const fix = near === undefined ? known : `did you mean ${near}?`
  const shown = name.slice(0, NAME_CHARACTERS_SHOWN).toWellFormed()
  return new ApiError(400, `${shown}: unknown query parameter; ${fix}`)
}

/** Parses a value by a schema. Throws 400 that names the problems. */
export function checked<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new ApiError(400, problemText(problemsOf(result.error, schema, value)))
}
