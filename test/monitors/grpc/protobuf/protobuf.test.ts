// Aim: messages are written and read as ProtoJSON says; what does not fit is refused with its place; garbage never
// does more than be refused.
import { fromBinary, type DescMessage, type FileRegistry } from '@bufbuild/protobuf'
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt'
import * as fc from 'fast-check'
import { readFileSync } from 'node:fs'
import protobuf from 'protobufjs'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Failure } from '../../../../src/contract/failure.ts'
import { GRPC_LIMITS } from '../../../../src/monitors/grpc/definition.ts'
import { healthState } from '../../../../src/monitors/grpc/answer.ts'
import { Decoder } from '../../../../src/monitors/grpc/protobuf/decode.ts'
import { encodeMessage } from '../../../../src/monitors/grpc/protobuf/encode.ts'
import { registryOfText } from '../../../../src/monitors/grpc/protobuf/text.ts'
import { registryOf } from '../../../../src/monitors/grpc/protobuf/registry.ts'
import { readUntrusted } from '../../../../src/monitors/grpc/protobuf/wire.ts'
import { TargetFailure, targetFailure } from '../../../../src/network/target-failure.ts'

const file = (name: string) =>
  readFileSync(new URL(`../../../fixtures/grpc/${name}`, import.meta.url), 'utf8')

/** Both files of the fixture as one text. */
const SHOP = file('shop.proto')
  .replace('import "parts.proto";', '')
  .replaceAll('shop.parts.', '')
  .concat(file('parts.proto').replace(/^[\s\S]*?package [\w.]+;/, ''))

let registry: FileRegistry
let everything: DescMessage
let peer: protobuf.Type

beforeAll(async () => {
  registry = await registryOfText(SHOP)
  everything = messageOf('shop.v1.Everything')
  const root = new protobuf.Root()
  const parsed = protobuf.parse(SHOP, root)
  for (const name of parsed.imports ?? []) root.addJSON(protobuf.common.get(name)?.nested ?? {})
  root.resolveAll()
  peer = root.lookupType('shop.v1.Everything')
})

function messageOf(name: string): DescMessage {
  const found = registry.getMessage(name)
  if (found === undefined) throw new Error(`no ${name}`)
  return found
}

const GOOGLE = 'type.googleapis.com/'
const PRICE = { currency: 'EUR', units: '3', nanos: 0 }
/** The failure that it throws, if any; another error fails the test. */
const failureOf = (work: () => unknown): Failure | undefined => {
  try {
    work()
    return undefined
  } catch (error) {
    if (error instanceof TargetFailure) return error.failure
    throw error
  }
}
const encode = (json: unknown) => encodeMessage(JSON.stringify(json), everything, registry)
const decode = (bytes: Uint8Array) => new Decoder(registry).decode(bytes, everything)
const round = (json: unknown) => decode(encode(json)) as Record<string, unknown>

describe('ProtoJSON', () => {
  test.each<[string, Record<string, unknown>, Record<string, unknown>?]>([
    ['numbers', { aDouble: 1.25, aFloat: 0.1, anInt32: -7, aUint32: 4294967295 }],
    ['64-bit texts', { anInt64: '-9223372036854775808', aUint64: '18446744073709551615' }],
    ['64-bit numbers', { anInt64: 42, aFixed64: 7 }, { anInt64: '42', aFixed64: '7' }],
    ['zigzag', { aSint32: -2147483648, aSint64: '-9007199254740993' }],
    ['fixed', { aFixed32: 4294967295, aSfixed32: -1, aSfixed64: '-1', aFixed64: '1' }],
    ['not a number', { aDouble: 'NaN', aFloat: '-Infinity' }],
    ['numbers as texts', { anInt32: '12', aDouble: '1e3' }, { anInt32: 12, aDouble: 1000 }],
    ['a whole number with a point', { anInt32: 3.0, aUint32: '1e2' }, { anInt32: 3, aUint32: 100 }],
    ['texts of any script', { aString: 'ä\u0000€😀' }],
    ['bytes', { someBytes: 'AAEC/w==' }],
    ['bytes in the alphabet of URLs', { someBytes: '_-8' }, { someBytes: '/+8=' }],
    ['an enum by name', { size: 'SIZE_LARGE', sizes: ['SIZE_SMALL', 'SIZE_UNKNOWN'] }],
    ['an enum by number', { size: 2, sizes: [77] }, { size: 'SIZE_LARGE', sizes: [77] }],
    ['a message', { price: PRICE }],
    ['names of the .proto file', { a_double: 2, price_of: {} }, { aDouble: 2 }],
    ['a name of its own', { alias: 'x' }],
    ['lists', { numbers: [1, -1, 2147483647], words: ['', 'b'] }],
    ['a map', { priceOf: { a: PRICE }, sizeOf: { b: 'SIZE_SMALL' } }],
    ['a map with numbers as keys', { flagOf: { '-1': true, '7': false } }],
    ['one of several', { number: 0 }],
    ['an optional field that is set to its default', { maybe: 0 }],
    ['a nested message of its own type', { inner: { maybe: 1 } }, {}],
    ['a time', { at: '2026-01-31T12:00:00.500Z' }],
    ['a time with an offset', { at: '1969-12-31T23:59:59+01:00' }, { at: '1969-12-31T22:59:59Z' }],
    ['a time to the nanosecond', { at: '0001-01-01T00:00:00.000000001Z' }],
    ['durations', { lasts: '-1.000340012s' }],
    ['a short duration', { lasts: '0.5s' }, { lasts: '0.500s' }],
    ['a struct', { things: { a: [1, null, 'x', { b: true }], c: {} } }],
    ['any value', { value: [null] }],
    ['a null that is a value', { value: null }],
    ['a list of values', { list: [1.5, [], {}] }],
    ['a field mask', { mask: 'user.displayName,photo' }],
    ['wrappers', { boxedInt64: '5', boxedString: '', boxedBool: false, boxedBytes: 'AA==' }],
    ['an empty message', { empty: {} }],
    ['null is nothing', { aString: null, price: null, numbers: null, priceOf: null }, {}],
    ['an Any', { any: { '@type': `${GOOGLE}shop.v1.Price`, ...PRICE } }],
    [
      'an Any of a well-known type',
      { any: { '@type': `${GOOGLE}google.protobuf.Duration`, value: '3s' } },
    ],
  ])('%s', (_, json, expected = json) => {
    expect(round(json)).toMatchObject(expected)
  })

  test('fields without presence are always there, others only when they are set', () => {
    const empty = round({})
    expect(empty).toMatchObject({ anInt32: 0, anInt64: '0', aString: '', numbers: [], priceOf: {} })
    for (const name of ['price', 'maybe', 'name', 'number', 'at', 'boxedBool', 'any']) {
      expect(empty).not.toHaveProperty(name)
    }
  })

  test('an Any of a type that nobody knows shows its bytes', () => {
    const any = Buffer.concat([Buffer.from([10, 5]), Buffer.from('x/a.B'), Buffer.from([18, 1, 7])])
    const bytes = Buffer.concat([Buffer.from([0x8a, 2, any.length]), any])
    expect(decode(bytes)).toMatchObject({ any: { '@type': 'x/a.B', value: 'Bw==' } })
  })

  test('reads what another codec wrote', () => {
    fc.assert(
      fc.property(
        fc.record({
          aDouble: fc.double({ noNaN: true, noDefaultInfinity: true }),
          anInt32: fc.integer(),
          aSint32: fc.integer(),
          aUint32: fc.nat(),
          aString: fc.string(),
          numbers: fc.array(fc.integer()),
          words: fc.array(fc.string()),
        }),
        (json) => {
          const bytes = Buffer.from(peer.encode(peer.fromObject(json)).finish())
          // In JSON there is no -0.
          expect(decode(bytes)).toMatchObject(JSON.parse(JSON.stringify(json)) as object)
          expect(round(json)).toMatchObject(JSON.parse(JSON.stringify(json)) as object)
        },
      ),
    )
  })

  test.each<[string, string, string]>([
    ['no JSON', '{', ''],
    ['no object', '[]', ''],
    ['an unknown field', '{"aStrin": 1}', 'aStrin'],
    ['an unknown field within', '{"prices": [{}, {"unit": 1}]}', 'prices[1].unit'],
    ['a text for a number', '{"anInt32": "x"}', 'anInt32'],
    ['a number out of range', '{"anInt32": 2147483648}', 'anInt32'],
    ['a fraction', '{"anInt64": 1.5}', 'anInt64'],
    ['a negative one without a sign', '{"aUint64": "-1"}', 'aUint64'],
    ['a number for a text', '{"aString": 1}', 'aString'],
    ['a text for a bool', '{"aBool": "true"}', 'aBool'],
    ['an unknown enum', '{"size": "SIZE_HUGE"}', 'size'],
    ['bytes that are no base64', '{"someBytes": "%"}', 'someBytes'],
    ['no list', '{"numbers": 1}', 'numbers'],
    ['a list with a null', '{"numbers": [null]}', 'numbers[0]'],
    ['no map', '{"priceOf": []}', 'priceOf'],
    ['a key that is no number', '{"flagOf": {"a": true}}', 'flagOf.a'],
    ['two of a oneof', '{"name": "a", "number": 1}', 'number'],
    ['a field twice', '{"aDouble": 1, "a_double": 2}', 'a_double'],
    ['a time that is none', '{"at": "yesterday"}', 'at'],
    ['a duration that is none', '{"lasts": "1m"}', 'lasts'],
    ['an Any without a type', '{"any": {"a": 1}}', 'any'],
    ['an Any of an unknown type', '{"any": {"@type": "x/a.B"}}', 'any.@type'],
    ['a field of an Any', '{"any": {"@type": "x/shop.v1.Price", "units": "x"}}', 'any'],
    ['a float that is too large', '{"aFloat": 1e300}', 'aFloat'],
    ['nesting without end', `${'{"inner":'.repeat(200)}{}${'}'.repeat(200)}`, 'inner'],
  ])('refuses %s', (_, text, path) => {
    const problem = failureOf(() => encodeMessage(text, everything, registry))
    expect(problem?.code).toBe('GRPC_MESSAGE_INVALID')
    expect(String(problem?.details?.['path']).replace(/^(inner\.?)+$/, 'inner')).toBe(path)
  })

  test('text that is no JSON is refused without a piece of it: it may be a piece of a secret', () => {
    const encoding = () => encodeMessage('{"token": sk-secret-value}', everything, registry)
    expect(failureOf(encoding)?.message).toBe("the message is not JSON: Unexpected token 's'")
  })

  test('large whole numbers stay exact', () => {
    const bytes = encodeMessage('{"anInt64": 9007199254740993}', everything, registry)
    expect(decode(bytes)).toMatchObject({ anInt64: '9007199254740993' })
  })

  test('a problem names what would be right, and no value', () => {
    expect(() => encode({ aStrin: 1 })).toThrow(/aStrin.*aString/)
    expect(() => encode({ size: 'SIZE_LARG' })).toThrow(/SIZE_LARGE/)
    expect(() => encode({ at: 'secret' })).toThrow(/^at: must be a time like/)
    expect(() => encode({ prices: [{ units: 'secret' }] })).toThrow(
      'prices[0].units: must be of type int64 (field shop.v1.Price.units)',
    )
  })
})

describe('proto texts', () => {
  const notHere = 'import "x.proto";\nmessage M {\n  optional x.Y a = 1;\n}'
  const twice = 'message M {\n  optional int32 a = 1;\n  optional int32 a = 2;\n}'
  test.each<[string, string, string, number?]>([
    ['no number', 'syntax = "proto3";\nmessage M {\n  int32 a = ;\n}', 'illegal', 3],
    ['words', 'hello\nworld', 'illegal', 1],
    ['an end too early', 'syntax = "proto3";\nmessage M {\n  int32 a = 1;\n', 'unexpected end', 3],
    ['a type that nobody defines', 'message M {\n optional Foo a = 1; }', 'Foo is not defined'],
    ['a type of a file that is not here', notHere, 'x.Y is not defined; of the imports'],
    ['a type that a service lacks', 'message M {}\nservice S { rpc A(M) returns (N); }', 'N is'],
    ['a name twice', twice, "duplicate name 'a'"],
    ['types within types without end', 'message A {'.repeat(200), ''],
  ])('%s', async (_, text, message, line) => {
    const rejected = await registryOfText(text).catch((error: unknown) => error)
    const { failure } = rejected as TargetFailure
    expect(failure.code).toBe('GRPC_PROTO_INVALID')
    expect(failure.message).toContain(message)
    expect(failure.details?.['line']).toBe(line)
  })

  test('an import that nothing comes from does not matter', async () => {
    const text =
      'syntax = "proto3"; import "google/api/annotations.proto"; message M { int32 a = 1; }'
    expect((await registryOfText(text)).getMessage('M')).toBeDefined()
  })

  test('proto2: groups, required fields, extensions, fields that are not packed', async () => {
    const own = await registryOfText(`syntax = "proto2"; package p;
      message M { required int32 a = 1; repeated int32 n = 2; optional group G = 3 { optional int32 x = 1; } extensions 100 to 200; }
      extend M { optional string note = 100; }`)
    const message = own.getMessage('p.M') as DescMessage
    const text = '{"a": 0, "n": [1, 2], "g": {"x": 5}, "[p.note]": "hi"}'
    const bytes = encodeMessage(text, message, own)
    expect(Buffer.from(bytes).toString('hex')).toBe('0800100110021b08051ca206026869')
    expect(new Decoder(own).decode(bytes, message)).toEqual(JSON.parse(text))
    expect(() => encodeMessage('{}', message, own)).toThrow(/a: is missing/)
  })

  test('the same text is compiled once', async () => {
    expect(await registryOfText(SHOP)).toBe(registry)
  })
})

describe('hostile bytes', () => {
  const SAFE = [undefined, 'GRPC_MALFORMED', 'GRPC_MESSAGE_TOO_LARGE', 'SETTINGS_INVALID']

  test('noise is refused or read, and nothing else happens', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (noise) => {
        const bytes = Buffer.from(noise)
        const readFile = () => registryOf([fromBinary(FileDescriptorProtoSchema, bytes)])
        const invalid = (why: string) => targetFailure('SETTINGS_INVALID', why)
        expect(SAFE).toContain(failureOf(() => decode(bytes))?.code)
        expect(SAFE).toContain(failureOf(() => readUntrusted(readFile, invalid))?.code)
        expect(SAFE).toContain(failureOf(() => healthState(bytes))?.code)
      }),
      { numRuns: 3000 },
    )
  })

  test('real messages with flipped bits', () => {
    const whole = encode({
      aString: 'abc',
      prices: [{ currency: 'EUR' }, {}],
      priceOf: { a: {} },
      things: { a: [1, { b: null }] },
      any: { '@type': 'x/shop.v1.Price', units: '3' },
      inner: { inner: { numbers: [1, 2, 3] } },
    })
    fc.assert(
      fc.property(
        fc.array(fc.nat(whole.length * 8 - 1), { minLength: 1, maxLength: 5 }),
        (bits) => {
          const bent = Buffer.from(whole)
          for (const bit of bits) bent[bit >> 3] = (bent[bit >> 3] as number) ^ (1 << (bit & 7))
          expect(SAFE).toContain(failureOf(() => decode(bent))?.code)
        },
      ),
      { numRuns: 3000 },
    )
  })

  test.each<[string, Buffer]>([
    ['nesting without end', Buffer.concat(nested(300))],
    ['groups without end', Buffer.alloc(300, 0x0b)],
    ['a length beyond the end', Buffer.from([0x72, 0x7f])],
    ['a length of 64 bits', Buffer.from([0x72, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1])],
    ['a number of eleven bytes', Buffer.concat([Buffer.from([0x18]), Buffer.alloc(11, 0xff)])],
    ['field number 0', Buffer.from([0])],
    ['an end of a group that did not begin', Buffer.from([0x0c])],
  ])('%s is refused', (_, bytes) => {
    expect(failureOf(() => decode(bytes))?.code).toBe('GRPC_MALFORMED')
  })

  test('the number of values is bounded', () => {
    const packed = Buffer.alloc(GRPC_LIMITS.grpcValuesMax, 1)
    const head = Buffer.from([0x92, 0x01, 0xc0, 0x9a, 0x0c])
    const decoding = () => decode(Buffer.concat([head, packed]))
    expect(failureOf(decoding)?.code).toBe('GRPC_MESSAGE_TOO_LARGE')
  })
})

/** Messages within messages of field 42, so many deep. */
function nested(depth: number): Buffer[] {
  let inner = Buffer.alloc(0)
  for (let at = 0; at < depth; at++) {
    const { length } = inner
    const size = length < 128 ? [length] : [(length & 127) | 128, length >> 7]
    inner = Buffer.concat([Buffer.from([0xd2, 2, ...size]), inner])
  }
  return [inner]
}
