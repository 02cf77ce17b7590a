// The standard health check: grpc.health.v1.Health/Check (grpc/doc/health-checking.md).
import { GRPC_HEALTH_STATES } from './definition.ts'
import { ProtobufMalformed, readFields, WIRE, WireWriter } from './protobuf/wire.ts'

/** The path of the call. */
export const HEALTH_PATH = '/grpc.health.v1.Health/Check'

export type HealthState = (typeof GRPC_HEALTH_STATES)[number]

/** The request for a service, empty for the whole server. */
export function healthRequest(service: string): Buffer {
  const writer = new WireWriter()
  if (service !== '') {
    writer.tag(1, WIRE.bytes)
    writer.text(service)
  }
  return writer.written
}

/** The state in an answer. Throws ProtobufMalformed for invalid bytes. */
export function healthState(bytes: Buffer): HealthState {
  let number = 0
  readFields(bytes, { 1: (reader) => (number = reader.int32()) })
  const state = GRPC_HEALTH_STATES[number]
  if (state === undefined) throw new ProtobufMalformed(`${number} is no state of health`)
  return state
}
