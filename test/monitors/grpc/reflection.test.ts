// Aim: types are put together from whatever pieces a server's reflection gives them in, are never out of date,
// and hostile or broken reflection ends with a stable code.
import { GRPC_LIMITS } from '../../../src/monitors/grpc/definition.ts'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import {
  errorAnswer,
  field,
  fileOf,
  filesAnswer,
  questionOf,
  REFLECTION_PATH,
  startGrpcStub,
  type StubAnswer,
} from '../../support/monitors/grpc/grpc-stub.ts'
import { codesOf } from '../../support/monitors/check-monitor.ts'
import { runGrpc, type Options } from '../../support/monitors/grpc/grpc-run.ts'
import { message } from '../../support/network/http2-frames.ts'

const OPTIONAL = 1
const REPEATED = 3
const [INT32, BOOL, STRING, MESSAGE] = [5, 8, 9, 11]

const fieldOf = (name: string, number: number, type: number | undefined, more: Options = {}) => ({
  name,
  number,
  type,
  label: OPTIONAL,
  ...more,
})

const service = { name: 'S', method: [{ name: 'Ask', inputType: '.a.M', outputType: '.a.M' }] }
/** A file that defines a.M with these fields, and a.S/Ask, which takes and gives it. */
const serviceFile = (fields: Options[], more: Options = {}) =>
  fileOf({
    name: 'a.proto',
    package: 'a',
    syntax: 'proto3',
    messageType: [{ name: 'M', field: fields }],
    service: [service],
    ...more,
  })
const ofType = (name: string, number: number, typeName: string, more: Options = {}) =>
  fieldOf(name, number, MESSAGE, { typeName, ...more })

/** a.M holds b.N of b.proto, which holds c.O of c.proto. */
const anyField = ofType('any', 2, '.google.protobuf.Any')
const A = serviceFile([ofType('n', 1, '.b.N'), anyField], {
  dependency: ['b.proto', 'unused.proto'],
})
const ANY = fileOf({
  name: 'google/protobuf/any.proto',
  package: 'google.protobuf',
  syntax: 'proto3',
  messageType: [{ name: 'Any', field: [fieldOf('type_url', 1, STRING), fieldOf('value', 2, 12)] }],
})
const B = fileOf({
  name: 'b.proto',
  package: 'b',
  syntax: 'proto3',
  dependency: ['c.proto', 'a.proto', 'google/protobuf/any.proto'],
  messageType: [{ name: 'N', field: [ofType('o', 1, '.c.O')] }],
})
const fileC = (...fields: Options[]) =>
  fileOf({
    name: 'c.proto',
    package: 'c',
    syntax: 'proto2',
    messageType: [{ name: 'O', field: fields }],
  })
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
      return {
        messages: [message(gzipSync(plain.subarray(5)), 1)],
        headers: { 'grpc-encoding': 'gzip' },
      }
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
    const any = Buffer.concat([
      field(1, Buffer.from('type.test/c.O')),
      field(2, Buffer.from([8, 9])),
    ])
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

  test('of proto2, proto3 and editions differ in what is shown when it is not set', async () => {
    const [x, y] = [fieldOf('x', 1, INT32), fieldOf('y', 2, BOOL)]
    const shown = async (syntax: string, more: Options = {}) => {
      const file = serviceFile([x, y], { syntax, ...more })
      await using stub = await start(() => filesAnswer(file), {
        messages: [message(Buffer.alloc(0))],
      })
      return (await ask(stub.port)).observed.response?.body
    }
    const optional = { ...y, proto3Optional: true, oneofIndex: 0 }
    const messageType = [{ name: 'M', field: [x, optional], oneofDecl: [{ name: '_y' }] }]
    expect(await shown('proto2')).toBe('{}')
    expect(await shown('proto3', { messageType })).toBe('{"x":0}')
    const edition = 1000 // 2023
    expect(await shown('editions', { edition })).toBe('{}')
    const options = { features: { fieldPresence: 2 } }
    expect(await shown('editions', { edition, options })).toBe('{"x":0,"y":false}')
  })
})

describe('reflection that is broken', () => {
  let endless = 0
  const withoutEnd = () =>
    filesAnswer(fileOf({ name: `f${endless++}`, dependency: [`f${endless}`] }))
  const linked = (name: string, held: string) =>
    fileOf({
      name,
      package: 'b',
      syntax: 'proto3',
      messageType: [{ name: 'M', field: [ofType('m', 1, held)] }],
    })
  const circle = () => filesAnswer(serviceFile([ofType('m', 1, '.b.M')]), linked('y', '.a.M'))
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
  const untyped = serviceFile([], { messageType: [] })
  test.each<[string, (request: Buffer) => StubAnswer, string]>([
    ['noise', answering(noise), 'GRPC_SCHEMA_INVALID'],
    ['files that are none', () => filesAnswer(noise), 'GRPC_SCHEMA_INVALID'],
    ['a type that is nowhere', () => filesAnswer(A), 'GRPC_SCHEMA_INVALID'],
    ['a service without its types', () => filesAnswer(untyped), 'GRPC_SCHEMA_INVALID'],
    ['a field of an unknown type', () => filesAnswer(typeless), 'GRPC_SCHEMA_INVALID'],
    ['types of two files in a circle', circle, 'GRPC_SCHEMA_INVALID'],
    ['types within types without end', () => filesAnswer(chain), 'GRPC_SCHEMA_INVALID'],
    ['a package of a thousand parts', () => filesAnswer(deep), 'GRPC_SCHEMA_INVALID'],
    ['files without end', withoutEnd, 'GRPC_SCHEMA_INVALID'],
    ['no answer', () => ({}), 'GRPC_SCHEMA_INVALID'],
    ['an error', () => errorAnswer(7), 'GRPC_SCHEMA_INVALID'],
    ['an empty answer', answering(Buffer.alloc(0)), 'GRPC_METHOD_NOT_FOUND'],
    ['nothing found', () => NOT_FOUND, 'GRPC_METHOD_NOT_FOUND'],
    ['credentials asked for', () => ({ status: 16, reason: 'who%3F' }), 'GRPC_STATUS'],
    ['a web page', () => ({ headers: { 'content-type': 'text/html' } }), 'GRPC_NOT_SPOKEN'],
    ['a message without end', () => huge, 'GRPC_MESSAGE_TOO_LARGE'],
  ])('%s', async (_, reflection, code) => {
    await using stub = await startGrpcStub({ [REFLECTION_PATH]: reflection })
    const observation = await ask(stub.port)
    expect(observation.codes).toEqual([code])
  })

  test('many files are no more than the limit', async () => {
    endless = 0
    await using stub = await start(withoutEnd)
    await ask(stub.port)
    expect(endless).toBeLessThanOrEqual(GRPC_LIMITS.grpcDescriptorFilesMax + 1)
  })

  test('names that are repeated make no answer without end', async () => {
    const again = ofType('m', 2, '.a.M', { label: REPEATED })
    const file = serviceFile([fieldOf('x'.repeat(60_000), 1, INT32), again])
    const many = Buffer.concat(Array.from({ length: 5000 }, () => Buffer.from([18, 0])))
    await using stub = await start(() => filesAnswer(file), { messages: [message(many)] })
    expect(await codesOf(ask(stub.port))).toEqual(['GRPC_MESSAGE_TOO_LARGE'])
  })
})
