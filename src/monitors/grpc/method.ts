// Finds the method that a monitor calls, in the types of reflection or of the given text.
import type { GrpcCode } from './definition.ts'
import type { DescMethod, FileRegistry } from '@bufbuild/protobuf'
import type { MethodName } from '../../contract/grpc-text.ts'
import { nearNames } from './near-names.ts'
import { MessageProblem, encodeMessage } from './protobuf/encode.ts'
import { SchemaProblem } from './protobuf/registry.ts'
import { type TargetFailure, targetFailure } from '../../network/target-failure.ts'

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
  const near = nearNames(methods === undefined ? service : method, known).join(', ')
  const fix = near === '' ? 'there are none' : `did you mean ${near}?`
  // A name missing in a proto text is a fault of the settings; one missing on the server, of the target.
  return isText
    ? targetFailure<GrpcCode>('GRPC_METHOD_UNDEFINED', `the proto text has no ${what}; ${fix}`, {
        near,
      })
    : targetFailure<GrpcCode>('GRPC_METHOD_NOT_FOUND', `the server has no ${what}; ${fix}`, {
        near,
      })
}

function servicesOf(registry: FileRegistry): string[] {
  return [...registry].filter(({ kind }) => kind === 'service').map(({ typeName }) => typeName)
}

/**
 * The request's bytes. Throws TargetFailure: GRPC_MESSAGE_INVALID with the path to the invalid value, or
 * GRPC_SCHEMA_INVALID.
 */
export function requestBytes(
  message: string,
  method: DescMethod,
  registry: FileRegistry,
): Uint8Array {
  try {
    return encodeMessage(message, method.input, registry)
  } catch (error) {
    if (error instanceof SchemaProblem) {
      throw targetFailure<GrpcCode>('GRPC_SCHEMA_INVALID', error.message)
    }
    if (!(error instanceof MessageProblem)) throw error
    const details = { path: error.path, type: method.input.typeName }
    throw targetFailure<GrpcCode>('GRPC_MESSAGE_INVALID', error.message, details)
  }
}
