// Encodes JSON (ProtoJSON: protobuf.dev/programming-guides/json) to the wire format. A value that does not fit
// its type is refused with its path: a request must not be sent with a field missing.
import { parseExactJson } from '../../../contract/exact-json.ts'
import { nearNames } from '../near-names.ts'
import { isMap } from './decode.ts'
import { WIRE_KINDS, type FieldSchema, type MessageSchema, type Schema } from './schema.ts'
import { integerOf, numberOf } from './numbers.ts'
import { hasOwnForm, isObject, wireForm } from './well-known.ts'
import { DEPTH_MAX, WIRE, WireWriter } from './wire.ts'

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

/** Shared state of one encoding. */
interface Encoding {
  /** For what is put into an Any. */
  schema: Schema
}

/** Encodes the JSON text; an empty one is a message without fields. Throws MessageProblem. */
export function encodeMessage(text: string, message: MessageSchema, schema: Schema): Buffer {
  const writer = new WireWriter()
  writeMessage({ schema }, writer, message, parse(text), '', 0)
  return writer.written
}

function parse(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    return parseExactJson(text)
  } catch (error) {
    throw new MessageProblem('', `the message is not JSON: ${reasonOf(error as Error)}`)
  }
}

/** Without the piece of the text that V8 quotes: it may be part of a secret, which could not be scrubbed. */
function reasonOf({ message }: Error): string {
  return message.replace(/, (?:\.{3})?".*$/s, '')
}

function writeMessage(
  encoding: Encoding,
  writer: WireWriter,
  message: MessageSchema,
  json: unknown,
  path: string,
  depth: number,
): void {
  if (depth > DEPTH_MAX) throw new MessageProblem(path, 'is nested too deep')
  if (message.fullName === 'google.protobuf.Any') {
    writeAny(encoding, writer, json, path, depth)
    return
  }
  const form = wireForm(message.fullName, json)
  if (form !== undefined && 'wanted' in form)
    throw new MessageProblem(path, `must be ${form.wanted}`)
  const fields = form?.fields ?? json
  if (!isObject(fields)) throw new MessageProblem(path, `must be an object (${message.fullName})`)
  // In a well-known form the field names are not the user's.
  const inner = (name: string) => (form === undefined ? joined(path, name) : path)
  const given = new Map<FieldSchema, string>()
  const chosen = new Map<string, string>()
  for (const [name, value] of Object.entries(fields)) {
    const field = fieldOf(message, name, path)
    if (isAbsent(field, value)) continue
    const twice = given.get(field)
    if (twice !== undefined) throw new MessageProblem(inner(name), `is the same field as ${twice}`)
    given.set(field, name)
    if (field.oneof !== undefined) {
      const other = chosen.get(field.oneof)
      const rule = `cannot be given together with ${other}: both are of oneof ${field.oneof}`
      if (other !== undefined) throw new MessageProblem(inner(name), rule)
      chosen.set(field.oneof, name)
    }
    writeField(encoding, writer, field, value, inner(name), depth)
  }
  for (const field of message.fields) {
    if (!field.required || given.has(field)) continue
    throw new MessageProblem(joined(path, field.jsonName), 'is missing, and the type requires it')
  }
}

function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`
}

function fieldOf(message: MessageSchema, name: string, path: string): FieldSchema {
  const field = message.byName.get(name)
  if (field !== undefined) return field
  const near = nearNames(
    name,
    message.fields.map((one) => one.jsonName),
  ).join(', ')
  const fix = near === '' ? 'it has no fields' : `did you mean ${near}?`
  throw new MessageProblem(joined(path, name), `is no field of ${message.fullName}; ${fix}`)
}

/** Null means an unset field, except where null is a value. */
function isAbsent(field: FieldSchema, value: unknown): boolean {
  if (value !== null) return false
  if (field.repeated) return true
  const name = field.message?.fullName ?? field.enum?.fullName
  return name !== 'google.protobuf.Value' && name !== 'google.protobuf.NullValue'
}

function writeField(
  encoding: Encoding,
  writer: WireWriter,
  field: FieldSchema,
  value: unknown,
  path: string,
  depth: number,
): void {
  if (!field.repeated) {
    writeValue(encoding, writer, field, value, path, depth)
    return
  }
  if (isMap(field)) {
    writeMap(encoding, writer, field, value, path, depth)
    return
  }
  if (!Array.isArray(value)) throw new MessageProblem(path, 'must be a list')
  const items = value as unknown[]
  if (!field.packed || items.length === 0) {
    for (const [at, item] of items.entries()) {
      writeValue(encoding, writer, field, item, `${path}[${at}]`, depth)
    }
    return
  }
  const packed = new WireWriter()
  for (const [at, item] of items.entries()) writeScalar(packed, field, item, `${path}[${at}]`)
  writer.tag(field.number, WIRE.bytes)
  writer.bytes(packed.written)
}

function writeMap(
  encoding: Encoding,
  writer: WireWriter,
  field: FieldSchema,
  value: unknown,
  path: string,
  depth: number,
): void {
  if (!isObject(value)) throw new MessageProblem(path, 'must be an object: it is a map')
  const keyField = field.message?.byNumber.get(1) as FieldSchema
  const valueField = field.message?.byNumber.get(2) as FieldSchema
  for (const [key, item] of Object.entries(value)) {
    const where = `${path}[${JSON.stringify(key)}]`
    const entry = new WireWriter()
    writeValue(
      encoding,
      entry,
      keyField,
      keyField.kind === 'bool' ? keyBool(key) : key,
      where,
      depth,
    )
    if (item === null && !isNullable(valueField)) {
      throw new MessageProblem(where, 'must not be null')
    }
    writeValue(encoding, entry, valueField, item, where, depth)
    writer.tag(field.number, WIRE.bytes)
    writer.bytes(entry.written)
  }
}

function isNullable(field: FieldSchema): boolean {
  return !isAbsent(field, null)
}

function keyBool(key: string): unknown {
  return key === 'true' ? true : key === 'false' ? false : key
}

function writeValue(
  encoding: Encoding,
  writer: WireWriter,
  field: FieldSchema,
  value: unknown,
  path: string,
  depth: number,
): void {
  if (field.kind === 'message') {
    const inner = new WireWriter()
    writeMessage(encoding, inner, field.message as MessageSchema, value, path, depth + 1)
    writer.tag(field.number, WIRE.bytes)
    writer.bytes(inner.written)
  } else if (field.kind === 'group') {
    writer.tag(field.number, WIRE.groupStart)
    writeMessage(encoding, writer, field.message as MessageSchema, value, path, depth + 1)
    writer.tag(field.number, WIRE.groupEnd)
  } else {
    writer.tag(field.number, WIRE_KINDS[field.kind])
    writeScalar(writer, field, value, path)
  }
}

type LeafKind = Exclude<FieldSchema['kind'], 'message' | 'group'>

function writeScalar(writer: WireWriter, field: FieldSchema, value: unknown, path: string): void {
  const refuse = (wanted: string): never => {
    throw new MessageProblem(path, `must be ${wanted}`)
  }
  switch (field.kind) {
    case 'string':
      writer.text(typeof value === 'string' ? value : refuse('a text'))
      return
    case 'bytes':
      writer.bytes(base64Of(value) ?? refuse('bytes in base64'))
      return
    case 'bool':
      writer.uint32(typeof value === 'boolean' ? Number(value) : refuse('true or false'))
      return
    case 'enum':
      writer.varint(BigInt(enumNumber(field, value, path)))
      return
    case 'double':
      writer.double(numberOf(value) ?? refuse('a number'))
      return
    case 'float':
      writer.float(numberOf(value, 'float') ?? refuse('a number that a float can hold'))
      return
    case 'message':
    case 'group':
      return
    case 'int32':
    case 'int64':
    case 'uint32':
    case 'uint64':
    case 'sint32':
    case 'sint64':
    case 'fixed32':
    case 'fixed64':
    case 'sfixed32':
    case 'sfixed64':
    default:
      writeInteger(writer, field.kind, integerOf(value, field.kind) ?? refuse(`an ${field.kind}`))
  }
}

function writeInteger(writer: WireWriter, kind: LeafKind, value: bigint): void {
  if (kind === 'sint32' || kind === 'sint64') writer.varint((value << 1n) ^ (value >> 63n))
  else if (WIRE_KINDS[kind] === WIRE.fixed64) writer.fixed64(value)
  else if (WIRE_KINDS[kind] === WIRE.fixed32) writer.fixed32(Number(value))
  else writer.varint(value)
}

/** Standard or URL-safe, with or without padding. */
function base64Of(value: unknown): Buffer | undefined {
  if (typeof value !== 'string') return undefined
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(value)) return undefined
  return Buffer.from(value, 'base64')
}

function enumNumber(field: FieldSchema, value: unknown, path: string): number {
  const numbers = field.enum?.numbers ?? new Map<string, number>()
  if (value === null) return 0
  if (typeof value === 'number' && Number.isInteger(value) && Math.abs(value) < 2 ** 31)
    return value
  const known = typeof value === 'string' ? numbers.get(value) : undefined
  if (known !== undefined) return known
  const wanted = typeof value === 'string' ? value : ''
  const near = nearNames(wanted, numbers.keys()).join(', ')
  throw new MessageProblem(path, `must be a value of ${field.enum?.fullName}, like ${near}`)
}

/** `{"@type": "…/package.Message", …its fields}`, or its own form in `value`. */
function writeAny(
  encoding: Encoding,
  writer: WireWriter,
  json: unknown,
  path: string,
  depth: number,
): void {
  if (!isObject(json)) throw new MessageProblem(path, 'must be an object with "@type"')
  const { '@type': typeUrl, ...rest } = json
  if (typeUrl === undefined && Object.keys(rest).length === 0) return
  if (typeof typeUrl !== 'string') throw new MessageProblem(joined(path, '@type'), 'is missing')
  const fullName = typeUrl.slice(typeUrl.lastIndexOf('/') + 1)
  const inner = encoding.schema.messages.get(fullName)
  if (inner === undefined) {
    throw new MessageProblem(joined(path, '@type'), `names a type that is not known: ${fullName}`)
  }
  const nested = new WireWriter()
  const value = hasOwnForm(fullName) ? rest['value'] : rest
  writeMessage(encoding, nested, inner, value, path, depth + 1)
  writer.tag(1, WIRE.bytes)
  writer.text(typeUrl)
  writer.tag(2, WIRE.bytes)
  writer.bytes(nested.written)
}
