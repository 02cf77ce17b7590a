// From the wire format to JSON values as ProtoJSON spells them (protobuf.dev/programming-guides/json): 64-bit
// numbers as texts, bytes as base64, enums by name, well-known types in their own forms. Not by the library's
// fromBinary and toJson: they have no bound on the number of values, refuse an Any of an unknown type, and print a
// float 0.1 as 0.10000000149011612.
import {
  create,
  ScalarType,
  toJson,
  type DescEnum,
  type DescExtension,
  type DescField,
  type DescMessage,
  type FileRegistry,
} from '@bufbuild/protobuf'
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import {
  DurationSchema,
  FeatureSet_FieldPresence,
  FieldMaskSchema,
  hasCustomJsonRepresentation,
  isWrapperDesc,
  TimestampSchema,
} from '@bufbuild/protobuf/wkt'
import { type TargetFailure, targetFailure } from '../../../network/target-failure.ts'
import { GRPC_LIMITS, type GrpcCode } from '../definition.ts'
import { readUntrusted } from './wire.ts'

/** A value as JSON has it. */
type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject
interface JsonObject {
  [name: string]: JsonValue
}

type Field = DescField | DescExtension
type Values = Map<Field, JsonValue>

/** Messages within messages; the bound that Protocol Buffers' own parsers have. */
const DEPTH_MAX = 100
const NOTHING = new Uint8Array()

/** Decodes the messages of one answer, which share a bound: long names count as several values. */
export class Decoder {
  /** Names of types in an Any that the registry does not have. */
  readonly unknown = new Set<string>()
  /** For extensions, and for what is in an Any. */
  readonly #registry: FileRegistry
  #valuesLeft = GRPC_LIMITS.grpcValuesMax as number

  constructor(registry: FileRegistry) {
    this.#registry = registry
  }

  /**
   * Decodes a message. Fields without presence are always included, with their default values; others only
   * when set. Unknown fields are skipped. Throws TargetFailure: GRPC_MALFORMED, GRPC_MESSAGE_TOO_LARGE.
   */
  decode(bytes: Uint8Array, type: DescMessage): JsonValue {
    return readUntrusted(
      () => this.#readMessage(new BinaryReader(bytes), type, 0),
      (why) => malformedMessage(type.typeName, why),
    )
  }

  #spend(values: number): void {
    this.#valuesLeft -= values
    if (this.#valuesLeft >= 0) return
    const message = `the answer has more than ${GRPC_LIMITS.grpcValuesMax} values`
    throw targetFailure<GrpcCode>('GRPC_MESSAGE_TOO_LARGE', message)
  }

  /** Reads to the end of the reader, or to the tag that ends a group. */
  #readMessage(reader: BinaryReader, type: DescMessage, depth: number, group?: number): JsonValue {
    if (depth > DEPTH_MAX) throw new Error('nested too deep')
    const layout = layoutOf(type)
    const values: Values = new Map()
    /** Of each oneof the field that was set last. */
    const chosen = new Map<unknown, Field>()
    for (;;) {
      // A group has an end tag, and is truncated without it.
      if (group === undefined && reader.pos >= reader.len) break
      const [number, wireType] = reader.tag()
      if (wireType === WireType.EndGroup && number === group) break
      const field = layout.get(number) ?? this.#registry.getExtensionFor(type, number)
      if (field === undefined || !accepts(field, wireType)) {
        reader.skip(wireType, number, DEPTH_MAX - depth)
        continue
      }
      if (field.oneof !== undefined) {
        const before = chosen.get(field.oneof)
        if (before !== undefined) values.delete(before)
        chosen.set(field.oneof, field)
      }
      this.#readField(reader, field, wireType, values, depth)
    }
    const json = this.#toObject(layout, values)
    if (type.typeName === 'google.protobuf.Any') return this.#readAny(json, depth)
    const form = ownForm(type, json)
    return form === undefined ? json : form
  }

  #readField(
    reader: BinaryReader,
    field: Field,
    wireType: WireType,
    values: Values,
    depth: number,
  ): void {
    if (field.fieldKind === 'map') {
      const map = (values.get(field) ?? Object.create(null)) as JsonObject
      values.set(field, map)
      this.#readEntry(new BinaryReader(reader.bytes()), field, map, depth)
      return
    }
    const group = wireType === WireType.StartGroup ? field.number : undefined
    if (field.fieldKind !== 'list') {
      values.set(field, this.#readValue(reader, field, depth, group))
      return
    }
    const list = (values.get(field) ?? []) as JsonValue[]
    values.set(field, list)
    if (wireType === wireTypeOf(field)) {
      list.push(this.#readValue(reader, field, depth, group))
      return
    }
    const packed = new BinaryReader(reader.bytes())
    while (packed.pos < packed.len) list.push(this.#readValue(packed, field, depth))
  }

  #readEntry(
    reader: BinaryReader,
    field: Field & { fieldKind: 'map' },
    map: JsonObject,
    depth: number,
  ): void {
    this.#spend(1)
    const keyType = SCALARS[field.mapKey]
    let key = keyType.zero
    let value: JsonValue | undefined
    while (reader.pos < reader.len) {
      const [number, wireType] = reader.tag()
      if (number === 1 && wireType === keyType.wireType) key = keyType.read(reader)
      else if (number === 2 && wireType === wireTypeOf(field)) {
        value = this.#readValue(reader, field, depth)
      } else reader.skip(wireType, number, DEPTH_MAX - depth)
    }
    value ??=
      field.message === undefined
        ? zeroOf(field)
        : this.#readMessage(new BinaryReader(NOTHING), field.message, depth + 1)
    map[key as string] = value
  }

  #readValue(reader: BinaryReader, field: Field, depth: number, group?: number): JsonValue {
    this.#spend(1)
    if (field.message !== undefined) {
      const inner = group === undefined ? new BinaryReader(reader.bytes()) : reader
      return this.#readMessage(inner, field.message, depth + 1, group)
    }
    if (field.scalar !== undefined) return SCALARS[field.scalar].read(reader)
    const value = enumValue(field.enum, reader.int32())
    if (typeof value === 'string') this.#spend(costOf(value))
    return value
  }

  #toObject(layout: ReadonlyMap<number, DescField>, values: Values): JsonObject {
    // Without a prototype: a field may be called __proto__.
    const object = Object.create(null) as JsonObject
    for (const field of layout.values()) {
      this.#spend(costOf(field.jsonName))
      const value = values.has(field) ? values.get(field) : defaultOf(field)
      if (value !== undefined) object[field.jsonName] = value
    }
    for (const [field, value] of values) {
      if (field.kind !== 'extension') continue
      this.#spend(costOf(field.jsonName))
      object[field.jsonName] = value
    }
    return object
  }

  /** An Any of a known type shows its message; another one its bytes, as base64. */
  #readAny(any: JsonObject, depth: number): JsonValue {
    const typeUrl = any['typeUrl'] ?? ''
    const value = any['value'] ?? ''
    if (typeof typeUrl !== 'string' || typeof value !== 'string') return any
    const typeName = typeUrl.slice(typeUrl.lastIndexOf('/') + 1)
    const type = this.#registry.getMessage(typeName)
    if (type === undefined) {
      if (/^[\w.]{1,500}$/.test(typeName)) this.unknown.add(typeName)
      return typeUrl === '' ? {} : { '@type': typeUrl, value }
    }
    const reader = new BinaryReader(Buffer.from(value, 'base64'))
    const json = this.#readMessage(reader, type, depth + 1)
    const isPlain = typeof json === 'object' && json !== null && !Array.isArray(json)
    const hasOwnForm = typeName === 'google.protobuf.Empty' || hasCustomJsonRepresentation(type)
    return isPlain && !hasOwnForm
      ? { '@type': typeUrl, ...json }
      : { '@type': typeUrl, value: json }
  }
}

/** Bytes of an answer that are not of this type. */
export function malformedMessage(typeName: string, why: string): TargetFailure {
  return targetFailure<GrpcCode>(
    'GRPC_MALFORMED',
    `a message of the answer is not a ${typeName}: ${why}`,
  )
}

/** Number of values that a name counts for: the server chooses names and repeats them at will. */
function costOf(name: string): number {
  return 1 + (name.length >> 6)
}

/** Fields of a type by number, ascending. */
const layouts = new WeakMap<DescMessage, ReadonlyMap<number, DescField>>()

function layoutOf(type: DescMessage): ReadonlyMap<number, DescField> {
  const known = layouts.get(type)
  if (known !== undefined) return known
  const sorted = type.fields.toSorted((a, b) => a.number - b.number)
  const layout = new Map(sorted.map((field) => [field.number, field]))
  layouts.set(type, layout)
  return layout
}

/** A list of numbers may be packed or not, whatever its definition. */
function accepts(field: Field, wireType: WireType): boolean {
  if (field.fieldKind === 'map') return wireType === WireType.LengthDelimited
  const wanted = wireTypeOf(field)
  if (wireType === wanted) return true
  const canBePacked = wanted !== WireType.LengthDelimited && wanted !== WireType.StartGroup
  return field.fieldKind === 'list' && canBePacked && wireType === WireType.LengthDelimited
}

/** Wire type of one value. */
function wireTypeOf(field: Field): WireType {
  if (field.message === undefined) {
    return field.scalar === undefined ? WireType.Varint : SCALARS[field.scalar].wireType
  }
  const isGroup = field.fieldKind !== 'map' && field.delimitedEncoding
  return isGroup ? WireType.StartGroup : WireType.LengthDelimited
}

function enumValue(type: DescEnum | undefined, number: number): JsonValue {
  if (type?.typeName === 'google.protobuf.NullValue') return null
  return type?.value[number]?.jsonName ?? number
}

interface Scalar {
  wireType: WireType
  read: (reader: BinaryReader) => JsonValue
  zero: JsonValue
}

const { Varint, Bit32, Bit64, LengthDelimited } = WireType

function numeric(wireType: WireType, read: Scalar['read']): Scalar {
  return { wireType, read, zero: 0 }
}

function long(wireType: WireType, read: (reader: BinaryReader) => unknown): Scalar {
  return { wireType, read: (reader) => String(read(reader)), zero: '0' }
}

const SCALARS: Readonly<Record<ScalarType, Scalar>> = {
  [ScalarType.DOUBLE]: numeric(Bit64, (reader) => floating(reader.double())),
  [ScalarType.FLOAT]: numeric(Bit32, (reader) => floating(shortestFloat(reader.float()))),
  [ScalarType.INT32]: numeric(Varint, (reader) => reader.int32()),
  [ScalarType.UINT32]: numeric(Varint, (reader) => reader.uint32()),
  [ScalarType.SINT32]: numeric(Varint, (reader) => reader.sint32()),
  [ScalarType.FIXED32]: numeric(Bit32, (reader) => reader.fixed32()),
  [ScalarType.SFIXED32]: numeric(Bit32, (reader) => reader.sfixed32()),
  [ScalarType.INT64]: long(Varint, (reader) => reader.int64()),
  [ScalarType.UINT64]: long(Varint, (reader) => reader.uint64()),
  [ScalarType.SINT64]: long(Varint, (reader) => reader.sint64()),
  [ScalarType.FIXED64]: long(Bit64, (reader) => reader.fixed64()),
  [ScalarType.SFIXED64]: long(Bit64, (reader) => reader.sfixed64()),
  [ScalarType.BOOL]: { wireType: Varint, read: (reader) => reader.bool(), zero: false },
  [ScalarType.STRING]: { wireType: LengthDelimited, read: (reader) => reader.string(), zero: '' },
  [ScalarType.BYTES]: { wireType: LengthDelimited, read: base64, zero: '' },
}

function base64(reader: BinaryReader): string {
  const { buffer, byteOffset, length } = reader.bytes()
  return Buffer.from(buffer, byteOffset, length).toString('base64')
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

/** Shown value of a field that is not on the wire; undefined for none. */
function defaultOf(field: DescField): JsonValue | undefined {
  if (field.fieldKind === 'list') return []
  if (field.fieldKind === 'map') return Object.create(null) as JsonObject
  return field.presence === FeatureSet_FieldPresence.IMPLICIT ? zeroOf(field) : undefined
}

function zeroOf(field: Field): JsonValue {
  return field.scalar === undefined ? enumValue(field.enum, 0) : SCALARS[field.scalar].zero
}

/** The form of a well-known type; undefined for other types, and for fields that make no sense. */
function ownForm(type: DescMessage, fields: JsonObject): JsonValue | undefined {
  if (isWrapperDesc(type)) return fields['value']
  const { seconds, nanos, paths } = fields as { seconds: string; nanos: number; paths: string[] }
  const time = () => ({ seconds: BigInt(seconds), nanos })
  try {
    switch (type.typeName) {
      case 'google.protobuf.Struct':
        return fields['fields']
      case 'google.protobuf.ListValue':
        return fields['values']
      case 'google.protobuf.Value':
        return Object.values(fields)[0] ?? null
      case 'google.protobuf.Timestamp':
        return toJson(TimestampSchema, create(TimestampSchema, time()))
      case 'google.protobuf.Duration':
        return toJson(DurationSchema, create(DurationSchema, time()))
      case 'google.protobuf.FieldMask':
        return toJson(FieldMaskSchema, create(FieldMaskSchema, { paths }))
      default:
        return undefined
    }
  } catch {
    return undefined
  }
}
