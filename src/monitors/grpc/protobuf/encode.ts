// Encodes JSON (ProtoJSON: protobuf.dev/programming-guides/json) to the wire format. The library says which type
// it refuses, not where, and quotes values, which may be secrets: the place is found by reading parts of the request.
import {
  fromJson,
  ScalarType,
  toBinary,
  type DescExtension,
  type DescField,
  type DescMessage,
  type FileRegistry,
  type JsonValue,
} from '@bufbuild/protobuf'
import { hasCustomJsonRepresentation } from '@bufbuild/protobuf/wkt'
import { parseExactJson } from '../../../contract/exact-json.ts'
import { nearNames } from '../near-names.ts'
import { SchemaProblem } from './registry.ts'

/** A request that is not JSON, or does not fit the type of the method. */
export class MessageProblem extends Error {
  /** Where, as in `items[2].price`; empty for the whole. */
  readonly path: string

  constructor(path: string, message: string) {
    super(path === '' ? message : `${path}: ${message}`)
    this.name = 'MessageProblem'
    this.path = path
  }
}

/**
 * Encodes the JSON text; an empty one is a message without fields. Throws MessageProblem, or SchemaProblem for types
 * that the library cannot use.
 */
export function encodeMessage(text: string, type: DescMessage, registry: FileRegistry): Uint8Array {
  const json = parse(text)
  const message = decoded(json, type, registry)
  if (message === undefined) throw problemIn({ registry, depth: 0 }, type, json, '')
  try {
    return toBinary(type, message)
  } catch (error) {
    // Of a required field: `cannot encode field p.M.a to binary: …`
    const [, path = ''] = /^cannot encode field \S*?(\w+) to/.exec((error as Error).message) ?? []
    throw new MessageProblem(path, 'is missing, and the type requires it')
  }
}

function decoded(json: unknown, type: DescMessage, registry: FileRegistry) {
  try {
    return fromJson(type, json as JsonValue, { registry })
  } catch (error) {
    // The library goes through types within types by recursion.
    if (error instanceof RangeError) throw new SchemaProblem('types refer to each other too deeply')
    return undefined
  }
}

function parse(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    // A long integer that no double holds stays exact as a text, which ProtoJSON allows for numbers.
    return parseExactJson(text, (digits) =>
      BigInt(Number(digits)) === BigInt(digits) ? Number(digits) : digits,
    )
  } catch (error) {
    throw new MessageProblem('', `the message is not JSON: ${reasonOf(error as Error)}`)
  }
}

/** Without the piece of the text that V8 quotes: it may be part of a secret, which could not be scrubbed. */
function reasonOf({ message }: Error): string {
  return message.replace(/, (?:\.{3})?".*$/s, '')
}

interface Search {
  registry: FileRegistry
  depth: number
}

/** Messages within messages; the bound that Protocol Buffers' own parsers have. */
const DEPTH_MAX = 100

/** The problem of a value that does not fit the type. */
function problemIn(search: Search, type: DescMessage, json: unknown, path: string): MessageProblem {
  const { registry, depth } = search
  if (depth > DEPTH_MAX) return new MessageProblem(path, 'is nested too deep')
  const inner = { registry, depth: depth + 1 }
  if (type.typeName === 'google.protobuf.Any') return problemInAny(inner, json, path)
  if (hasCustomJsonRepresentation(type)) {
    return new MessageProblem(path, `must be ${FORMS[type.name] ?? `a value of ${type.typeName}`}`)
  }
  if (!isObject(json)) return new MessageProblem(path, `must be an object (${type.typeName})`)
  const fields = new Map<string, DescField>()
  for (const field of type.fields) fields.set(field.name, field).set(field.jsonName, field)
  const entries = Object.entries(json)
  if (entries.length === 0) throw new SchemaProblem(`${type.typeName} cannot be written`)
  const isGood = (parts: typeof entries) =>
    decoded(Object.fromEntries(parts), type, registry) !== undefined
  const [name, value] = firstBad(entries, isGood)
  const where = joined(path, name)
  const field = fields.get(name) ?? registry.getExtension(/^\[(.*)\]$/.exec(name)?.[1] ?? '')
  if (field === undefined) {
    const near = nearNames(
      name,
      type.fields.map(({ jsonName }) => jsonName),
    ).join(', ')
    const fix = near === '' ? 'it has no fields' : `did you mean ${near}?`
    return new MessageProblem(where, `is no field of ${type.typeName}; ${fix}`)
  }
  if (isGood([[name, value]])) {
    const rule = 'cannot be given together with those before it: it is the same field or oneof'
    return new MessageProblem(where, rule)
  }
  return problemInField(inner, field, value, where, (part) => isGood([[name, part]]))
}

/** The first part with which the parts up to it are not good any more. */
function firstBad<T>(parts: T[], isGood: (parts: T[]) => boolean): T {
  let [good, bad] = [0, parts.length]
  while (bad - good > 1) {
    const middle = (good + bad) >> 1
    if (isGood(parts.slice(0, middle))) good = middle
    else bad = middle
  }
  return parts[good] as T
}

function problemInField(
  search: Search,
  field: DescField | DescExtension,
  value: unknown,
  path: string,
  isGood: (value: unknown) => boolean,
): MessageProblem {
  if (field.fieldKind === 'list') {
    if (!Array.isArray(value)) return new MessageProblem(path, 'must be a list')
    const [at, item] = firstBad([...value.entries()], (parts) =>
      isGood(parts.map(([, part]) => part as unknown)),
    )
    return problemInValue(search, field, item, `${path}[${at}]`)
  }
  if (field.fieldKind === 'map') {
    if (!isObject(value)) return new MessageProblem(path, 'must be an object: it is a map')
    const [key, item] = firstBad(Object.entries(value), (parts) =>
      isGood(Object.fromEntries(parts)),
    )
    const where = `${path}[${JSON.stringify(key)}]`
    if (field.scalar === undefined) return problemInValue(search, field, item, where)
    const types = `a key of type ${nameOf(field.mapKey)} and a value of type ${nameOf(field.scalar)}`
    return new MessageProblem(where, `must have ${types}`)
  }
  return problemInValue(search, field, value, path)
}

function problemInValue(
  search: Search,
  field: DescField | DescExtension,
  value: unknown,
  path: string,
): MessageProblem {
  if (value === null) return new MessageProblem(path, 'must not be null')
  if (field.message !== undefined) return problemIn(search, field.message, value, path)
  if (field.enum !== undefined) {
    const names = field.enum.values.map(({ name }) => name)
    const near = nearNames(typeof value === 'string' ? value : '', names).join(', ')
    return new MessageProblem(path, `must be a value of ${field.enum.typeName}, like ${near}`)
  }
  return new MessageProblem(path, `must be of type ${nameOf(field.scalar)}`)
}

function nameOf(scalar: ScalarType): string {
  return ScalarType[scalar].toLowerCase()
}

/** Forms of the well-known types, for messages. */
const FORMS: Readonly<Record<string, string>> = {
  Timestamp: 'a time like "2026-01-31T12:00:00.5Z"',
  Duration: 'a duration like "1.5s"',
  FieldMask: 'field names like "user.displayName,photo"',
  Struct: 'an object',
  ListValue: 'a list',
}

/** `{"@type": "…/package.Message", …its fields}`, or its own form in `value`. */
function problemInAny(search: Search, json: unknown, path: string): MessageProblem {
  if (!isObject(json)) return new MessageProblem(path, 'must be an object with "@type"')
  const { '@type': typeUrl, ...rest } = json
  if (typeof typeUrl !== 'string') return new MessageProblem(joined(path, '@type'), 'is missing')
  const typeName = typeUrl.slice(typeUrl.lastIndexOf('/') + 1)
  const type = search.registry.getMessage(typeName)
  if (type === undefined) {
    const problem = `names a type that is not known: ${typeName}`
    return new MessageProblem(joined(path, '@type'), problem)
  }
  const value = hasCustomJsonRepresentation(type) ? rest['value'] : rest
  return problemIn(search, type, value, path)
}

function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`
}

function isObject(json: unknown): json is Record<string, unknown> {
  return typeof json === 'object' && json !== null && !Array.isArray(json)
}
