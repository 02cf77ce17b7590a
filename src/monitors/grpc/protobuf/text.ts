// Compiles the text of a .proto file to a registry. The parser, protobufjs, is loaded when the first monitor
// needs it. Not by its `toDescriptor`, which gives relative names of types and knows no edition but 2023.
import { create, type FileRegistry, type MessageInitShape } from '@bufbuild/protobuf'
import {
  type DescriptorProtoSchema,
  FeatureSet_FieldPresence as Presence,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FileDescriptorProtoSchema,
  type FileDescriptorProto,
} from '@bufbuild/protobuf/wkt'
import type * as Protobuf from 'protobufjs'
import { type TargetFailure, targetFailure } from '../../../network/target-failure.ts'
import type { GrpcCode } from '../definition.ts'
import { cachedRegistry, registryOf } from './registry.ts'
import { readUntrusted } from './wire.ts'

type Parser = typeof Protobuf

/** The types of a text. Rejects with TargetFailure (GRPC_PROTO_INVALID) when it does not parse or lacks types. */
export function registryOfText(text: string): Promise<FileRegistry> {
  return cachedRegistry('text', [Buffer.from(text)], async () => {
    const { default: parser } = (await import('protobufjs')) as unknown as { default: Parser }
    return compile(parser, text)
  })
}

function compile(parser: Parser, text: string): FileRegistry {
  const root = new parser.Root()
  let unknownImports: string[]
  try {
    const parsed = parser.parse(text, root, { keepCase: true })
    unknownImports = addImports(parser, root, [
      ...(parsed.imports ?? []),
      ...(parsed.weakImports ?? []),
    ])
  } catch (error) {
    throw parseProblem(error as Error, text)
  }
  try {
    root.resolveAll()
  } catch (error) {
    throw invalid(undefinedName(error as Error, unknownImports))
  }
  return readUntrusted(() => registryOf(filesOf(parser, root)), invalid)
}

/** `line` counts from 1. */
function invalid(why: string, line?: number): TargetFailure {
  const where = line === undefined ? '' : ` (line ${line})`
  const details = line === undefined ? {} : { line }
  return targetFailure<GrpcCode>('GRPC_PROTO_INVALID', `the proto text: ${why}${where}`, details)
}

/** Adds the well-known files; gives the others, which matter only when something of them is used. */
function addImports(parser: Parser, root: Protobuf.Root, files: readonly string[]): string[] {
  const unknown: string[] = []
  for (const file of new Set(files)) {
    const known = parser.common.get(file)
    if (known?.nested === undefined) unknown.push(file)
    else root.addJSON(known.nested)
  }
  return unknown
}

function parseProblem(error: Error, text: string): TargetFailure {
  const message = error.message.replace(/ \((?:[^()]*, )?line \d+\)$/, '')
  // The parser names null, or trips over what is not there, when the text ends within something.
  if (error instanceof TypeError || /^illegal [\w ]+ 'null'/.test(message)) {
    return invalid('unexpected end', text.trimEnd().split('\n').length)
  }
  const line = /line (\d+)\)$/.exec(error.message)?.[1]
  return invalid(message, line === undefined ? undefined : Number(line))
}

function undefinedName(error: Error, unknownImports: readonly string[]): string {
  const name = /no such (?:Type or Enum|type|enum)[^:']*(?:: |')([\w.]+)/i.exec(error.message)?.[1]
  if (name === undefined) return error.message
  const missing =
    unknownImports.length === 0
      ? ''
      : `; of the imports only google/protobuf/… is known here, not ${unknownImports.join(', ')}: put their text in`
  return `the type ${name} is not defined${missing}`
}

/** One file for each package. */
function filesOf(parser: Parser, root: Protobuf.Root): FileDescriptorProto[] {
  const files: FileDescriptorProto[] = []
  const waiting: Protobuf.NamespaceBase[] = [root]
  for (let space = waiting.pop(); space !== undefined; space = waiting.pop()) {
    const { nestedArray: nested } = space
    const file = create(FileDescriptorProtoSchema, {
      name: space.fullName,
      package: space.fullName.slice(1),
      syntax: 'proto3',
      service: nested.filter((one) => one instanceof parser.Service).map(serviceOf),
      ...partsOf(parser, nested),
    })
    files.push(file)
    const isPackage = (one: Protobuf.ReflectionObject) =>
      one instanceof parser.Namespace &&
      !(one instanceof parser.Type || one instanceof parser.Service)
    waiting.push(...(nested.filter(isPackage) as Protobuf.Namespace[]))
  }
  return files
}

function partsOf(parser: Parser, nested: readonly Protobuf.ReflectionObject[]) {
  return {
    messageType: nested
      .filter((one) => one instanceof parser.Type)
      .map((type) => messageOf(parser, type)),
    enumType: nested.filter((one) => one instanceof parser.Enum).map(enumOf),
    extension: nested
      .filter((one) => one instanceof parser.Field)
      .map((field) => ({ ...fieldOf(parser, field), extendee: extendeeOf(field) })),
  }
}

function extendeeOf({ extensionField }: Protobuf.Field): string {
  return extensionField?.parent?.fullName ?? ''
}

function messageOf(
  parser: Parser,
  type: Protobuf.Type,
): MessageInitShape<typeof DescriptorProtoSchema> {
  const { messageType, ...parts } = partsOf(parser, type.nestedArray)
  // Of fields, those of other types that extend this one are left out.
  const fields = type.fieldsArray.filter((field) => !field.declaringField)
  const maps = fields.filter((field) => field.map)
  return {
    name: type.name,
    ...parts,
    nestedType: [...messageType, ...maps.map((field) => entryOf(parser, field))],
    oneofDecl: type.oneofsArray.map(({ name }) => ({ name })),
    field: fields.map((field) => ({ ...fieldOf(parser, field), ...partOf(field, type) })),
  }
}

function partOf({ partOf: oneof, options }: Protobuf.Field, type: Protobuf.Type) {
  // An optional field of proto3 is alone in a oneof of the parser's.
  const proto3Optional = options?.['proto3_optional'] === true
  if (oneof === null || proto3Optional) return { proto3Optional }
  return { oneofIndex: type.oneofsArray.indexOf(oneof) }
}

/** Names of map entries, which no type of a text can have. */
const entryName = ({ id }: Protobuf.Field) => `${id}_entry`

function entryOf(parser: Parser, field: Protobuf.Field) {
  const { keyType } = field as unknown as Protobuf.MapField
  const key = { name: 'key', number: 1, label: Label.OPTIONAL, type: scalarOf(keyType) }
  const value = { name: 'value', number: 2, label: Label.OPTIONAL, ...typeOf(parser, field) }
  return { name: entryName(field), field: [key, value], options: { mapEntry: true } }
}

function scalarOf(name: string): Type {
  return Type[name.toUpperCase() as keyof typeof Type]
}

function typeOf(parser: Parser, field: Protobuf.Field) {
  const { resolvedType } = field
  if (resolvedType === null) return { type: scalarOf(field.type) }
  const type =
    resolvedType instanceof parser.Enum
      ? Type.ENUM
      : field.delimited && !field.map
        ? Type.GROUP
        : Type.MESSAGE
  return { type, typeName: resolvedType.fullName }
}

function fieldOf(parser: Parser, field: Protobuf.Field) {
  const jsonName = field.options?.['json_name'] as unknown
  return {
    name: field.name,
    number: field.id,
    label:
      field.repeated || field.map
        ? Label.REPEATED
        : field.required
          ? Label.REQUIRED
          : Label.OPTIONAL,
    ...(field.map
      ? { type: Type.MESSAGE, typeName: `${field.parent?.fullName}.${entryName(field)}` }
      : typeOf(parser, field)),
    ...(typeof jsonName === 'string' && { jsonName }),
    // Syntax and edition of each file have been applied by the parser.
    options: {
      packed: field.packed,
      features: { fieldPresence: field.hasPresence ? Presence.EXPLICIT : Presence.IMPLICIT },
    },
  }
}

function enumOf({ name, values }: Protobuf.Enum) {
  return {
    name,
    value: Object.entries(values).map(([value, number]) => ({ name: value, number })),
  }
}

function serviceOf({ name, methodsArray }: Protobuf.Service) {
  return {
    name,
    method: methodsArray.map((method) => ({
      name: method.name,
      inputType: method.resolvedRequestType?.fullName ?? '',
      outputType: method.resolvedResponseType?.fullName ?? '',
      clientStreaming: method.requestStream === true,
      serverStreaming: method.responseStream === true,
    })),
  }
}
