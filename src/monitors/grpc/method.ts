// Finds the method that a monitor calls, in the types of reflection or of the given text.
import type { GrpcCode } from './definition.ts'
import { failure } from '../../contract/failure.ts'
import type { MethodName } from '../../contract/grpc-text.ts'
import type { Definition } from './plan.ts'
import { nearNames } from './near-names.ts'
import { MessageProblem, encodeMessage } from './protobuf/encode.ts'
import type { MethodSchema, Schema } from './protobuf/schema.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'

/** The method, if it can be called. Throws TargetFailure: GRPC_METHOD_NOT_FOUND, GRPC_METHOD_UNDEFINED, …_UNSUPPORTED. */
export function methodIn(schema: Schema, name: MethodName, from: Definition): MethodSchema {
  const methods = schema.services.get(name.service)
  const method = methods?.get(name.method)
  if (method === undefined) throw missing(schema, name, from)
  if (!method.clientStreaming) return method
  const kind = method.serverStreaming ? 'a bidirectional stream' : 'a stream of requests'
  const message = `${name.service}/${name.method} takes ${kind}; monitors call unary and server-streaming methods`
  throw targetFailure<GrpcCode>('GRPC_METHOD_UNSUPPORTED', message)
}

function missing(schema: Schema, { service, method }: MethodName, from: Definition): TargetFailure {
  const methods = schema.services.get(service)
  const what = methods === undefined ? `service ${service}` : `method ${method} in ${service}`
  const near = nearNames(
    methods === undefined ? service : method,
    (methods ?? schema.services).keys(),
  ).join(', ')
  const fix = near === '' ? 'there are none' : `did you mean ${near}?`
  // A name missing in a proto text is a fault of the settings; one missing on the server, of the target.
  return from === 'PROTO_FILE'
    ? targetFailure<GrpcCode>('GRPC_METHOD_UNDEFINED', `the proto text has no ${what}; ${fix}`, {
        near,
      })
    : targetFailure<GrpcCode>('GRPC_METHOD_NOT_FOUND', `the server has no ${what}; ${fix}`, {
        near,
      })
}

/** The request's bytes. Throws TargetFailure GRPC_MESSAGE_INVALID with the path to the invalid value. */
export function requestBytes(message: string, method: MethodSchema, schema: Schema): Buffer {
  try {
    return encodeMessage(message, method.input, schema)
  } catch (error) {
    if (!(error instanceof MessageProblem)) throw error
    const details = { path: error.path, type: method.input.fullName }
    throw new TargetFailure(failure<GrpcCode>('GRPC_MESSAGE_INVALID', error.message, details))
  }
}
