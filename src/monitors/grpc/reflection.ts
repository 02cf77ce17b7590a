// Requests a server's types by server reflection (grpc/doc/server-reflection.md), v1 or else v1alpha. Every
// check requests the files, so that none is out of date; compiled schemas are cached by the files' hash.
import { GRPC_LIMITS, type GrpcCode } from './definition.ts'
import { fromBinary, type FileRegistry } from '@bufbuild/protobuf'
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt'
import type { OutgoingHttpHeaders } from 'node:http2'
import type { Progress } from '../../network/dial.ts'
import { endingOf, STATUS, statusName, unpackAll } from './answer.ts'
import { call, type Link } from './call.ts'
import { nearFix } from './near-names.ts'
import { cachedRegistry, registryOf } from './protobuf/registry.ts'
import { readFields, readUntrusted, textField } from './protobuf/wire.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'

export type ReflectionVersion = 'v1' | 'v1alpha'

/** Result of reflection. */
export interface Reflected {
  registry: FileRegistry
  version: ReflectionVersion
  files: number
  bytes: number
}

/**
 * The types of a service and all that they use; further types, such as those within an Any, where the server
 * knows them. `headers` are those of the call but for its path. Rejects
 * with TargetFailure (GRPC_REFLECTION_UNAVAILABLE, GRPC_METHOD_NOT_FOUND, GRPC_SCHEMA_INVALID, …) or the
 * signal's reason.
 */
export async function reflect(
  link: Link,
  { service, further }: { service: string; further: Iterable<string> },
  headers: OutgoingHttpHeaders,
  progress: Progress,
): Promise<Reflected> {
  for (const version of ['v1', 'v1alpha'] as const) {
    try {
      return await gather({ link, headers, version, progress }, service, further)
    } catch (error) {
      if (!(error instanceof NotOffered)) throw error
    }
  }
  const message = `${link.peer} offers no server reflection, neither v1 nor v1alpha`
  throw targetFailure<GrpcCode>('GRPC_REFLECTION_UNAVAILABLE', message)
}

/** The server does not know this version of reflection. */
class NotOffered extends Error {}

/** Fields of ServerReflectionRequest. */
const ASK = { file: 3, symbol: 4, services: 7 }

async function gather(
  dialogue: Dialogue,
  service: string,
  further: Iterable<string>,
): Promise<Reflected> {
  const first = await ask(dialogue, ASK.symbol, service)
  if (first.error !== undefined) await refuse(dialogue, service, first.error)
  const files: Files = new Map()
  let bytes = 0
  const add = (found: readonly Buffer[]) => {
    for (const raw of found) {
      const { name, dependencies } = headOf(raw)
      if (files.has(name)) continue
      bytes += raw.length
      if (files.size === GRPC_LIMITS.grpcDescriptorFilesMax) {
        throw invalid(`it has more than ${GRPC_LIMITS.grpcDescriptorFilesMax} files`)
      }
      if (bytes > GRPC_LIMITS.grpcDescriptorBytesMax) {
        throw invalid(`it has more than ${GRPC_LIMITS.grpcDescriptorBytesMax} bytes`)
      }
      files.set(name, { raw, dependencies })
    }
  }
  add(first.files)
  for (const name of further) add((await ask(dialogue, ASK.symbol, name)).files)
  await addDependencies(dialogue, files, add)
  const registry = await compiled(files)
  return { registry, version: dialogue.version, files: files.size, bytes }
}

/** Files by name. */
type Files = Map<string, { raw: Buffer; dependencies: string[] }>

/** What is needed of a file before its types: most are compiled already. */
function headOf(file: Buffer): { name: string; dependencies: string[] } {
  const head = { name: '', dependencies: [] as string[] }
  const read = () =>
    readFields(file, {
      1: (reader) => (head.name = reader.string()),
      3: (reader) => head.dependencies.push(reader.string()),
    })
  readUntrusted(read, invalid)
  return head
}

/** Requests imported files until none is missing. A file that the server does not have may be unused. */
async function addDependencies(
  dialogue: Dialogue,
  files: Files,
  add: (found: readonly Buffer[]) => void,
): Promise<void> {
  const asked = new Set<string>()
  // A map also iterates over what is added meanwhile, in its order.
  for (const { dependencies } of files.values()) {
    for (const wanted of dependencies) {
      if (files.has(wanted) || asked.has(wanted)) continue
      asked.add(wanted)
      if (asked.size > GRPC_LIMITS.grpcDescriptorFilesMax) return
      add((await ask(dialogue, ASK.file, wanted)).files)
    }
  }
}

function compiled(files: Files): Promise<FileRegistry> {
  const parts = [...files]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([, { raw }]) => raw)
  const parsed = () => parts.map((raw) => fromBinary(FileDescriptorProtoSchema, raw))
  return cachedRegistry('files', parts, () => readUntrusted(() => registryOf(parsed()), invalid))
}

function invalid(why: string): TargetFailure {
  const message = `the types from server reflection cannot be used: ${why}`
  return targetFailure<GrpcCode>('GRPC_SCHEMA_INVALID', message)
}

interface ReflectionError {
  code: number
  message: string
}

async function refuse(dialogue: Dialogue, service: string, error: ReflectionError): Promise<never> {
  if (error.code !== STATUS.NOT_FOUND) {
    throw invalid(`${statusName(error.code)} ${error.message}`.trim())
  }
  const { services } = await ask(dialogue, ASK.services, '')
  const { near, fix } = nearFix(service, services, 'it lists no services')
  const message = `the server knows no service ${service}; ${fix}`
  throw targetFailure<GrpcCode>('GRPC_METHOD_NOT_FOUND', message, { service, near })
}

interface Reply {
  files: Buffer[]
  services: string[]
  error?: ReflectionError
}

/** Transport of the requests. */
interface Dialogue {
  link: Link
  headers: OutgoingHttpHeaders
  version: ReflectionVersion
  progress: Progress
}

/** Sends one request in its own call. */
async function ask(dialogue: Dialogue, field: number, value: string): Promise<Reply> {
  const { link, headers, version, progress } = dialogue
  const path = `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`
  const order = { headers: { ...headers, ':path': path }, message: textField(field, value) }
  const answer = await call(link, order, progress)
  try {
    const { code, message, failed } = endingOf(answer)
    if (failed !== undefined) throw new TargetFailure(failed)
    if (code === STATUS.UNIMPLEMENTED) throw new NotOffered()
    if (code !== STATUS.OK) throw refused(code, message)
    const [reply] = await unpackAll(answer)
    if (reply === undefined) throw invalid('it does not answer')
    return readUntrusted(() => readReply(reply), invalid)
  } finally {
    answer.release()
  }
}

/** The call itself was refused, usually for its credentials. */
function refused(statusCode: number, statusMessage: string): TargetFailure {
  const status = statusName(statusCode)
  const suffix = statusMessage === '' ? '' : `: ${statusMessage}`
  const message = `server reflection ended with ${status}${suffix}`
  return targetFailure<GrpcCode>('GRPC_STATUS', message, { statusCode, status, statusMessage })
}

/** Fields of ServerReflectionResponse; the files and the error may have any content. */
function readReply(bytes: Buffer): Reply {
  const reply: Reply = { files: [], services: [] }
  readFields(bytes, {
    4: (reader) =>
      readFields(reader.bytes(), { 1: (inner) => reply.files.push(Buffer.from(inner.bytes())) }),
    6: (reader) =>
      readFields(reader.bytes(), {
        1: (inner) =>
          readFields(inner.bytes(), { 1: (service) => reply.services.push(service.string()) }),
      }),
    7(reader) {
      const error = { code: 0, message: '' }
      readFields(reader.bytes(), {
        1: (inner) => (error.code = inner.int32()),
        2: (inner) => (error.message = inner.string()),
      })
      reply.error = error
    },
  })
  return reply
}
