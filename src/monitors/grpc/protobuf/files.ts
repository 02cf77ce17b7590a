// Builds a schema from descriptors: resolves names, and applies the defaults of syntax and edition to each
// field.
import {
  addField,
  emptyMessage,
  emptySchema,
  jsonNameOf,
  SchemaProblem,
  settle,
  type EnumSchema,
  type FieldKind,
  type FieldSchema,
  type MessageSchema,
  type MethodSchema,
  type Schema,
} from './schema.ts'
import type {
  EnumDescriptor,
  Features,
  FieldDescriptor,
  FileDescriptor,
  MessageDescriptor,
} from './descriptors.ts'

/** Numbers of FieldDescriptorProto.Type. */
const KINDS: Readonly<Record<number, FieldKind>> = {
  1: 'double',
  2: 'float',
  3: 'int64',
  4: 'uint64',
  5: 'int32',
  6: 'fixed64',
  7: 'fixed32',
  8: 'bool',
  9: 'string',
  10: 'group',
  11: 'message',
  12: 'bytes',
  13: 'uint32',
  14: 'enum',
  15: 'sfixed32',
  16: 'sfixed64',
  17: 'sint32',
  18: 'sint64',
}

const PRESENCE_IMPLICIT = 2
const PRESENCE_REQUIRED = 3
const ENCODING_EXPANDED = 2
const MESSAGES_AS_GROUPS = 2

/** Field defaults of a file's syntax and edition. */
interface Rules {
  implicitPresence: boolean
  packs: boolean
  required: boolean
  groups: boolean
}

/** Builds the schema of some files. Throws SchemaProblem when a name in them is defined nowhere. */
export function schemaOfFiles(files: readonly FileDescriptor[]): Schema {
  const schema = emptySchema()
  for (const file of files) declare(schema, file)
  for (const file of files) {
    const rules = changed(rulesOf(file.syntax), file.features)
    for (const message of file.messages) define(schema, message, file.package, rules)
    for (const extension of file.extensions) extend(schema, extension, file.package, rules)
    for (const service of file.services) serve(schema, service, file.package)
  }
  return settle(schema)
}

function rulesOf(syntax: string): Rules {
  const isThree = syntax === 'proto3'
  return {
    implicitPresence: isThree,
    packs: isThree || syntax === 'editions',
    required: false,
    groups: false,
  }
}

function changed(rules: Rules, features: Features | undefined): Rules {
  if (features === undefined) return rules
  const { fieldPresence, repeatedEncoding, messageEncoding } = features
  return {
    implicitPresence:
      fieldPresence === undefined ? rules.implicitPresence : fieldPresence === PRESENCE_IMPLICIT,
    required: fieldPresence === undefined ? rules.required : fieldPresence === PRESENCE_REQUIRED,
    packs: repeatedEncoding === undefined ? rules.packs : repeatedEncoding !== ENCODING_EXPANDED,
    groups: messageEncoding === undefined ? rules.groups : messageEncoding === MESSAGES_AS_GROUPS,
  }
}

function within(scope: string, name: string): string {
  return scope === '' ? name : `${scope}.${name}`
}

function declare(schema: Schema, file: FileDescriptor): void {
  for (const message of file.messages) declareMessage(schema, message, file.package)
  for (const type of file.enums) declareEnum(schema, type, file.package)
}

function declareMessage(schema: Schema, message: MessageDescriptor, scope: string): void {
  const fullName = within(scope, message.name)
  schema.messages.set(fullName, emptyMessage(fullName, message.mapEntry))
  for (const one of message.nested) declareMessage(schema, one, fullName)
  for (const one of message.enums) declareEnum(schema, one, fullName)
}

function declareEnum(schema: Schema, { name, values }: EnumDescriptor, scope: string): void {
  const type: EnumSchema = {
    fullName: within(scope, name),
    names: new Map(),
    numbers: new Map(),
  }
  for (const value of values) {
    if (!type.names.has(value.number)) type.names.set(value.number, value.name)
    type.numbers.set(value.name, value.number)
  }
  schema.enums.set(type.fullName, type)
}

function define(schema: Schema, message: MessageDescriptor, scope: string, above: Rules): void {
  const fullName = within(scope, message.name)
  const rules = changed(above, message.features)
  const made = schema.messages.get(fullName) as MessageSchema
  for (const field of message.fields) {
    const linked = fieldOf(schema, field, fullName, rules, made.mapEntry)
    // An optional field of proto3 is alone in a synthetic oneof.
    const oneof = field.proto3Optional ? undefined : message.oneofs[field.oneofIndex ?? -1]
    addField(made, oneof === undefined ? linked : { ...linked, oneof })
  }
  for (const extension of message.extensions) extend(schema, extension, fullName, rules)
  for (const one of message.nested) define(schema, one, fullName, rules)
}

function extend(schema: Schema, extension: FieldDescriptor, scope: string, rules: Rules): void {
  const extended = named(schema.messages, extension.extendee, scope)
  // An extension of a message of another file, such as an option, is of no use without it.
  if (extended === undefined) return
  const name = `[${within(scope, extension.name)}]`
  const field = fieldOf(schema, extension, scope, rules, false)
  addField(extended, { ...field, name, jsonName: name, presence: true })
}

function fieldOf(
  schema: Schema,
  field: FieldDescriptor,
  scope: string,
  above: Rules,
  inMap: boolean,
): FieldSchema {
  const rules = changed(above, field.features)
  const repeated = field.label === 3
  const declared = KINDS[field.type]
  const where = within(scope, field.name)
  if (declared === undefined) throw new SchemaProblem(`${where} has the unknown type ${field.type}`)
  if (field.number < 1) throw new SchemaProblem(`${where} has the number ${field.number}`)
  const kind = declared === 'message' && rules.groups && !inMap ? 'group' : declared
  const made: FieldSchema = {
    number: field.number,
    name: field.name,
    jsonName: field.jsonName === '' ? jsonNameOf(field.name) : field.jsonName,
    kind,
    repeated,
    packed: repeated && isPackable(kind) && (field.packed ?? rules.packs),
    presence: !inMap && hasPresence(field, kind, rules),
    required: field.label === 2 || (rules.required && !repeated),
  }
  link(schema, made, field.typeName, where)
  return made
}

function isPackable(kind: FieldKind): boolean {
  return kind !== 'string' && kind !== 'bytes' && kind !== 'message' && kind !== 'group'
}

function hasPresence(field: FieldDescriptor, kind: FieldKind, rules: Rules): boolean {
  if (field.label === 3) return false
  if (kind === 'message' || kind === 'group') return true
  return field.proto3Optional || field.oneofIndex !== undefined || !rules.implicitPresence
}

function link(schema: Schema, field: FieldSchema, typeName: string, where: string): void {
  if (field.kind === 'message' || field.kind === 'group') {
    field.message = named(schema.messages, typeName, where)
  } else if (field.kind === 'enum') field.enum = named(schema.enums, typeName, where)
  else return
  if (field.message === undefined && field.enum === undefined) {
    throw new SchemaProblem(`the type ${typeName} of ${where} is defined nowhere`)
  }
}

/**
 * Resolves a name in a scope. With a leading dot it is a full name; without one it is looked for from the
 * innermost scope outwards, as descriptor.proto has it for `type_name`.
 */
function named<T>(types: ReadonlyMap<string, T>, name: string, where: string): T | undefined {
  if (name.startsWith('.')) return types.get(name.slice(1))
  let scope = where
  for (;;) {
    const found = types.get(within(scope, name))
    if (found !== undefined || scope === '') return found
    scope = scope.slice(0, Math.max(0, scope.lastIndexOf('.')))
  }
}

function serve(schema: Schema, service: FileDescriptor['services'][number], scope: string): void {
  const fullName = within(scope, service.name)
  const methods = new Map<string, MethodSchema>()
  for (const { name, input, output, clientStreaming, serverStreaming } of service.methods) {
    const [inputType, outputType] = [
      named(schema.messages, input, fullName),
      named(schema.messages, output, fullName),
    ]
    if (inputType === undefined || outputType === undefined) {
      const undefinedType = inputType === undefined ? input : output
      throw new SchemaProblem(`the type ${undefinedType} of ${fullName}/${name} is defined nowhere`)
    }
    const path = `/${fullName}/${name}`
    methods.set(name, {
      name,
      path,
      input: inputType,
      output: outputType,
      clientStreaming,
      serverStreaming,
    })
  }
  schema.services.set(fullName, methods)
}
