// Compiles the text of a .proto file to a schema. The parser, protobufjs, is loaded when the first monitor
// needs it; everything after parsing is our code, and no code is generated.
import type * as Protobuf from 'protobufjs'
import {
  addField,
  compiledSchemas,
  emptyMessage,
  emptySchema,
  jsonNameOf,
  SchemaProblem,
  settle,
  type FieldKind,
  type FieldSchema,
  type MessageSchema,
  type Schema,
} from './schema.ts'
import { hash } from 'node:crypto'

type Parser = typeof Protobuf

/** The schema of a text. Rejects with SchemaProblem when it does not parse or a name has no meaning. */
export async function schemaOfText(text: string): Promise<Schema> {
  const key = `text ${hash('sha256', text)}`
  const known = compiledSchemas.get(key)
  if (known !== undefined) return known
  const { default: parser } = (await import('protobufjs')) as unknown as { default: Parser }
  const schema = compile(parser, text)
  compiledSchemas.set(key, schema, text.length)
  return schema
}

function compile(parser: Parser, text: string): Schema {
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
    throw nameProblem(error as Error, text, unknownImports)
  }
  return settle(schemaOfRoot(parser, root))
}

/** Adds the well-known files; gives the others, which matter only when something of them is used. */
function addImports(parser: Parser, root: Protobuf.Root, files: readonly string[]): string[] {
  const unknown: string[] = []
  for (const file of files) {
    const known = parser.common.get(file)
    if (known?.nested === undefined) unknown.push(file)
    else if (root.lookup(wellKnownIn(known)) === null) root.addJSON(known.nested)
  }
  return unknown
}

/** The first name that a bundled file defines; shows whether the file has been added. */
function wellKnownIn(file: Protobuf.INamespace): string {
  let path = ''
  let inner: Protobuf.INamespace | undefined = file
  while (inner?.nested !== undefined) {
    const [name, next] = Object.entries(inner.nested)[0] ?? []
    if (name === undefined) break
    path += `.${name}`
    inner = next as Protobuf.INamespace
  }
  return path
}

function parseProblem(error: Error, text: string): SchemaProblem {
  const message = error.message.replace(/ \((?:[^()]*, )?line \d+\)$/, '')
  const line = /line (\d+)\)$/.exec(error.message)?.[1]
  if (line !== undefined) return new SchemaProblem(message, Number(line))
  const last = text.trimEnd().split('\n').length
  // The parser trips over what is not there when the text ends within something.
  if (error instanceof TypeError) return new SchemaProblem('the text ends too early', last)
  return new SchemaProblem(message, lineOfQuoted(error.message, text))
}

/** `duplicate name 'a' in Type M`: the last place where the name or number stands. */
function lineOfQuoted(message: string, text: string): number | undefined {
  const name = /'([^']+)'/.exec(message)?.[1]
  if (name !== undefined) return linesOf(name, text).at(-1)
  const id = /\bid (\d+)/.exec(message)?.[1]
  return id === undefined ? undefined : linesOf(`= ${id}`, text).at(-1)
}

function nameProblem(error: Error, text: string, unknownImports: readonly string[]): SchemaProblem {
  const name = /no such (?:Type or Enum|type|enum)[^:']*(?:: |')([\w.]+)/i.exec(error.message)?.[1]
  if (name === undefined) return new SchemaProblem(error.message)
  const missing =
    unknownImports.length === 0
      ? ''
      : `; of the imports only google/protobuf/… is known here, not ${unknownImports.join(', ')}: put their text in`
  return new SchemaProblem(`the type ${name} is defined nowhere${missing}`, linesOf(name, text)[0])
}

/** The lines, from 1, that contain the symbol outside of comments. */
function linesOf(symbol: string, text: string): number[] {
  // An unterminated comment extends to the end of the text, so that no position is scanned twice.
  const code = text
    .replaceAll(/\/\*[\s\S]*?(?:\*\/|$)/g, (comment) => comment.replaceAll(/[^\n]/g, ' '))
    .replaceAll(/\/\/[^\n]*/g, '')
  const found = code.split('\n').map((line, at) => (contains(line, symbol) ? at + 1 : 0))
  return found.filter((line) => line > 0)
}

function contains(line: string, symbol: string): boolean {
  for (let at = line.indexOf(symbol); at !== -1; at = line.indexOf(symbol, at + 1)) {
    if (!/\w/.test(line[at - 1] ?? '') && !/\w/.test(line[at + symbol.length] ?? '')) return true
  }
  return false
}

function schemaOfRoot(parser: Parser, root: Protobuf.Root): Schema {
  const schema = emptySchema()
  const types: Protobuf.Type[] = []
  const services: Protobuf.Service[] = []
  const visit = (namespace: Protobuf.NamespaceBase) => {
    for (const one of namespace.nestedArray) {
      if (one instanceof parser.Type) {
        types.push(one)
        const fullName = bare(one.fullName)
        schema.messages.set(fullName, emptyMessage(fullName))
      } else if (one instanceof parser.Enum) declareEnum(schema, one)
      else if (one instanceof parser.Service) services.push(one)
      if (one instanceof parser.Namespace) visit(one)
    }
  }
  visit(root)
  for (const type of types) define(parser, schema, type)
  for (const service of services) serve(schema, service)
  return schema
}

function bare(fullName: string): string {
  return fullName.startsWith('.') ? fullName.slice(1) : fullName
}

function declareEnum(schema: Schema, type: Protobuf.Enum): void {
  const fullName = bare(type.fullName)
  const numbers = new Map(Object.entries(type.values))
  const names = new Map<number, string>()
  for (const [name, number] of numbers) if (!names.has(number)) names.set(number, name)
  schema.enums.set(fullName, { fullName, names, numbers })
}

function define(parser: Parser, schema: Schema, type: Protobuf.Type): void {
  const message = schema.messages.get(bare(type.fullName)) as MessageSchema
  for (const field of type.fieldsArray) {
    const made = fieldOf(schema, field)
    if (field instanceof parser.MapField) {
      made.message = entryOf(schema, field)
      made.repeated = true
      made.kind = 'message'
      made.packed = false
    }
    addField(message, made)
  }
}

function fieldOf(schema: Schema, field: Protobuf.Field): FieldSchema {
  // An extension stands in the extended message under its full name, with a dot before it.
  const isExtension = field.declaringField !== null && field.declaringField !== undefined
  const name = isExtension ? `[${bare(field.name)}]` : field.name
  const { message, enum: type, kind } = kindOf(schema, field)
  const isMessage = kind === 'message' || kind === 'group'
  const isOptional = field.options?.['proto3_optional'] === true
  const given = field.options?.['json_name'] as unknown
  const made: FieldSchema = {
    number: field.id,
    name,
    jsonName: typeof given === 'string' ? given : isExtension ? name : jsonNameOf(name),
    kind,
    repeated: field.repeated,
    packed: field.repeated && !isMessage && kind !== 'string' && kind !== 'bytes' && field.packed,
    presence: !field.repeated && (isMessage || isExtension || field.hasPresence),
    required: field.required,
    message,
    enum: type,
  }
  if (field.partOf !== null && !isOptional) made.oneof = field.partOf.name
  return made
}

function kindOf(
  schema: Schema,
  field: Pick<Protobuf.Field, 'type' | 'resolvedType'>,
): Pick<FieldSchema, 'kind' | 'message' | 'enum'> {
  const resolved = field.resolvedType
  if (resolved === null) return { kind: field.type as FieldKind }
  const fullName = bare(resolved.fullName)
  const type = schema.enums.get(fullName)
  if (type !== undefined) return { kind: 'enum', enum: type }
  const kind = (field as { delimited?: boolean }).delimited === true ? 'group' : 'message'
  return { kind, message: schema.messages.get(fullName) }
}

function entryOf(schema: Schema, field: Protobuf.MapField): MessageSchema {
  const entry = emptyMessage(`${bare(field.parent?.fullName ?? '')}.${field.name} entry`, true)
  const part = { repeated: false, packed: false, presence: false, required: false }
  const key = field.keyType as FieldKind
  addField(entry, { ...part, number: 1, name: 'key', jsonName: 'key', kind: key })
  const value = kindOf(schema, field)
  const kind = value.kind === 'group' ? 'message' : value.kind
  addField(entry, { ...part, ...value, number: 2, name: 'value', jsonName: 'value', kind })
  return entry
}

function serve(schema: Schema, service: Protobuf.Service): void {
  const fullName = bare(service.fullName)
  const methods = service.methodsArray.map((method) => {
    const { name, requestStream, responseStream, resolvedRequestType, resolvedResponseType } =
      method
    const input = schema.messages.get(bare(resolvedRequestType?.fullName ?? ''))
    const output = schema.messages.get(bare(resolvedResponseType?.fullName ?? ''))
    if (input === undefined || output === undefined) {
      throw new SchemaProblem(`the types of ${fullName}/${name} are not messages`)
    }
    const path = `/${fullName}/${name}`
    const [clientStreaming, serverStreaming] = [requestStream === true, responseStream === true]
    return [name, { name, path, input, output, clientStreaming, serverStreaming }] as const
  })
  schema.services.set(fullName, new Map(methods))
}
