// Reads the messages of an answer: decompresses them, decodes them by their types, and converts them to JSON.
import { GRPC_LIMITS, type GrpcCode, GRPC_HEALTH_STATES } from './definition.ts'
import type { DescMessage, FileRegistry } from '@bufbuild/protobuf'
import { setImmediate as turn } from 'node:timers/promises'
import { LIMITS } from '../../contract/versions.ts'
import { type Ending, STATUS } from './answer.ts'
import type { Answer } from './call.ts'
import { unpacked } from './frames.ts'
import { createDecoder } from './protobuf/decode.ts'
import {
  ProtobufMalformed,
  TooManyValues,
  readFields,
  readUntrusted,
  textField,
} from './protobuf/wire.ts'
import { type TargetFailure, targetFailure } from '../../network/target-failure.ts'

/** The messages of an answer, decompressed. Rejects with TargetFailure. */
export async function unpackAll({ headers, messages }: Answer): Promise<Buffer[]> {
  const encoding = String(headers?.['grpc-encoding'] ?? 'identity')
  const all: Buffer[] = []
  let bytes = 0
  for (const message of messages) {
    const one = await unpacked(message, encoding)
    bytes += one.length
    const limitBytes = LIMITS.unpackedBytesMax
    if (bytes > limitBytes) {
      const problem = `the answer has more than ${limitBytes} bytes, unpacked`
      throw targetFailure<GrpcCode>('GRPC_STREAM_TOO_LARGE', problem, { limitBytes })
    }
    all.push(one)
  }
  return all
}

/**
 * Throws unless the answer has the messages of a unary call: one after success, none or one after an error.
 */
export function refuseCardinality({ messages }: Answer, { code }: Ending): void {
  const count = messages.length
  if (count === 1 || (count === 0 && code !== STATUS.OK)) return
  throw malformed(`the answer has ${count === 0 ? 'no message' : 'more than one message'}`)
}

function malformed(what: string): TargetFailure {
  return targetFailure<GrpcCode>('GRPC_MALFORMED', what)
}

/** Longest time of reading before other work has its turn. */
const TURN_MS_MAX = 10

/** JSON texts of messages, and the types within an Any that the registry does not have. */
export interface Read {
  texts: string[]
  unknown: Set<string>
}

/** Converts the messages to JSON. Rejects with TargetFailure, or the signal's reason. */
export async function readMessages(
  messages: readonly Buffer[],
  type: DescMessage,
  registry: FileRegistry,
  signal: AbortSignal,
): Promise<Read> {
  const decoder = createDecoder(registry, GRPC_LIMITS.grpcValuesMax)
  const texts: string[] = []
  let since = performance.now()
  for (const message of messages) {
    texts.push(asType(type.typeName, () => JSON.stringify(decoder.decode(message, type))))
    if (performance.now() - since < TURN_MS_MAX) continue
    await turn()
    signal.throwIfAborted()
    since = performance.now()
  }
  return { texts, unknown: decoder.unknown }
}

/** Result of reading a message of this type. Throws TargetFailure. */
function asType<T>(typeName: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof TooManyValues) {
      throw targetFailure<GrpcCode>('GRPC_MESSAGE_TOO_LARGE', error.message)
    }
    if (!(error instanceof ProtobufMalformed)) throw error
    throw malformed(`a message of the answer is no ${typeName}: ${error.message}`)
  }
}

/** The path of the call. */
export const HEALTH_PATH = '/grpc.health.v1.Health/Check'

export type HealthState = (typeof GRPC_HEALTH_STATES)[number]

/** The request for a service, empty for the whole server. */
export function healthRequest(service: string): Uint8Array {
  return service === '' ? new Uint8Array() : textField(1, service)
}

/** The state in an answer. Throws TargetFailure. */
export function healthState(bytes: Buffer): HealthState {
  return asType('grpc.health.v1.HealthCheckResponse', () =>
    readUntrusted(() => {
      let number = 0
      readFields(bytes, { 1: (reader) => (number = reader.int32()) })
      const state = GRPC_HEALTH_STATES[number]
      if (state === undefined) throw new Error(`${number} is no state of health`)
      return state
    }),
  )
}
