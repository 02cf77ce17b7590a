// Compares the tables of fields on a page with a schema: names, types, defaults, bounds.
import * as z from 'zod'
import { codeNamesIn, page, type Table } from './pages.ts'

type Schema = z.core.$ZodType
type Shape = Readonly<Record<string, Schema>>

/** What a schema says of a field. */
interface Field {
  type: string
  isNullable: boolean
  isRequired: boolean
  /** Only answers have it. */
  isReadOnly: boolean
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
  null: 'null',
}

/** The schema below what makes it optional or transforms it. */
function fieldOf(schema: Schema): Field {
  const wrappers = new Set<string>()
  let inner = schema
  let fallback: unknown
  for (;;) {
    const def = defOf(inner)
    wrappers.add(def.type)
    if (def.type === 'default') fallback = def.defaultValue
    const isTransform = def.in !== undefined && defOf(def.in).type === 'transform'
    const next = def.innerType ?? (isTransform ? def.out : def.in)
    if (next === undefined) break
    inner = next
  }
  const isPlain = ['boolean', 'number'].includes(typeof fallback) || typeof fallback === 'string'
  const text = isPlain && fallback !== '' ? String(fallback) : undefined
  return {
    ...kindOf(inner),
    isNullable: wrappers.has('nullable'),
    isRequired: ['optional', 'default', 'prefault'].every((one) => !wrappers.has(one)),
    isReadOnly: wrappers.has('readonly'),
    fallback: text,
  }
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
      return found === null || head.length < 3 ? [] : [[found[1] ?? '', rows]]
    }),
  )
}

/** A body of the API. */
interface ApiBody {
  /** Begins the paths of its tables. */
  name: string
  /** Parts that have tables of their own under another name. */
  elsewhere: ReadonlySet<Shape>
}

/**
 * What differs between a schema and the tables of a page. `around` is the text that may describe fields without
 * a row: the page, and those that it links to. Tables of the API also show what may be null.
 */
export function fieldProblems(
  shape: Shape,
  tables: readonly Table[],
  around: string,
  api?: ApiBody,
): string[] {
  const byPath = fieldTables(tables)
  const known = codeNamesIn(around)
  const problems: string[] = []
  const walk = (fields: Shape, at: string): void => {
    const rows = byPath.get(at)
    if (rows !== undefined) {
      const whole = rowsOf(rows, Object.keys(fields))
      problems.push(...missingRows(fields, at, whole, byPath))
      problems.push(...whole.flatMap((row) => rowProblems(fields, at, row, api !== undefined)))
    }
    for (const [field, schema] of Object.entries(fields)) {
      const path = at === '' ? field : `${at}.${field}`
      const { values, shapes } = fieldOf(schema)
      for (const named of rows === undefined ? [field, ...values] : values) {
        const words = named.match(/[A-Za-z_][A-Za-z0-9_]*/g) ?? []
        if (words.some((word) => !known.has(word))) problems.push(`${path}: ${named} is not named`)
      }
      for (const one of shapes) if (api?.elsewhere.has(one) !== true) walk(one, path)
    }
  }
  walk(shape, api?.name ?? '')
  return problems
}

/** Rows with their names alone; `time_*` stands for all fields that begin so. */
function rowsOf(rows: readonly string[][], fields: readonly string[]): string[][] {
  return rows.flatMap(([cell = '', ...rest]) => {
    const name = cell.replaceAll('`', '')
    if (!name.endsWith('*')) return [[name, ...rest]]
    return fields.filter((one) => one.startsWith(name.slice(0, -1))).map((one) => [one, ...rest])
  })
}

function missingRows(
  fields: Shape,
  at: string,
  rows: readonly string[][],
  byPath: ReadonlyMap<string, unknown>,
): string[] {
  const names = new Set(rows.map(([name]) => name))
  const own = (name: string) => byPath.has(at === '' ? name : `${at}.${name}`)
  return Object.keys(fields)
    .filter((name) => !names.has(name) && !own(name))
    .map((name) => `${at}: ${name} has no row`)
}

function rowProblems(fields: Shape, at: string, row: string[], isOfApi: boolean): string[] {
  const [name = '', type, ...rest] = row
  const schema = Object.hasOwn(fields, name) ? fields[name] : undefined
  if (schema === undefined) return [`${at}: there is no field ${name}`]
  const field = fieldOf(schema)
  const kind = isOfApi && field.isNullable ? `${field.type} or null` : field.type
  const problems = type === kind ? [] : [`${at}: ${name} is of type ${kind}`]
  // An answer alone has no defaults.
  const [fallback, meaning] = rest.length > 1 ? rest : [undefined, rest[0]]
  if (fallback === undefined) return problems
  const expected = field.isReadOnly ? 'read only' : field.isRequired ? 'required' : field.fallback
  const shown = fallback.replaceAll('`', '')
  const isRight = expected === undefined ? !FIXED.has(shown) : shown === expected
  if (!isRight) problems.push(`${at}: the default of ${name} is ${expected ?? 'not required'}`)
  const bounds = field.isReadOnly ? [] : [...boundsOf(schema, isOfApi), ...boundsSaidBy(schema)]
  const numbers = numbersIn(isOfApi ? `${fallback} ${meaning}` : meaning)
  const unnamed = bounds.filter((one) => !numbers.has(one))
  return [...problems, ...unnamed.map((one) => `${at}: the bound ${one} of ${name} is not named`)]
}
const FIXED = new Set(['required', 'read only'])

/** Numbers in a text, without separators; those of MiB as bytes. */
function numbersIn(text = ''): Set<number> {
  const found = text.replaceAll(/(?<=\d),(?=\d{3})/g, '').matchAll(/(\d+)( MiB)?/g)
  return new Set(Array.from(found, ([, number, unit]) => Number(number) * (unit ? 1_048_576 : 1)))
}

const VALUES = ['minimum', 'maximum'] as const
const LENGTHS = ['minLength', 'maxLength', 'minItems', 'maxItems'] as const
interface Bounded extends Partial<Record<(typeof VALUES | typeof LENGTHS)[number], number>> {
  anyOf?: Bounded[]
  items?: Bounded
}

/** Bounds that a schema only has in what it says of a bad value, as `1 to 30 letters`. */
function boundsSaidBy(schema: Schema): number[] {
  const issues = z.safeParse(schema, '\0').error?.issues ?? []
  return issues.flatMap(({ message }) =>
    [...message.matchAll(/\b(\d+) to (\d+)\b/g)].flatMap(([, min, max]) => [
      Number(min),
      Number(max),
    ]),
  )
}

/** Lengths that the page of all monitors says once for the tables of all types. */
const sharedLengths = numbersIn(
  /^\*\*Bounds\.\*\*[^]*?\n\n/m.exec(page('src/monitors/README.md'))?.[0],
)

/** Bounds of a value or of the elements of a list, but for those of whole numbers and, in the API, for 0 and 1. */
function boundsOf(schema: Schema, isOfApi: boolean): number[] {
  const walk = (json: Bounded): number[] => [
    ...VALUES.flatMap((one) => json[one] ?? []).filter((one) => !isOfApi || Math.abs(one) > 1),
    ...LENGTHS.flatMap((one) => json[one] ?? []).filter(
      (one) => one > 1 && (isOfApi || !sharedLengths.has(one)),
    ),
    ...(json.anyOf ?? []).flatMap(walk),
    ...(json.items === undefined ? [] : walk(json.items)),
  ]
  const all = walk(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Bounded)
  return all.filter((one) => Math.abs(one) < Number.MAX_SAFE_INTEGER)
}
