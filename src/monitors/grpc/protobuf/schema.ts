// Message schemas: types of Protocol Buffers as the codec needs them, whether they come from
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

/** Definitions of a set of files. */
export interface Schema {
  messages: Map<string, MessageSchema>
  enums: Map<string, EnumSchema>
  /** Full name → its methods by name. */
  services: Map<string, Map<string, MethodSchema>>
}

/** Unusable types: an undefined name, or an invalid definition. */
export class SchemaProblem extends Error {
  /** Where in a text it is, from 1, when it is known. */
  readonly line: number | undefined

  constructor(message: string, line?: number) {
    super(message)
    this.name = 'SchemaProblem'
    this.line = line
  }
}

/** An empty schema. */
export function emptySchema(): Schema {
  return { messages: new Map(), enums: new Map(), services: new Map() }
}

/** A message type without fields. */
export function emptyMessage(fullName: string, mapEntry = false): MessageSchema {
  return { fullName, fields: [], byNumber: new Map(), byName: new Map(), mapEntry }
}

/** Adds a field; `settle` sorts the fields. */
export function addField(message: MessageSchema, field: FieldSchema): void {
  message.fields.push(field)
  message.byNumber.set(field.number, field)
  // A name of the .proto file must not hide another field's JSON name, which users write.
  if (!message.byName.has(field.name)) message.byName.set(field.name, field)
  message.byName.set(field.jsonName, field)
}

/** Sorts the fields of all messages by number. */
export function settle(schema: Schema): Schema {
  for (const { fields } of schema.messages.values()) fields.sort((a, b) => a.number - b.number)
  return schema
}

/** The name of a field in JSON, unless `json_name` says other: `user_id` becomes `userId`. */
export function jsonNameOf(name: string): string {
  return name.replaceAll(/_+(.?)/g, (_, next: string) => next.toUpperCase())
}

/**
 * Bytes of descriptors and texts whose schemas are cached. A schema needs about ten times as much; one larger
 * than a quarter of the bound is compiled each time.
 */
const CACHED_BYTES_MAX = 4_194_304

/** Compiled schemas by the hash of their source, so that none can be out of date. */
class SchemaCache {
  readonly #cached = new Map<string, { schema: Schema; bytes: number }>()
  #bytes = 0

  /** The schema, which becomes the most recently used one. */
  get(key: string): Schema | undefined {
    const found = this.#cached.get(key)
    if (found === undefined) return undefined
    this.#cached.delete(key)
    this.#cached.set(key, found)
    return found.schema
  }

  /** Caches the schema with the size of its source; evicts the oldest ones. */
  set(key: string, schema: Schema, bytes: number): void {
    if (bytes > CACHED_BYTES_MAX / 4 || this.#cached.has(key)) return
    this.#cached.set(key, { schema, bytes })
    this.#bytes += bytes
    for (const [oldest, { bytes: freed }] of this.#cached) {
      if (this.#bytes <= CACHED_BYTES_MAX) return
      this.#cached.delete(oldest)
      this.#bytes -= freed
    }
  }
}

/** The schemas of this process. */
export const compiledSchemas = new SchemaCache()
