// Compares the tables of fields on a page with a schema: names, types, defaults.
import type * as z from 'zod'
import { codeNamesIn, type Table } from './pages.ts'

type Schema = z.core.$ZodType
type Shape = Readonly<Record<string, Schema>>

/** What a schema says of a field. */
interface Field {
  type: string
  isRequired: boolean
  /** Undefined where there is none, or one that a page describes in words. */
  fallback: string | undefined
  /** The values of an enumeration. */
  values: string[]
  /** Objects that it is, or has as elements. */
  shapes: Shape[]
}

interface Def {
  type: string
  innerType?: Schema
  in?: Schema
  out?: Schema
  defaultValue?: unknown
  element?: Schema
  options?: Schema[]
  values?: unknown[]
  entries?: Record<string, unknown>
  shape?: Shape
}
const defOf = (schema: Schema) => schema._zod.def as unknown as Def

const TYPES: Record<string, string> = {
  string: 'text',
  enum: 'text',
  number: 'number',
  boolean: 'boolean',
  array: 'list',
  object: 'object',
  record: 'object',
}

/** The schema below what makes it optional or transforms it. */
function fieldOf(schema: Schema): Field {
  let [inner, isRequired] = [schema, true]
  let fallback: unknown
  for (;;) {
    const def = defOf(inner)
    if (def.type === 'default') fallback = def.defaultValue
    if (['optional', 'default', 'prefault'].includes(def.type)) isRequired = false
    const isTransform = def.in !== undefined && defOf(def.in).type === 'transform'
    const next = def.innerType ?? (isTransform ? def.out : def.in)
    if (next === undefined) break
    inner = next
  }
  const isPlain = ['boolean', 'number'].includes(typeof fallback) || typeof fallback === 'string'
  const text = isPlain && fallback !== '' ? String(fallback) : undefined
  return { ...kindOf(inner), isRequired, fallback: text }
}

function kindOf(schema: Schema): Pick<Field, 'type' | 'values' | 'shapes'> {
  const def = defOf(schema)
  if (def.type === 'literal') return { ...NONE, type: typeName(typeof def.values?.[0]) }
  if (def.type === 'union') {
    const options = (def.options ?? []).map((one) => fieldOf(one))
    return {
      type: [...new Set(options.map(({ type }) => type))].join(' or '),
      values: options.flatMap(({ values }) => values),
      shapes: options.flatMap(({ shapes }) => shapes),
    }
  }
  const elements = def.element === undefined ? [] : fieldOf(def.element).shapes
  return {
    type: typeName(def.type),
    values: def.type === 'enum' ? Object.values(def.entries ?? {}).map(String) : [],
    shapes: def.shape === undefined ? elements : [def.shape],
  }
}
const NONE = { values: [], shapes: [] }
const typeName = (type: string) => TYPES[type] ?? 'any'

/** A table of fields with the path of the object whose fields they are; empty for the definition itself. */
function fieldTables(tables: readonly Table[]): Map<string, string[][]> {
  return new Map(
    tables.flatMap(({ head, rows }) => {
      const found = /^field(?: of `([\w.]+)`)?$/.exec(head[0] ?? '')
      return found === null || head.length < 4 ? [] : [[found[1] ?? '', rows]]
    }),
  )
}

/**
 * What differs between a schema and the tables of a page. `around` is the text that may describe fields without
 * a row: the page, and those that it links to.
 */
export function fieldProblems(shape: Shape, tables: readonly Table[], around: string): string[] {
  const byPath = fieldTables(tables)
  const known = codeNamesIn(around)
  const problems: string[] = []
  const walk = (fields: Shape, at: string): void => {
    const rows = byPath.get(at)
    if (rows !== undefined) problems.push(...rowProblems(fields, at, rows, byPath))
    for (const [name, schema] of Object.entries(fields)) {
      const path = at === '' ? name : `${at}.${name}`
      const { values, shapes } = fieldOf(schema)
      for (const named of [name, ...values]) {
        const words = named.match(/[A-Za-z_][A-Za-z0-9_]*/g) ?? []
        if (words.some((word) => !known.has(word))) problems.push(`${path}: ${named} is not named`)
      }
      for (const one of shapes) walk(one, path)
    }
  }
  walk(shape, '')
  return problems
}

function rowProblems(
  fields: Shape,
  at: string,
  rows: readonly string[][],
  byPath: ReadonlyMap<string, unknown>,
): string[] {
  const names = rows.map(([name = '']) => name.replaceAll('`', ''))
  const own = (name: string) => byPath.has(at === '' ? name : `${at}.${name}`)
  const missing = Object.keys(fields).filter((name) => !names.includes(name) && !own(name))
  return [
    ...missing.map((name) => `${at}: ${name} has no row`),
    ...rows.flatMap(([, type = '', fallback = ''], index) => {
      const name = names[index] ?? ''
      const schema = Object.hasOwn(fields, name) ? fields[name] : undefined
      if (schema === undefined) return [`${at}: there is no field ${name}`]
      const field = fieldOf(schema)
      const expected = field.isRequired ? 'required' : field.fallback
      const shown = fallback.replaceAll('`', '')
      const isRight = expected === undefined ? shown !== 'required' : shown === expected
      return [
        ...(type === field.type ? [] : [`${at}: ${name} is of type ${field.type}`]),
        ...(isRight ? [] : [`${at}: the default of ${name} is ${expected ?? 'not required'}`]),
      ]
    }),
  ]
}
