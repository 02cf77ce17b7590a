// What a message looks like: types of Protocol Buffers as the codec needs them, whether they come from
// descriptors (reflection) or from the text of a .proto file. Plain data; no code is made from them.
import { WIRE } from './wire.ts'

/** Types of fields that are no message and no enum. */
export type ScalarKind =
  | 'double'
  | 'float'
  | 'int64'
  | 'uint64'
  | 'int32'
  | 'fixed64'
  | 'fixed32'
  | 'bool'
  | 'string'
  | 'bytes'
  | 'uint32'
  | 'sfixed32'
  | 'sfixed64'
  | 'sint32'
  | 'sint64'
export type FieldKind = ScalarKind | 'message' | 'group' | 'enum'

/** How each type is written on the wire when it is not packed. */
export const WIRE_KINDS: Record<FieldKind, number> = {
  double: WIRE.fixed64,
  float: WIRE.fixed32,
  int64: WIRE.varint,
  uint64: WIRE.varint,
  int32: WIRE.varint,
  fixed64: WIRE.fixed64,
  fixed32: WIRE.fixed32,
  bool: WIRE.varint,
  string: WIRE.bytes,
  bytes: WIRE.bytes,
  uint32: WIRE.varint,
  sfixed32: WIRE.fixed32,
  sfixed64: WIRE.fixed64,
  sint32: WIRE.varint,
  sint64: WIRE.varint,
  message: WIRE.bytes,
  group: WIRE.groupStart,
  enum: WIRE.varint,
}

/** One field of a message. */
export interface FieldSchema {
  number: number
  /** As the .proto file spells it. */
  name: string
  /** Its name in JSON; `[package.name]` for an extension. */
  jsonName: string
  kind: FieldKind
  repeated: boolean
  /** How a list of numbers is written; both ways are read. */
  packed: boolean
  /** Whether "not set" differs from the default value. */
  presence: boolean
  required: boolean
  /** The oneof that it belongs to. */
  oneof?: string | undefined
  /** Set with kind `message` and `group`. */
  message?: MessageSchema | undefined
  /** Set with kind `enum`. */
  enum?: EnumSchema | undefined
}

/** A message type. */
export interface MessageSchema {
  /** With its package, without a leading dot. */
  fullName: string
  /** By number, ascending. */
  fields: FieldSchema[]
  byNumber: Map<number, FieldSchema>
  /** By JSON name and by the name of the .proto file. */
  byName: Map<string, FieldSchema>
  /** An entry of a map: field 1 is the key, 2 the value. */
  mapEntry: boolean
}

/** An enum type. */
export interface EnumSchema {
  fullName: string
  /** Number → name; of several names for one number, the first. */
  names: Map<number, string>
  numbers: Map<string, number>
}

/** A method of a service. */
export interface MethodSchema {
  name: string
  /** `/package.Service/Method`, the path of the call. */
  path: string
  input: MessageSchema
  output: MessageSchema
  clientStreaming: boolean
  serverStreaming: boolean
}

/** Everything that a set of files defines. */
export interface Schema {
  messages: Map<string, MessageSchema>
  enums: Map<string, EnumSchema>
  /** Full name → its methods by name. */
  services: Map<string, Map<string, MethodSchema>>
}

/** Types that cannot be used: a name that nobody defines, or a definition that makes no sense. */
export class SchemaProblem extends Error {
  /** Where in a text it is, from 1, when it is known. */
  readonly line: number | undefined

  constructor(message: string, line?: number) {
    super(message)
    this.name = 'SchemaProblem'
    this.line = line
  }
}

/** A schema without anything in it. */
export function emptySchema(): Schema {
  return { messages: new Map(), enums: new Map(), services: new Map() }
}

/** A message type without fields. */
export function emptyMessage(fullName: string, mapEntry = false): MessageSchema {
  return { fullName, fields: [], byNumber: new Map(), byName: new Map(), mapEntry }
}

/** Adds a field; its place among the others is found by `settle`. */
export function addField(message: MessageSchema, field: FieldSchema): void {
  message.fields.push(field)
  message.byNumber.set(field.number, field)
  // A name of the .proto file must not hide another field's JSON name, which is what people write.
  if (!message.byName.has(field.name)) message.byName.set(field.name, field)
  message.byName.set(field.jsonName, field)
}

/** Brings the fields of all messages into the order of their numbers. */
export function settle(schema: Schema): Schema {
  for (const { fields } of schema.messages.values()) fields.sort((a, b) => a.number - b.number)
  return schema
}

/** The name of a field in JSON, unless `json_name` says other: `user_id` becomes `userId`. */
export function jsonNameOf(name: string): string {
  return name.replaceAll(/_+(.?)/g, (_, next: string) => next.toUpperCase())
}

/**
 * Bytes of descriptors and texts whose schemas are kept. A schema takes about ten times as much; what is
 * larger than a quarter of all is compiled anew each time.
 */
const KEPT_BYTES_MAX = 4_194_304

/** Compiled schemas by the hash of what they were made of, so that none can be out of date. */
class SchemaKeep {
  readonly #kept = new Map<string, { schema: Schema; bytes: number }>()
  #bytes = 0

  /** The schema, which becomes the most recently used one. */
  get(key: string): Schema | undefined {
    const found = this.#kept.get(key)
    if (found === undefined) return undefined
    this.#kept.delete(key)
    this.#kept.set(key, found)
    return found.schema
  }

  /** Keeps the schema, which was made of so many bytes, and forgets the oldest ones to make room. */
  set(key: string, schema: Schema, bytes: number): void {
    if (bytes > KEPT_BYTES_MAX / 4 || this.#kept.has(key)) return
    this.#kept.set(key, { schema, bytes })
    this.#bytes += bytes
    for (const [oldest, { bytes: freed }] of this.#kept) {
      if (this.#bytes <= KEPT_BYTES_MAX) return
      this.#kept.delete(oldest)
      this.#bytes -= freed
    }
  }
}

/** The schemas of this process. */
export const compiledSchemas = new SchemaKeep()
