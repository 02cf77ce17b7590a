// A gRPC server with arbitrary answers: for invalid or fragmented reflection. Built on node:http2; descriptors are
// encoded by protobufjs.
import { createServer, type ServerHttp2Stream } from 'node:http2'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import descriptor from 'protobufjs/ext/descriptor/index.js'
import { listening, type TestServer } from '../../test-server.ts'
import { message } from '../../network/http2-frames.ts'

/** The answer to a call. */
export interface StubAnswer {
  /** Each with its prefix of five bytes. */
  messages?: Buffer[]
  status?: number
  reason?: string
  headers?: Record<string, string>
}

/** Path → the answer to a request. Missing paths are UNIMPLEMENTED. */
export type StubCalls = Record<string, (request: Buffer) => StubAnswer>

/** Starts a server on a free port of loopback. */
export function startGrpcStub(calls: StubCalls): Promise<TestServer> {
  const server = createServer()
  server.on('stream', (stream, headers) => {
    const parts: Buffer[] = []
    stream.on('data', (part: Buffer) => parts.push(part))
    stream.on('error', () => undefined)
    stream.on('end', () => {
      const path = String(headers[':path'])
      const answer = calls[path]?.(Buffer.concat(parts).subarray(5)) ?? { status: 12 }
      respond(stream, answer)
    })
  })
  return listening(server)
}

function respond(stream: ServerHttp2Stream, answer: StubAnswer): void {
  const { messages = [], status = 0, reason = '', headers = {} } = answer
  stream.respond({ 'content-type': 'application/grpc', ...headers }, { waitForTrailers: true })
  stream.on('wantTrailers', () =>
    stream.sendTrailers({ 'grpc-status': String(status), 'grpc-message': reason }),
  )
  stream.end(Buffer.concat(messages))
}

/** A FileDescriptorProto. */
export function fileOf(file: Record<string, unknown>): Buffer {
  return Buffer.from(descriptor.FileDescriptorProto.encode(file).finish())
}

/** Bytes under the number of a field. */
export function field(number: number, bytes: Uint8Array): Buffer {
  return Buffer.from(new BinaryWriter().tag(number, WireType.LengthDelimited).bytes(bytes).finish())
}

/** The answer of reflection with these files. */
export function filesAnswer(...files: Buffer[]): StubAnswer {
  return { messages: [message(field(4, Buffer.concat(files.map((one) => field(1, one)))))] }
}

/** The answer of reflection with an error. */
export function errorAnswer(code: number): StubAnswer {
  return { messages: [message(field(7, Buffer.from([8, code])))] }
}

/** The query of a reflection request: the number of its field, and the name. */
export function questionOf(request: Buffer): { by: number; name: string } {
  return { by: (request[0] ?? 0) >> 3, name: request.subarray(2).toString() }
}

export const REFLECTION_PATH = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'
