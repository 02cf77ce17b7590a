// Registry of message types, from the descriptors of a server's reflection or of a .proto text. Plain data; no
// code is made from them. Descriptors of a server are untrusted.
import {
  clearField,
  create,
  createFileRegistry,
  isFieldSet,
  type DescMethod,
  type FileRegistry,
} from '@bufbuild/protobuf'
import { protoCamelCase } from '@bufbuild/protobuf/reflect'
import {
  FieldDescriptorProtoSchema,
  FileDescriptorSetSchema,
  type DescriptorProto,
  type FieldDescriptorProto,
  type FileDescriptorProto,
} from '@bufbuild/protobuf/wkt'
import { hash } from 'node:crypto'
import type { MethodName } from '../../../contract/grpc-text.ts'
import { LeastRecentlyUsed } from '../../../network/least-recently-used.ts'
import { type TargetFailure, targetFailure } from '../../../network/target-failure.ts'
import type { GrpcCode } from '../definition.ts'
import { nearFix } from '../near-names.ts'

/**
 * The registry of some files. Missing imports matter only when a type of them is used. Throws an Error for an undefined
 * name or an invalid definition.
 */
export function registryOf(files: readonly FileDescriptorProto[]): FileRegistry {
  const defined: Defined = new Map()
  for (const file of files) {
    checkScope(file.package)
    for (const { name } of file.enumType) defined.set(within(file.package, name), file)
    for (const { message, fullName } of messagesOf(file)) {
      defined.set(fullName, file)
      for (const { name } of message.enumType) defined.set(within(fullName, name), file)
    }
  }
  const needed = new Map(files.map((file) => [file, prepare(file, defined)]))
  try {
    const set = create(FileDescriptorSetSchema, { file: neededFirst(needed) })
    const registry = createFileRegistry(set)
    checkTypes(registry)
    return registry
  } catch (error) {
    throw new Error((error as Error).message || 'a type is not defined', { cause: error })
  }
}

/** Full names of messages and enums, with their files. */
type Defined = Map<string, FileDescriptorProto>

function within(scope: string, name: string): string {
  return scope === '' ? name : `${scope}.${name}`
}

/** Bounds of a full name, within which every scope of it is looked at. */
const NAME_CHARS_MAX = 512
const NAME_PARTS_MAX = 32

function checkScope(scope: string): void {
  if (scope.length <= NAME_CHARS_MAX && scope.split('.').length <= NAME_PARTS_MAX) return
  throw new Error('the name of a type is too long')
}

function* messagesOf(file: FileDescriptorProto) {
  const waiting = file.messageType.map((message) => ({ message, scope: file.package }))
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { message, scope } = next
    const fullName = within(scope, message.name)
    checkScope(fullName)
    yield { message, fullName }
    for (const nested of message.nestedType) waiting.push({ message: nested, scope: fullName })
  }
}

/** Completes the names of types and fields, and removes what cannot be used. Returns the files of its types. */
function prepare(file: FileDescriptorProto, defined: Defined): Set<FileDescriptorProto> {
  const needed = new Set<FileDescriptorProto>()
  const resolve = (name: string, scope: string) => {
    const fullName = resolved(defined, name, scope)
    const definer = defined.get(fullName)
    if (definer !== undefined) needed.add(definer)
    return fullName
  }
  // An extension of a message of another file, such as an option, is of no use without it.
  const usable = (extensions: FieldDescriptorProto[], scope: string) => {
    for (const one of extensions) one.extendee = resolve(one.extendee, scope)
    return extensions.filter(({ extendee }) => defined.has(extendee))
  }
  const prepareAll = (fields: FieldDescriptorProto[], scope: string) => {
    for (const field of fields) {
      prepareField(field, scope)
      if (field.typeName !== '') field.typeName = resolve(field.typeName, scope)
    }
  }
  file.extension = usable(file.extension, file.package)
  prepareAll(file.extension, file.package)
  for (const { message, fullName } of messagesOf(file)) {
    checkMapEntry(message)
    message.extension = usable(message.extension, fullName)
    prepareAll([...message.extension, ...message.field], fullName)
  }
  for (const { method: methods } of file.service) {
    for (const method of methods) {
      method.inputType = resolve(method.inputType, file.package)
      method.outputType = resolve(method.outputType, file.package)
    }
  }
  return needed
}

function prepareField(field: FieldDescriptorProto, scope: string): void {
  // The library reads a type that it does not know as none.
  if (!isFieldSet(field, FieldDescriptorProtoSchema.field.type) || field.number < 1) {
    throw new Error(`the field ${within(scope, field.name)} has no valid type or number`)
  }
  if (field.jsonName === '') field.jsonName = protoCamelCase(field.name)
  // JSON has no place for default values, and the library looks through all values of an enum for one.
  clearField(field, FieldDescriptorProtoSchema.field.defaultValue)
}

/**
 * The full name of a type. One without a leading dot, as some servers send it, is looked for from the innermost
 * scope outwards.
 */
function resolved(defined: Defined, name: string, from: string): string {
  if (name.startsWith('.')) return name.slice(1)
  for (let scope = from; ; scope = scope.slice(0, Math.max(0, scope.lastIndexOf('.')))) {
    const fullName = within(scope, name)
    if (scope === '' || defined.has(fullName)) return fullName
  }
}

function checkMapEntry({ name, field, options }: DescriptorProto): void {
  if (options?.mapEntry !== true || field.length === 2) return
  throw new Error(`the map entry ${name} has ${field.length} fields`)
}

/** The files in the order of their types; some servers send incomplete lists of imports. */
function neededFirst(
  needed: ReadonlyMap<FileDescriptorProto, ReadonlySet<FileDescriptorProto>>,
): FileDescriptorProto[] {
  const sorted: FileDescriptorProto[] = []
  const entered = new Set<FileDescriptorProto>()
  const add = (file: FileDescriptorProto) => {
    if (entered.has(file)) return
    entered.add(file)
    for (const other of needed.get(file) ?? []) add(other)
    // The library finds names in all files before this one.
    file.dependency = []
    sorted.push(file)
  }
  for (const file of needed.keys()) add(file)
  return sorted
}

function checkTypes(registry: FileRegistry): void {
  for (const type of registry) {
    if (type.kind !== 'enum') continue
    if (type.values.length === 0) throw new Error(`${type.typeName} has no values`)
    // An unknown number is shown as it is; the library looks for it in the whole list otherwise.
    ;(type as { open: boolean }).open = true
  }
}

/** Bytes of descriptors and texts whose registries are cached; a registry needs about ten times as much. */
const CACHED_BYTES_MAX = 4_194_304

const registries = new LeastRecentlyUsed<string, FileRegistry>(CACHED_BYTES_MAX)

/** The registry of this source; cached by its hash, so that none can be out of date. */
export async function cachedRegistry(
  kind: 'files' | 'text',
  source: readonly Uint8Array[],
  compile: () => FileRegistry | Promise<FileRegistry>,
): Promise<FileRegistry> {
  const whole = Buffer.concat(source)
  const lengths = source.map(({ length }) => length).join(' ')
  const key = `${kind} ${lengths} ${hash('sha256', whole)}`
  const known = registries.get(key)
  if (known !== undefined) return known
  const registry = await compile()
  registries.set(key, registry, whole.length)
  return registry
}

/**
 * The method, if it can be called. `isText`: the types are from a proto text. Throws TargetFailure:
 * GRPC_METHOD_NOT_FOUND, GRPC_METHOD_UNDEFINED, GRPC_METHOD_UNSUPPORTED.
 */
export function methodIn(registry: FileRegistry, name: MethodName, isText: boolean): DescMethod {
  const methods = registry.getService(name.service)?.methods
  const method = methods?.find((one) => one.name === name.method)
  if (method === undefined) throw missing(registry, name, isText)
  if (!method.proto.clientStreaming) return method
  const kind = method.proto.serverStreaming ? 'a bidirectional stream' : 'a stream of requests'
  const message = `${name.service}/${name.method} takes ${kind}; monitors call unary and server-streaming methods`
  throw targetFailure<GrpcCode>('GRPC_METHOD_UNSUPPORTED', message)
}

function missing(
  registry: FileRegistry,
  { service, method }: MethodName,
  isText: boolean,
): TargetFailure {
  const methods = registry.getService(service)?.methods
  const what = methods === undefined ? `service ${service}` : `method ${method} in ${service}`
  const known = methods?.map(({ name }) => name) ?? servicesOf(registry)
  const { near, fix } = nearFix(methods === undefined ? service : method, known, 'there are none')
  // A name missing in a proto text is a fault of the settings; one missing on the server, of the target.
  const code = isText ? 'GRPC_METHOD_UNDEFINED' : 'GRPC_METHOD_NOT_FOUND'
  const where = isText ? 'the proto text' : 'the server'
  return targetFailure<GrpcCode>(code, `${where} has no ${what}; ${fix}`, { near })
}

function servicesOf(registry: FileRegistry): string[] {
  return [...registry].filter(({ kind }) => kind === 'service').map(({ typeName }) => typeName)
}
