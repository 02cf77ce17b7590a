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
import { codes, runGrpc, type Options } from '../../support/monitors/grpc/grpc-run.ts'
import { message } from '../../support/monitors/grpc/http2-frames.ts'

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

/** a.S/Ask takes and gives a.M, which holds b.N of b.proto, which holds c.O of c.proto. */
const A = fileOf({
  name: 'a.proto',
  package: 'a',
  syntax: 'proto3',
  dependency: ['b.proto', 'unused.proto'],
  messageType: [
    {
      name: 'M',
      field: [
        fieldOf('n', 1, MESSAGE, { typeName: '.b.N' }),
        fieldOf('any', 2, MESSAGE, { typeName: '.google.protobuf.Any' }),
      ],
    },
  ],
  service: [{ name: 'S', method: [{ name: 'Ask', inputType: '.a.M', outputType: '.a.M' }] }],
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
  messageType: [{ name: 'N', field: [fieldOf('o', 1, MESSAGE, { typeName: '.c.O' })] }],
})
const C = fileOf({
  name: 'c.proto',
  package: 'c',
  syntax: 'proto2',
  messageType: [
    { name: 'O', field: [fieldOf('x', 1, INT32), fieldOf('list', 2, INT32, { label: REPEATED })] },
  ],
})
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

const ask = (port: number, config: Options = {}, settings: Options = {}) =>
  runGrpc({ port, config: { method: 'a.S/Ask', ...config }, settings })

describe('types', () => {
  test('come in several answers, in circles, and without what is not used', async () => {
    await using stub = await startGrpcStub({
      [REFLECTION_PATH]: piecemeal,
      '/a.S/Ask': () => answered,
    })
    const observation = await ask(stub.port, { message: '{"n": {"o": {"x": 7}}}' })
    expect(codes(observation)).toEqual([])
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
    await using stub = await startGrpcStub({
      [REFLECTION_PATH]: packed,
      '/a.S/Ask': () => answered,
    })
    expect(codes(await ask(stub.port))).toEqual([])
  })

  test('are those of now', async () => {
    let named = 'x'
    const changing = (request: Buffer) => {
      const { name } = questionOf(request)
      if (name !== 'c.proto') return piecemeal(request)
      const changed = {
        name: 'c.proto',
        package: 'c',
        syntax: 'proto2',
        messageType: [{ name: 'O', field: [fieldOf(named, 1, INT32)] }],
      }
      return filesAnswer(fileOf(changed))
    }
    await using stub = await startGrpcStub({
      [REFLECTION_PATH]: changing,
      '/a.S/Ask': () => answered,
    })
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
        if (by === 4 && name === 'a.S')
          return filesAnswer(
            fileOf({
              name: 'a2.proto',
              package: 'a',
              syntax: 'proto3',
              messageType: [
                {
                  name: 'M',
                  field: [fieldOf('any', 2, MESSAGE, { typeName: '.google.protobuf.Any' })],
                },
              ],
              service: [
                { name: 'S', method: [{ name: 'Ask', inputType: '.a.M', outputType: '.a.M' }] },
              ],
            }),
            ANY,
          )
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
    expect(codes(echoed)).toEqual([])
    expect(echoed.observed.response?.body).toBe(sent)
  })

  test('of proto2, proto3 and editions differ in what is shown when it is not set', async () => {
    const implicit = { fieldPresence: 2 }
    const edition2023 = 1000
    const file = (name: string, syntax: string, more: Options = {}) =>
      fileOf({
        name: `${name}.proto`,
        package: 'a',
        syntax,
        ...(syntax === 'editions' && { edition: edition2023 }),
        ...more,
        messageType: [
          {
            name: 'M',
            field: [
              fieldOf('x', 1, INT32),
              fieldOf('y', 2, BOOL, {
                proto3Optional: syntax === 'proto3',
                ...(syntax === 'proto3' ? { oneofIndex: 0 } : {}),
              }),
            ],
            oneofDecl: syntax === 'proto3' ? [{ name: '_y' }] : [],
          },
        ],
        service: [{ name: 'S', method: [{ name: 'Ask', inputType: '.a.M', outputType: '.a.M' }] }],
      })
    const shown = async (descriptorFile: Buffer) => {
      await using stub = await startGrpcStub({
        [REFLECTION_PATH]: () => filesAnswer(descriptorFile),
        '/a.S/Ask': () => ({ messages: [message(Buffer.alloc(0))] }),
      })
      return (await ask(stub.port)).observed.response?.body
    }
    expect(await shown(file('two', 'proto2'))).toBe('{}')
    expect(await shown(file('three', 'proto3'))).toBe('{"x":0}')
    expect(await shown(file('explicit', 'editions'))).toBe('{}')
    const features = { options: { features: implicit } }
    expect(await shown(file('implicit', 'editions', features))).toBe('{"x":0,"y":false}')
  })
})

describe('reflection that is broken', () => {
  let endless = 0
  const service = { name: 'S', method: [{ name: 'Ask', inputType: '.a.M', outputType: '.a.M' }] }
  const holding = (name: string, held: string) => ({
    name,
    field: [fieldOf('m', 1, MESSAGE, { typeName: held })],
  })
  const linked = (name: string, own: string, held: string, services: Options[] = []) =>
    fileOf({
      name,
      package: own.split('.')[1],
      messageType: [holding('M', held)],
      service: services,
    })
  const chain = fileOf({
    name: 'chain',
    package: 'a',
    messageType: Array.from({ length: 20_000 }, (_, at) =>
      holding(at === 0 ? 'M' : `M${at}`, at === 19_999 ? '.a.M' : `.a.M${at + 1}`),
    ),
    service: [service],
  })
  test.each<[string, (request: Buffer) => StubAnswer, string]>([
    ['noise', () => ({ messages: [message(Buffer.alloc(50, 0xff))] }), 'GRPC_SCHEMA_INVALID'],
    ['files that are none', () => filesAnswer(Buffer.alloc(50, 0xff)), 'GRPC_SCHEMA_INVALID'],
    ['a type that is nowhere', () => filesAnswer(A), 'GRPC_SCHEMA_INVALID'],
    [
      'a service without its types',
      () => filesAnswer(fileOf({ name: 'x', package: 'a', service: [service] })),
      'GRPC_SCHEMA_INVALID',
    ],
    [
      'a field of an unknown type',
      () =>
        filesAnswer(
          fileOf({
            name: 'x',
            package: 'a',
            messageType: [{ name: 'M', field: [fieldOf('f', 1, 99)] }],
            service: [service],
          }),
        ),
      'GRPC_SCHEMA_INVALID',
    ],
    [
      'types of two files in a circle',
      () => filesAnswer(linked('x', '.a.M', '.b.M', [service]), linked('y', '.b.M', '.a.M')),
      'GRPC_SCHEMA_INVALID',
    ],
    ['types within types without end', () => filesAnswer(chain), 'GRPC_SCHEMA_INVALID'],
    [
      'a package of a thousand parts',
      () => filesAnswer(fileOf({ name: 'x', package: 'a.'.repeat(1000) + 'a' })),
      'GRPC_SCHEMA_INVALID',
    ],
    ['no answer', () => ({}), 'GRPC_SCHEMA_INVALID'],
    ['an empty answer', () => ({ messages: [message(Buffer.alloc(0))] }), 'GRPC_METHOD_NOT_FOUND'],
    ['an error', () => errorAnswer(7), 'GRPC_SCHEMA_INVALID'],
    ['nothing found', () => NOT_FOUND, 'GRPC_METHOD_NOT_FOUND'],
    ['credentials asked for', () => ({ status: 16, reason: 'who%3F' }), 'GRPC_STATUS'],
    ['a web page', () => ({ headers: { 'content-type': 'text/html' } }), 'GRPC_NOT_SPOKEN'],
    [
      'files without end',
      () => filesAnswer(fileOf({ name: `f${endless++}`, dependency: [`f${endless}`] })),
      'GRPC_SCHEMA_INVALID',
    ],
    [
      'a message without end',
      () => ({ messages: [message(Buffer.alloc(9), 0, 0xffffffff)] }),
      'GRPC_MESSAGE_TOO_LARGE',
    ],
  ])('%s', async (_, reflection, code) => {
    await using stub = await startGrpcStub({ [REFLECTION_PATH]: reflection })
    const observation = await ask(stub.port)
    expect(codes(observation)).toEqual([code])
  })

  test('many files are no more than the limit', async () => {
    endless = 0
    await using stub = await startGrpcStub({
      [REFLECTION_PATH]: () =>
        filesAnswer(fileOf({ name: `f${endless++}`, dependency: [`f${endless}`] })),
    })
    await ask(stub.port)
    expect(endless).toBeLessThanOrEqual(GRPC_LIMITS.grpcDescriptorFilesMax + 1)
  })

  test('names that are repeated make no answer without end', async () => {
    const long = 'x'.repeat(60_000)
    const file = fileOf({
      name: 'long.proto',
      package: 'a',
      syntax: 'proto3',
      messageType: [
        {
          name: 'M',
          field: [
            fieldOf(long, 1, INT32),
            fieldOf('m', 2, MESSAGE, { typeName: '.a.M', label: REPEATED }),
          ],
        },
      ],
      service: [service],
    })
    await using stub = await startGrpcStub({
      [REFLECTION_PATH]: () => filesAnswer(file),
      '/a.S/Ask': () => ({
        messages: [
          message(Buffer.concat(Array.from({ length: 5000 }, () => Buffer.from([18, 0])))),
        ],
      }),
    })
    expect(codes(await ask(stub.port))).toEqual(['GRPC_MESSAGE_TOO_LARGE'])
  })
})
