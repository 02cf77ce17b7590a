// Encodes JSON (ProtoJSON: protobuf.dev/programming-guides/json) to the wire format. The library does not say where a
// value does not fit, and quotes it, although it may be a secret: so the place is noted, and the rule is said anew.
import {
  fromJson,
  ScalarType,
  toBinary,
  type DescField,
  type DescMessage,
  type DescOneof,
  type FileRegistry,
  type JsonValue,
} from '@bufbuild/protobuf'
import { isFieldError } from '@bufbuild/protobuf/reflect'
import { parseExactJson } from '../../../contract/exact-json.ts'
import { type TargetFailure, targetFailure } from '../../../network/target-failure.ts'
import type { GrpcCode } from '../definition.ts'
import { nearFix, nearNames } from '../near-names.ts'

/**
 * Encodes the JSON text; an empty one is a message without fields. Throws TargetFailure: GRPC_MESSAGE_INVALID with
 * the path to the value, as in `items[2].price`, or GRPC_SCHEMA_INVALID for types that the library cannot use.
 */
export function encodeMessage(text: string, type: DescMessage, registry: FileRegistry): Uint8Array {
  const message = messageOf(parse(text, type), type, registry)
  try {
    return toBinary(type, message)
  } catch (error) {
    // Of a required field: `cannot encode field p.M.a to binary: …`
    const [, path = ''] = /^cannot encode field \S*?(\w+) to/.exec((error as Error).message) ?? []
    throw invalid(type, path, 'is missing, and the type requires it')
  }
}

/** The problem of the value at `path`; empty for the whole. */
function invalid({ typeName }: DescMessage, path: string, problem: string): TargetFailure {
  const message = path === '' ? problem : `${path}: ${problem}`
  return targetFailure<GrpcCode>('GRPC_MESSAGE_INVALID', message, { path, type: typeName })
}

function parse(text: string, type: DescMessage): unknown {
  if (text.trim() === '') return {}
  try {
    // A long integer that no double holds stays exact as a text, which ProtoJSON allows for numbers.
    return parseExactJson(text, (digits) =>
      BigInt(Number(digits)) === BigInt(digits) ? Number(digits) : digits,
    )
  } catch (error) {
    throw invalid(type, '', `the message is not JSON: ${reasonOf(error as Error)}`)
  }
}

/** Without the piece of the text that V8 quotes: it may be part of a secret, which could not be scrubbed. */
function reasonOf({ message }: Error): string {
  return message.replace(/, (?:\.{3})?".*$/s, '')
}

function messageOf(json: unknown, type: DescMessage, registry: FileRegistry) {
  try {
    return fromJson(type, json as JsonValue, { registry })
  } catch (error) {
    // The library goes through types within types by recursion.
    if (error instanceof RangeError) {
      const message = 'types refer to each other too deeply'
      throw targetFailure<GrpcCode>('GRPC_SCHEMA_INVALID', message)
    }
    throw problemOf(json, type, registry)
  }
}

/** The problem of JSON that does not fit the type. */
function problemOf(json: unknown, type: DescMessage, registry: FileRegistry): TargetFailure {
  let place = ''
  const noted = noting(json, '', (path) => (place = path)) as JsonValue
  try {
    fromJson(type, noted, { registry })
  } catch (error) {
    return invalid(type, place, ruleOf(error as Error, registry))
  }
  return invalid(type, '', 'does not fit the type')
}

/** The same JSON, of which `onRead` gets the path of each value that is read: the last one is that of the error. */
function noting(json: unknown, path: string, onRead: (path: string) => void): unknown {
  if (typeof json !== 'object' || json === null) return json
  const isList = Array.isArray(json)
  return new Proxy(json, {
    get(target, key) {
      const value = Reflect.get(target, key) as unknown
      if (typeof key === 'symbol' || !Object.hasOwn(target, key)) return value
      if (isList && key === 'length') return value
      onRead(pathOf(target, path, key))
      return noting(value, pathOf(target, path, key), onRead)
    },
  })
}

function pathOf(target: object, path: string, key: string): string {
  if (Array.isArray(target)) return `${path}[${key}]`
  // The library copies the fields of an Any before it looks at them.
  if (key !== '@type' && Object.hasOwn(target, '@type')) return path
  return path === '' ? key : `${path}.${key}`
}

/** What is wrong, without the value. */
function ruleOf({ message, cause }: Error, registry: FileRegistry): string {
  if (isFieldError(cause)) return fieldRule(cause.field(), cause.message)
  if (message.includes('recursion')) return 'is nested too deep'
  if (message.includes('"@type"')) return 'has no "@type"'
  if (message.endsWith('type registry')) return 'names an unknown type'
  const [, typeName = ''] = /^cannot decode (?:message |enum )?([\w.]+)/.exec(message) ?? []
  const key = /key "(.*)" is unknown$/s.exec(message)?.[1]
  if (key !== undefined) {
    const names = registry.getMessage(typeName)?.fields.map(({ jsonName }) => jsonName) ?? []
    return `${typeName} has no field ${key}; ${nearFix(key, names, 'it has none').fix}`
  }
  const values = registry.getEnum(typeName)?.values
  if (values === undefined) return `must be ${FORMS[typeName] ?? `an object (${typeName})`}`
  const given = /"(.*)"$/s.exec(message)?.[1] ?? ''
  const names = values.map(({ name }) => name)
  return `must be a value of ${typeName}, like ${nearNames(given, names).join(', ')}`
}

function fieldRule(field: DescField | DescOneof, message: string): string {
  if (field.kind === 'oneof' || message === 'set multiple times') {
    return 'cannot be given together with those before it: it is the same field or oneof'
  }
  const scalar = field.scalar as ScalarType
  const type = field.message?.typeName ?? field.enum?.typeName ?? nameOf(scalar)
  if (field.fieldKind === 'list')
    return `must be a list of ${type}, without null (${String(field)})`
  if (field.fieldKind === 'map') {
    return `must be an object with keys of type ${nameOf(field.mapKey)} and values of ${type} (${String(field)})`
  }
  return `must be of type ${type} (${String(field)})`
}

function nameOf(scalar: ScalarType): string {
  return ScalarType[scalar].toLowerCase()
}

/** Forms of the well-known types, for messages. */
const FORMS: Readonly<Record<string, string>> = {
  'google.protobuf.Timestamp': 'a time like "2026-01-31T12:00:00.5Z"',
  'google.protobuf.Duration': 'a duration like "1.5s"',
  'google.protobuf.FieldMask': 'field names like "user.displayName,photo"',
  'google.protobuf.Struct': 'an object',
  'google.protobuf.ListValue': 'a list',
}
