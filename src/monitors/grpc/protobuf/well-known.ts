// The forms that ProtoJSON gives the well-known types (protobuf.dev/programming-guides/json): a Timestamp is
// a text, a Struct an object. From the fields as they stand on the wire, and back.

/** A value as JSON has it. */
export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject
export interface JsonObject {
  [name: string]: JsonValue
}

interface Form {
  /** Undefined when the fields are not what they should be: then they are shown as they are. */
  readable(fields: JsonObject): JsonValue | undefined
  /** Undefined when the value has not the form. */
  fields(json: unknown): Record<string, unknown> | undefined
  /** Description of the form, for messages. */
  wanted: string
}

const SECONDS_MIN = -62_135_596_800n
const SECONDS_MAX = 253_402_300_799n
const DURATION_SECONDS_MAX = 315_576_000_000n

const timestamp: Form = {
  wanted: 'a time like "2026-01-31T12:00:00.5Z"',
  readable({ seconds, nanos }) {
    const whole = integer(seconds)
    if (whole === undefined || typeof nanos !== 'number') return undefined
    if (whole < SECONDS_MIN || whole > SECONDS_MAX || nanos < 0) return undefined
    const date = new Date(Number(whole) * 1000).toISOString().slice(0, 19)
    return `${date}${fraction(nanos)}Z`
  },
  fields(json) {
    if (typeof json !== 'string') return undefined
    const parts = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[-+]\d\d:\d\d)$/i.exec(json)
    if (parts === null) return undefined
    const ms = Date.parse(`${parts[1]}${(parts[3] as string).toUpperCase()}`)
    if (Number.isNaN(ms)) return undefined
    const seconds = BigInt(ms / 1000)
    if (seconds < SECONDS_MIN || seconds > SECONDS_MAX) return undefined
    return { seconds: String(seconds), nanos: nanosOf(parts[2]) }
  },
}

const duration: Form = {
  wanted: 'a duration like "1.5s"',
  readable({ seconds, nanos }) {
    const whole = integer(seconds)
    if (whole === undefined || typeof nanos !== 'number') return undefined
    const sign = whole < 0n || nanos < 0 ? '-' : ''
    const size = whole < 0n ? -whole : whole
    return `${sign}${size}${fraction(Math.abs(nanos))}s`
  },
  fields(json) {
    if (typeof json !== 'string') return undefined
    const parts = /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$/.exec(json)
    if (parts === null) return undefined
    const size = BigInt(parts[2] as string)
    if (size > DURATION_SECONDS_MAX) return undefined
    const nanos = nanosOf(parts[3])
    const negative = parts[1] === '-'
    return { seconds: String(negative ? -size : size), nanos: negative ? -nanos : nanos }
  },
}

const fieldMask: Form = {
  wanted: 'field names like "user.displayName,photo"',
  readable({ paths }) {
    if (!Array.isArray(paths)) return undefined
    return paths.map((path) => camel(path as string)).join(',')
  },
  fields(json) {
    if (typeof json !== 'string') return undefined
    return { paths: json === '' ? [] : json.split(',').map(snake) }
  },
}

const struct: Form = {
  wanted: 'an object',
  readable: ({ fields }) => fields,
  fields: (json) => (isObject(json) ? { fields: json } : undefined),
}

const listValue: Form = {
  wanted: 'a list',
  readable: ({ values }) => values,
  fields: (json) => (Array.isArray(json) ? { values: json } : undefined),
}

const value: Form = {
  wanted: 'any JSON',
  readable(fields) {
    const [name] = Object.keys(fields)
    return name === undefined ? null : fields[name]
  },
  fields(json) {
    if (json === null) return { nullValue: 0 }
    if (typeof json === 'number' || typeof json === 'bigint') return { numberValue: Number(json) }
    if (typeof json === 'string') return { stringValue: json }
    if (typeof json === 'boolean') return { boolValue: json }
    return Array.isArray(json) ? { listValue: json } : { structValue: json }
  },
}

const wrapper: Form = {
  wanted: 'the bare value',
  readable: (fields) => fields['value'],
  fields: (json) => ({ value: json }),
}

const FORMS: ReadonlyMap<string, Form> = new Map(
  Object.entries({
    Timestamp: timestamp,
    Duration: duration,
    FieldMask: fieldMask,
    Struct: struct,
    ListValue: listValue,
    Value: value,
    DoubleValue: wrapper,
    FloatValue: wrapper,
    Int64Value: wrapper,
    UInt64Value: wrapper,
    Int32Value: wrapper,
    UInt32Value: wrapper,
    BoolValue: wrapper,
    StringValue: wrapper,
    BytesValue: wrapper,
  }).map(([name, form]) => [`google.protobuf.${name}`, form]),
)

/** The form of a well-known type; undefined for other types, and for fields that make no sense. */
export function readableForm(fullName: string, fields: JsonObject): JsonValue | undefined {
  return FORMS.get(fullName)?.readable(fields)
}

/** The fields that a value in the form of a well-known type stands for. */
export type WireForm = { fields: Record<string, unknown> } | { wanted: string }

/** The fields of a well-known type, or what its form is; undefined for other types. */
export function wireForm(fullName: string, json: unknown): WireForm | undefined {
  const form = FORMS.get(fullName)
  if (form === undefined) return undefined
  const fields = form.fields(json)
  return fields === undefined ? { wanted: form.wanted } : { fields }
}

/** Whether, in an Any, the value of this type stands in a field `value` of its own. */
export function hasOwnForm(fullName: string): boolean {
  return FORMS.has(fullName) || OTHERS.has(fullName)
}

const OTHERS: ReadonlySet<string> = new Set(['google.protobuf.Any', 'google.protobuf.Empty'])

/** Whether the value is an object of named fields. */
export function isObject(json: unknown): json is Record<string, unknown> {
  return typeof json === 'object' && json !== null && !Array.isArray(json)
}

function integer(seconds: JsonValue | undefined): bigint | undefined {
  return typeof seconds === 'string' && /^-?\d+$/.test(seconds) ? BigInt(seconds) : undefined
}

/** Nothing, or 3, 6 or 9 digits. */
function fraction(nanos: number): string {
  if (nanos === 0) return ''
  return `.${String(nanos).padStart(9, '0')}`.replace(/(?:000){1,2}$/, '')
}

function nanosOf(digits: string | undefined): number {
  return digits === undefined ? 0 : Number(digits.padEnd(9, '0'))
}

function camel(path: string): string {
  return path.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

function snake(path: string): string {
  return path.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
