// From the wire format to JSON values as ProtoJSON spells them (protobuf.dev/programming-guides/json):
// 64-bit numbers as texts, bytes as base64, enums by name, well-known types in their own forms.
import { WIRE_KINDS, type FieldSchema, type MessageSchema, type Schema } from './schema.ts'
import {
  DEPTH_MAX,
  ProtobufMalformed,
  signedText,
  unsignedText,
  WIRE,
  WireReader,
  zigzagText,
} from './wire.ts'
import { hasOwnForm, readableForm, type JsonObject, type JsonValue } from './well-known.ts'

/** A valid answer with more values than the limit. */
export class TooManyValues extends Error {
  constructor(valuesMax: number) {
    super(`the answer has more than ${valuesMax} values`)
    this.name = 'TooManyValues'
  }
}

/** Shared state of one decoding. */
interface Decoding {
  reader: WireReader
  /** For what is in an Any. */
  schema: Schema
  valuesLeft: number
  valuesMax: number
  /** Receives the names of types in an Any that the schema does not define. */
  unknown: Set<string>
}

/** Decodes messages of one answer, which share a bound. */
export interface Decoder {
  /**
   * Decodes a message. Fields without presence are always included, with their default values; others only
   * when set. Unknown fields are skipped. Throws ProtobufMalformed or TooManyValues.
   */
  decode(bytes: Buffer, message: MessageSchema): JsonValue
  /** Names of types in an Any that the schema does not define. */
  unknown: Set<string>
}

/** Makes a decoder. Long names count as several values, since the resulting JSON is bounded. */
export function createDecoder(schema: Schema, valuesMax: number): Decoder {
  const unknown = new Set<string>()
  const decoding: Decoding = {
    reader: new WireReader(Buffer.alloc(0)),
    schema,
    valuesLeft: valuesMax,
    valuesMax,
    unknown,
  }
  return {
    unknown,
    decode(bytes, message) {
      decoding.reader = new WireReader(bytes)
      return readMessage(decoding, message, 0, undefined)
    },
  }
}

interface Values {
  byField: Map<FieldSchema, JsonValue>
  /** Of each oneof the field that was set last. */
  chosen: Map<string, FieldSchema>
}

function spend(decoding: Decoding, values: number): void {
  decoding.valuesLeft -= values
  if (decoding.valuesLeft < 0) throw new TooManyValues(decoding.valuesMax)
}

/** Number of values that a name counts for: the server chooses names and repeats them at will. */
function costOf(name: string): number {
  return 1 + (name.length >> 6)
}

/** Reads to the end of the entered message, or to the tag that ends a group. */
function readMessage(
  decoding: Decoding,
  message: MessageSchema,
  depth: number,
  groupEnd: number | undefined,
): JsonValue {
  const values = readValues(decoding, message, depth, groupEnd)
  if (message.fullName === 'google.protobuf.Any') return readAny(decoding, message, values, depth)
  const json = toObject(decoding, message, values)
  const form = readableForm(message.fullName, json)
  return form === undefined ? json : form
}

function readValues(
  decoding: Decoding,
  message: MessageSchema,
  depth: number,
  groupEnd: number | undefined,
): Values {
  if (depth > DEPTH_MAX) throw new ProtobufMalformed('nested too deep')
  const { reader } = decoding
  const values: Values = { byField: new Map(), chosen: new Map() }
  const isGroup = groupEnd !== undefined
  for (;;) {
    // A group has an end tag, and is truncated without it.
    if (!isGroup && reader.isAtEnd) break
    const tag = reader.tag()
    if (tag === groupEnd) break
    const field = message.byNumber.get(tag >>> 3)
    if (field === undefined) {
      reader.pass(tag)
      continue
    }
    readField(decoding, field, tag, values, depth)
  }
  return values
}

function readField(
  decoding: Decoding,
  field: FieldSchema,
  tag: number,
  values: Values,
  depth: number,
): void {
  const { reader } = decoding
  const kind = tag & 7
  const wanted = WIRE_KINDS[field.kind]
  if (field.repeated) {
    const list = listOf(values, field)
    if (kind === WIRE.bytes && wanted !== WIRE.bytes && wanted !== WIRE.groupStart) {
      readPacked(decoding, field, list)
    } else if (kind === wanted) list.push(readValue(decoding, field, tag, depth))
    else reader.pass(tag)
    return
  }
  if (kind !== wanted) {
    reader.pass(tag)
    return
  }
  if (field.oneof !== undefined) choose(values, field, field.oneof)
  values.byField.set(field, readValue(decoding, field, tag, depth))
}

/** Of a oneof the last received field counts. */
function choose(values: Values, field: FieldSchema, oneof: string): void {
  const before = values.chosen.get(oneof)
  if (before !== undefined) values.byField.delete(before)
  values.chosen.set(oneof, field)
}

function listOf(values: Values, field: FieldSchema): JsonValue[] {
  const known = values.byField.get(field)
  if (known !== undefined) return known as JsonValue[]
  const list: JsonValue[] = []
  values.byField.set(field, list)
  return list
}

function readPacked(decoding: Decoding, field: FieldSchema, list: JsonValue[]): void {
  const { reader } = decoding
  const outer = reader.enter()
  while (!reader.isAtEnd) list.push(readValue(decoding, field, 0, 0))
  reader.leave(outer)
}

function readValue(decoding: Decoding, field: FieldSchema, tag: number, depth: number): JsonValue {
  spend(decoding, 1)
  const { reader } = decoding
  switch (field.kind) {
    case 'message': {
      const outer = reader.enter()
      const value = readMessage(decoding, field.message as MessageSchema, depth + 1, undefined)
      reader.leave(outer)
      return value
    }
    case 'group':
      return readMessage(decoding, field.message as MessageSchema, depth + 1, tag + 1)
    case 'enum':
      return readEnum(decoding, field)
    case 'string':
      return reader.text()
    case 'bytes':
      return reader.bytes().toString('base64')
    case 'bool': {
      const { low, high } = reader.varint()
      return low !== 0 || high !== 0
    }
    case 'double':
      return floating(reader.double())
    case 'float':
      return floating(shortestFloat(reader.float()))
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
      return readInteger(reader, field.kind)
  }
}

type IntegerKind = Exclude<
  FieldSchema['kind'],
  'message' | 'group' | 'enum' | 'string' | 'bytes' | 'bool' | 'double' | 'float'
>

function readInteger(reader: WireReader, kind: IntegerKind): JsonValue {
  switch (kind) {
    case 'int32':
      return reader.int32()
    case 'uint32':
      return reader.varint().low
    case 'sint32': {
      const { low } = reader.varint()
      return (low >>> 1) ^ -(low & 1)
    }
    case 'fixed32':
      return reader.fixed32()
    case 'sfixed32':
      return reader.fixed32() | 0
    case 'int64':
      return signedText(reader.varint())
    case 'uint64':
      return unsignedText(reader.varint())
    case 'sint64':
      return zigzagText(reader.varint())
    case 'fixed64':
      return unsignedText(reader.fixed64())
    case 'sfixed64':
      return signedText(reader.fixed64())
    default:
      throw new ProtobufMalformed(`a field of type ${kind as string}`)
  }
}

function readEnum(decoding: Decoding, field: FieldSchema): JsonValue {
  const value = enumValue(field, decoding.reader.int32())
  if (typeof value === 'string') spend(decoding, costOf(value))
  return value
}

function enumValue(field: FieldSchema, number: number): JsonValue {
  const type = field.enum
  if (type?.fullName === 'google.protobuf.NullValue') return null
  return type?.names.get(number) ?? number
}

/** JSON has no NaN and no infinities; ProtoJSON writes their names. */
function floating(value: number): JsonValue {
  // JSON has no negative zero either; adding zero takes the sign off.
  return Number.isFinite(value) ? value + 0 : String(value)
}

/** The shortest decimal that is the same 32-bit number: 0.1, not 0.10000000149011612. */
function shortestFloat(value: number): number {
  if (Number.isInteger(value) || !Number.isFinite(value)) return value
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return short
  }
  return Number(value.toPrecision(9))
}

function toObject(decoding: Decoding, message: MessageSchema, values: Values): JsonObject {
  // Without a prototype: a field may be called __proto__.
  const object = Object.create(null) as JsonObject
  for (const field of message.fields) {
    spend(decoding, costOf(field.jsonName))
    const value = values.byField.get(field)
    if (value === undefined) {
      const defaultValue = defaultOf(field)
      if (defaultValue !== undefined) object[field.jsonName] = defaultValue
    } else
      object[field.jsonName] = isMap(field) ? mapOf(decoding, field, value as JsonValue[]) : value
  }
  return object
}

/** Whether the field is a map: a list of entries on the wire. */
export function isMap(field: FieldSchema): boolean {
  return field.repeated && field.message?.mapEntry === true
}

function mapOf(decoding: Decoding, field: FieldSchema, entries: JsonValue[]): JsonValue {
  const map = Object.create(null) as JsonObject
  const value = field.message?.byNumber.get(2)
  for (const entry of entries as JsonObject[]) {
    // A message without any field set may be left out of an entry.
    map[entry['key'] as string] = entry['value'] ?? emptyValue(decoding, value)
  }
  return map
}

function emptyValue(decoding: Decoding, value: FieldSchema | undefined): JsonValue {
  if (value?.message === undefined) return null
  const { message } = value
  const reader = new WireReader(Buffer.alloc(0))
  const inner = { ...decoding, reader }
  const json = readMessage(inner, message, 0, undefined)
  decoding.valuesLeft = inner.valuesLeft
  return json
}

/** Shown value of a field that is not on the wire; undefined for none. */
function defaultOf(field: FieldSchema): JsonValue | undefined {
  if (field.repeated) return isMap(field) ? (Object.create(null) as JsonObject) : []
  if (field.presence) return undefined
  switch (field.kind) {
    case 'message':
    case 'group':
      return undefined
    case 'enum':
      return enumValue(field, 0)
    case 'string':
    case 'bytes':
      return ''
    case 'bool':
      return false
    case 'int64':
    case 'uint64':
    case 'sint64':
    case 'fixed64':
    case 'sfixed64':
      return '0'
    case 'int32':
    case 'uint32':
    case 'sint32':
    case 'fixed32':
    case 'sfixed32':
    case 'double':
    case 'float':
    default:
      return 0
  }
}

/** An Any of a known type shows its message; another one its bytes, as base64. */
function readAny(
  decoding: Decoding,
  message: MessageSchema,
  values: Values,
  depth: number,
): JsonValue {
  const any = toObject(decoding, message, values)
  const typeUrl = any['typeUrl'] ?? ''
  const value = any['value'] ?? ''
  if (typeof typeUrl !== 'string' || typeof value !== 'string') return any
  const fullName = typeUrl.slice(typeUrl.lastIndexOf('/') + 1)
  const inner = decoding.schema.messages.get(fullName)
  if (inner === undefined) {
    if (/^[\w.]{1,500}$/.test(fullName)) decoding.unknown.add(fullName)
    return typeUrl === '' ? {} : { '@type': typeUrl, value }
  }
  const reader = new WireReader(Buffer.from(value, 'base64'))
  const nested = { ...decoding, reader }
  const json = readMessage(nested, inner, depth + 1, undefined)
  decoding.valuesLeft = nested.valuesLeft
  const isPlain = typeof json === 'object' && json !== null && !Array.isArray(json)
  if (isPlain && !hasOwnForm(fullName)) return { '@type': typeUrl, ...json }
  return { '@type': typeUrl, value: json }
}
