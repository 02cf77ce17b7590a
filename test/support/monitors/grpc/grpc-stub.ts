// A gRPC server with arbitrary answers: for invalid or fragmented reflection. Built on node:http2; descriptors are
// encoded by protobufjs.
import { createServer, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { once } from 'node:events'
import descriptor from 'protobufjs/ext/descriptor/index.js'
import { message } from './http2-frames.ts'

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

export interface Stub extends AsyncDisposable {
  port: number
}

/** Starts a server on a free port of loopback. */
export async function startGrpcStub(calls: StubCalls): Promise<Stub> {
  const sockets = new Set<Socket>()
  const server = createServer().on('connection', (socket: Socket) => sockets.add(socket))
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
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  return {
    port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
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
  const { length } = bytes
  const size =
    length < 128
      ? [length]
      : [(length & 127) | 128, ((length >> 7) & 127) | (length > 16383 ? 128 : 0)]
  if (length > 16383) size.push(length >> 14)
  return Buffer.concat([Buffer.from([number * 8 + 2, ...size]), bytes])
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
