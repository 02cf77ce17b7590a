// Aim: types are put together from whatever pieces a server's reflection gives them in, are never out of date,
// and hostile or broken reflection ends with a stable code.
import { createServer, type ServerHttp2Stream } from 'node:http2'
import { gzipSync } from 'node:zlib'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import descriptor from 'protobufjs/ext/descriptor/index.js'
import { describe, expect, test } from 'vitest'
import { codesOf } from '../../support/monitors/check-monitor.ts'
import { runGrpc, type Options } from '../../support/monitors/grpc/grpc-run.ts'
import { message } from '../../support/network/http2-frames.ts'
import { listening, type TestServer } from '../../support/test-server.ts'

/** The answer to a call. */
interface StubAnswer {
  /** Each with its prefix of five bytes. */
  messages?: Buffer[]
  status?: number
  headers?: Record<string, string>
}

/** Path → the answer to a request. Missing paths are UNIMPLEMENTED. */
type StubCalls = Record<string, (request: Buffer) => StubAnswer>

/** A server with arbitrary answers, for invalid or fragmented reflection. */
function startGrpcStub(calls: StubCalls): Promise<TestServer> {
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
  const { messages = [], status = 0, headers = {} } = answer
  stream.respond({ 'content-type': 'application/grpc', ...headers }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': String(status) }))
  stream.end(Buffer.concat(messages))
}

/** A FileDescriptorProto. */
function fileOf(file: Record<string, unknown>): Buffer {
  return Buffer.from(descriptor.FileDescriptorProto.encode(file).finish())
}

/** Bytes under the number of a field. */
function field(number: number, bytes: Uint8Array): Buffer {
  return Buffer.from(new BinaryWriter().tag(number, WireType.LengthDelimited).bytes(bytes).finish())
}

/** The answer of reflection with these files. */
function filesAnswer(...files: Buffer[]): StubAnswer {
  return { messages: [message(field(4, Buffer.concat(files.map((one) => field(1, one)))))] }
}

/** The answer of reflection with an error. */
function errorAnswer(code: number): StubAnswer {
  return { messages: [message(field(7, Buffer.from([8, code])))] }
}

/** The query of a reflection request: the number of its field, and the name. */
function questionOf(request: Buffer): { by: number; name: string } {
  return { by: (request[0] ?? 0) >> 3, name: request.subarray(2).toString() }
}

const REFLECTION_PATH = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'

const OPTIONAL = 1
const REPEATED = 3
const [INT32, STRING, MESSAGE] = [5, 9, 11]

const fieldOf = (name: string, number: number, type: number | undefined, more: Options = {}) => {
  return { name, number, type, label: OPTIONAL, ...more }
}
/** A file of proto3 with one message. */
const fileWith = (name: string, of: string, type: Options, more: Options = {}) =>
  fileOf({ name, package: of, syntax: 'proto3', messageType: [type], ...more })

const service = { name: 'S', method: [{ name: 'Ask', inputType: '.a.M', outputType: '.a.M' }] }
/** A file that defines a.M with these fields, and a.S/Ask, which takes and gives it. */
const serviceFile = (fields: Options[], more: Options = {}) =>
  fileWith('a.proto', 'a', { name: 'M', field: fields }, { service: [service], ...more })
const ofType = (name: string, number: number, typeName: string, more: Options = {}) =>
  fieldOf(name, number, MESSAGE, { typeName, ...more })

/** a.M holds b.N of b.proto, which holds c.O of c.proto. */
const anyField = ofType('any', 2, '.google.protobuf.Any')
const dependency = ['b.proto', 'unused.proto']
const A = serviceFile([ofType('n', 1, '.b.N'), anyField], { dependency })
const ANY = fileWith('google/protobuf/any.proto', 'google.protobuf', {
  name: 'Any',
  field: [fieldOf('type_url', 1, STRING), fieldOf('value', 2, 12)],
})
const OF_B = { dependency: ['c.proto', 'a.proto', 'google/protobuf/any.proto'] }
const B = fileWith('b.proto', 'b', { name: 'N', field: [ofType('o', 1, '.c.O')] }, OF_B)
const fileC = (...fields: Options[]) =>
  fileWith('c.proto', 'c', { name: 'O', field: fields }, { syntax: 'proto2' })
const C = fileC(fieldOf('x', 1, INT32), fieldOf('list', 2, INT32, { label: REPEATED }))
const FILES: Record<string, Buffer> = {
  'a.proto': A,
  'b.proto': B,
  'c.proto': C,
  'google/protobuf/any.proto': ANY,
}
const NOT_FOUND = errorAnswer(5)

/** Answers with one file at a time. */
const piecemeal = (request: Buffer): StubAnswer => {
  const { by, name } = questionOf(request)
  const file = by === 4 ? A : FILES[name]
  return file === undefined ? NOT_FOUND : filesAnswer(file)
}

/** {n: {o: {x: 7, list: [1, 2]}}} */
const answered = { messages: [message(field(1, field(1, Buffer.from([8, 7, 16, 1, 16, 2]))))] }

const ask = (port: number, config: Options = {}) =>
  runGrpc({ port, config: { method: 'a.S/Ask', ...config } })
const start = (reflection: (request: Buffer) => StubAnswer, reply: StubAnswer = answered) =>
  startGrpcStub({ [REFLECTION_PATH]: reflection, '/a.S/Ask': () => reply })

describe('types', () => {
  test('come in several answers, in circles, and without what is not used', async () => {
    await using stub = await start(piecemeal)
    const observation = await ask(stub.port, { message: '{"n": {"o": {"x": 7}}}' })
    expect(observation.codes).toEqual([])
    expect(observation.observed.response?.body).toBe('{"n":{"o":{"x":7,"list":[1,2]}}}')
    expect(observation.observed.reflection).toMatchObject({ files: 4 })
  })

  test('come packed', async () => {
    const packed = (request: Buffer) => {
      const [plain = Buffer.alloc(0)] = piecemeal(request).messages ?? []
      const messages = [message(gzipSync(plain.subarray(5)), 1)]
      return { messages, headers: { 'grpc-encoding': 'gzip' } }
    }
    await using stub = await start(packed)
    expect(await codesOf(ask(stub.port))).toEqual([])
  })

  test('are those of now', async () => {
    let named = 'x'
    const changing = (request: Buffer) => {
      const { name } = questionOf(request)
      if (name !== 'c.proto') return piecemeal(request)
      return filesAnswer(fileC(fieldOf(named, 1, INT32)))
    }
    await using stub = await start(changing)
    for (const name of ['x', 'y', 'x']) {
      named = name
      const observation = await ask(stub.port)
      expect(observation.observed.response?.body).toContain(`"${name}":7`)
    }
  })

  test('of an Any are asked for as well', async () => {
    const typeUrl = field(1, Buffer.from('type.test/c.O'))
    const any = Buffer.concat([typeUrl, field(2, Buffer.from([8, 9]))])
    await using stub = await startGrpcStub({
      [REFLECTION_PATH]: (request) => {
        const { by, name } = questionOf(request)
        if (by === 4 && name === 'a.S') return filesAnswer(serviceFile([anyField]), ANY)
        return by === 4 && name === 'c.O' ? filesAnswer(C) : NOT_FOUND
      },
      '/a.S/Ask': (request) => ({
        messages: [message(request.length > 0 ? request : field(2, any))],
      }),
    })
    const seen = await ask(stub.port)
    expect(seen.observed.response?.body).toBe('{"any":{"@type":"type.test/c.O","x":9,"list":[]}}')
    const sent = '{"any":{"@type":"type.googleapis.com/c.O","x":5,"list":[3]}}'
    const echoed = await ask(stub.port, { message: sent })
    expect(echoed.codes).toEqual([])
    expect(echoed.observed.response?.body).toBe(sent)
  })
})

describe('reflection that is broken', () => {
  let endless = 0
  const withoutEnd = () =>
    filesAnswer(fileOf({ name: `f${endless++}`, dependency: [`f${endless}`] }))
  const back = fileWith('y', 'b', { name: 'M', field: [ofType('m', 1, '.a.M')] })
  const circle = () => filesAnswer(serviceFile([ofType('m', 1, '.b.M')]), back)
  const chain = serviceFile([], {
    messageType: Array.from({ length: 20_000 }, (_, at) => ({
      name: at === 0 ? 'M' : `M${at}`,
      field: [ofType('m', 1, at === 19_999 ? '.a.M' : `.a.M${at + 1}`)],
    })),
  })
  const deep = fileOf({ name: 'x', package: 'a.'.repeat(1000) + 'a' })
  const answering = (bytes: Buffer) => () => ({ messages: [message(bytes)] })
  const noise = Buffer.alloc(50, 0xff)
  const huge = { messages: [message(Buffer.alloc(9), 0, 0xffffffff)] }
  const typeless = serviceFile([fieldOf('f', 1, 99)])
  test.each<[string, (request: Buffer) => StubAnswer, string]>([
    ['noise', answering(noise), 'GRPC_SCHEMA_INVALID'],
    ['a type that is nowhere', () => filesAnswer(A), 'GRPC_SCHEMA_INVALID'],
    ['a field of an unknown type', () => filesAnswer(typeless), 'GRPC_SCHEMA_INVALID'],
    ['types of two files in a circle', circle, 'GRPC_SCHEMA_INVALID'],
    ['types within types without end', () => filesAnswer(chain), 'GRPC_SCHEMA_INVALID'],
    ['a package of a thousand parts', () => filesAnswer(deep), 'GRPC_SCHEMA_INVALID'],
    ['files without end', withoutEnd, 'GRPC_SCHEMA_INVALID'],
    ['no answer', () => ({}), 'GRPC_SCHEMA_INVALID'],
    ['nothing found', () => NOT_FOUND, 'GRPC_METHOD_NOT_FOUND'],
    ['a message without end', () => huge, 'GRPC_MESSAGE_TOO_LARGE'],
  ])('%s', async (_, reflection, code) => {
    await using stub = await startGrpcStub({ [REFLECTION_PATH]: reflection })
    expect(await codesOf(ask(stub.port))).toEqual([code])
  })

  test('names that are repeated make no answer without end', async () => {
    const again = ofType('m', 2, '.a.M', { label: REPEATED })
    const file = serviceFile([fieldOf('x'.repeat(60_000), 1, INT32), again])
    const many = Buffer.concat(Array.from({ length: 5000 }, () => Buffer.from([18, 0])))
    await using stub = await start(() => filesAnswer(file), { messages: [message(many)] })
    expect(await codesOf(ask(stub.port))).toEqual(['GRPC_MESSAGE_TOO_LARGE'])
  })
})
