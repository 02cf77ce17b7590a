// Aim: a gRPC check says exactly what the server did: health, unary and streamed calls by reflection and by
// a proto text, with every status.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readFileSync } from 'node:fs'
import { GrpcMonitor } from '../../../src/monitors/grpc/definition.ts'
import { grpc } from '../../../src/monitors/grpc/index.ts'
import type { GrpcObserved } from '../../../src/monitors/grpc/observed.ts'
import { startGrpcServer, type GrpcServer } from '../../support/monitors/grpc/grpc-server.ts'
import { codesOf } from '../../support/monitors/check-monitor.ts'
import { runGrpc, type Options } from '../../support/monitors/grpc/grpc-run.ts'
import { testContext } from '../../support/monitors/monitor-context.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

let server: GrpcServer
beforeAll(async () => {
  server = await startGrpcServer({ health: { '': 1, unknown: 0, serving: 1, down: 2, gone: 3 } })
})
afterAll(() => server.close())

const run = (config: Options, request: Options = {}, settings: Options = {}) =>
  runGrpc({ port: server.port, config, request, settings })
const calling = (method: string) => (message: unknown) => ({
  method: `shop.v1.Shop/${method}`,
  message: JSON.stringify(message),
})
const [greet, count] = [calling('Greet'), calling('Count')]
const asserting = (source: string, comparison: string, target = '', property = '') => ({
  assertions: [{ source, comparison, target, property }],
})
const bodyOf = ({ observed }: { observed: GrpcObserved }): unknown =>
  JSON.parse(observed.response?.body ?? 'null')

describe('health', () => {
  test.each([
    ['the whole server', '', 'SERVING', []],
    ['SERVING', 'serving', 'SERVING', []],
    ['NOT_SERVING', 'down', 'NOT_SERVING', ['GRPC_NOT_SERVING']],
    ['UNKNOWN', 'unknown', 'UNKNOWN', ['GRPC_NOT_SERVING']],
    ['SERVICE_UNKNOWN is a state', 'gone', 'SERVICE_UNKNOWN', ['GRPC_NOT_SERVING']],
    ['NOT_FOUND is a status', 'nobody', undefined, ['GRPC_SERVICE_NOT_FOUND']],
  ])('%s', async (_, service, healthStatus, failures) => {
    const observation = await run({ mode: 'HEALTH', service })
    expect(observation.codes).toEqual(failures)
    expect(observation.observed.healthStatus).toBe(healthStatus)
  })

  test('an assertion says which state is right', async () => {
    const wanted = asserting('GRPC_HEALTHCHECK_STATUS', 'EQUALS', '2')
    expect(await codesOf(run({ mode: 'HEALTH', service: 'down' }, wanted))).toEqual([])
    expect(await codesOf(run({ mode: 'HEALTH' }, wanted))).toEqual(['ASSERTION_FAILED'])
  })

  test('all that is seen', async () => {
    const { observed } = await run({ mode: 'HEALTH', service: 'serving' })
    const ms = expect.any(Number) as number
    expect(observed).toEqual({
      port: server.port,
      mode: 'HEALTH',
      service: 'serving',
      address: '127.0.0.1',
      family: 'IPv4',
      phases: { dnsMs: 0, connectMs: ms, firstByteMs: ms, downloadMs: ms, totalMs: ms },
      httpStatus: 200,
      statusCode: 0,
      status: 'OK',
      statusMessage: 'OK',
      statusOrigin: 'server',
      healthStatus: 'SERVING',
      response: {
        metadata: expect.objectContaining({ 'content-type': 'application/grpc+proto' }) as object,
        trailers: {},
        messages: 1,
        bytes: 7,
        encoding: 'identity',
        body: '{"status":"SERVING"}',
        bodyTruncated: false,
      },
    })
  })
})

describe('calls by reflection', () => {
  test.each([
    ['with a slash', 'shop.v1.Shop/Greet'],
    ['with a dot', 'shop.v1.Shop.Greet'],
    ['as a path', '/shop.v1.Shop/Greet'],
  ])('a method may be written %s', async (_, method) => {
    const observation = await run({ method, message: '{"name": "Ann"}' })
    expect(observation.codes).toEqual([])
    expect(bodyOf(observation)).toMatchObject({ text: 'hello Ann' })
    expect(observation.observed.reflection).toMatchObject({ version: 'v1' })
  })

  test('v1alpha, where the server has nothing else', async () => {
    await using old = await startGrpcServer({ reflection: ['v1alpha'] })
    const observation = await run(greet({ name: 'Ann' }), { port: old.port })
    expect(observation.codes).toEqual([])
    expect(observation.observed.reflection?.version).toBe('v1alpha')
  })

  test('none at all', async () => {
    await using bare = await startGrpcServer({ reflection: [] })
    const observation = await run(greet({}), { port: bare.port })
    expect(observation.codes).toEqual(['GRPC_REFLECTION_UNAVAILABLE'])
  })
})

const text = readFileSync(new URL('../../fixtures/grpc/shop.proto', import.meta.url), 'utf8')
// The fixture's other file is not known to a monitor.
const protoContent = text
  .replace('import "parts.proto";', '')
  .replaceAll(/^.*shop\.parts\..*$/gm, '')
const byText = (config: Options) => ({ serviceDefinition: 'PROTO_FILE', protoContent, ...config })

describe('calls by a proto text', () => {
  test('needs no reflection', async () => {
    await using bare = await startGrpcServer({ reflection: [] })
    const observation = await run(byText(greet({ name: 'Ann' })), { port: bare.port })
    expect(observation.codes).toEqual([])
    expect(bodyOf(observation)).toMatchObject({ text: 'hello Ann' })
  })

  test('well-known types', async () => {
    const message = '{"at": "2026-01-31T12:00:00Z", "things": {"a": [1]}, "boxedInt64": "5"}'
    const observation = await run(byText({ method: 'shop.v1.Shop/Echo', message }))
    expect(bodyOf(observation)).toMatchObject(JSON.parse(message) as object)
  })

  test('a long text that may name a type costs no more time than its length', async () => {
    const message = `{"@type": "${'a'.repeat(200_000)} "}`
    const ownMs = startStopwatch()
    const checking = run(byText({ method: 'shop.v1.Shop/Greet', message }))
    expect(await codesOf(checking)).toEqual(['GRPC_MESSAGE_INVALID'])
    expect(ownMs()).toBeLessThan(2000)
  })

  test('is evaluated before the target is asked', async () => {
    const checking = run(byText({ ...greet({ a: 1 }) }), { port: 1 })
    expect(await codesOf(checking)).toEqual(['GRPC_MESSAGE_INVALID'])
  })
})

test.each<[string, Options, string, RegExp]>([
  ['a text that does not parse', byText({ protoContent: 'a\nb' }), 'GRPC_PROTO_INVALID', /line 1/],
  ['a method that the text lacks', byText(calling('Gret')({})), 'GRPC_METHOD_UNDEFINED', /Greet/],
  ['a method that the server lacks', calling('Gret')({}), 'GRPC_METHOD_NOT_FOUND', /Greet/],
  ['a service', { method: 'shop.v1.Shopp/Greet' }, 'GRPC_METHOD_NOT_FOUND', /shop\.v1\.Shop\b/],
  ['a field of the request', greet({ nam: 'Ann' }), 'GRPC_MESSAGE_INVALID', /^nam: .*name/],
  ['a stream of requests', calling('Collect')({}), 'GRPC_METHOD_UNSUPPORTED', /takes a stream/],
  ['a bidirectional stream', calling('Talk')({}), 'GRPC_METHOD_UNSUPPORTED', /bidirectional/],
])('%s is reported, with what may have been meant', async (_, config, code, message) => {
  const { failures } = await run({ method: 'S/A', ...config })
  expect(failures).toMatchObject([{ code, message: expect.stringMatching(message) as string }])
})

describe('streams of answers', () => {
  test('are a list', async () => {
    const wanted = asserting('GRPC_RESPONSE', 'EQUALS', 'number 2', '$[2].text')
    const observation = await run(count({ count: 3 }), wanted)
    expect(observation.codes).toEqual([])
    expect(observation.observed.response?.messages).toBe(3)
  })

  test('may be empty', async () => {
    const observation = await run(count({ count: 0 }), asserting('TEXT_BODY', 'EQUALS', '[]'))
    expect(observation.codes).toEqual([])
  })

  test('end with a status, too', async () => {
    const observation = await run(count({ count: 2, status: 8, reason: 'that is all' }))
    expect(observation.codes).toEqual(['GRPC_STATUS'])
    expect(observation.observed).toMatchObject({ status: 'RESOURCE_EXHAUSTED' })
    expect(observation.observed.response?.messages).toBe(2)
  })

  test('are bounded', async () => {
    expect(await codesOf(run(count({ count: 1001 })))).toEqual(['GRPC_STREAM_TOO_LARGE'])
    expect(await codesOf(run(count({ count: 1000 })))).toEqual([])
  })

  test('are cut short where the monitor has enough', async () => {
    const observation = await run({ ...count({ count: 500 }), messagesMax: 2 })
    expect(observation.codes).toEqual([])
    expect(observation.observed).toMatchObject({ status: 'OK', statusOrigin: 'client' })
    expect(bodyOf(observation)).toHaveLength(2)
  })
})

describe('status', () => {
  test.each([
    [1, 'CANCELLED'],
    [5, 'NOT_FOUND'],
    [14, 'UNAVAILABLE'],
    [16, 'UNAUTHENTICATED'],
    [42, 'UNKNOWN'],
  ])('%i %s fails', async (code, status) => {
    const observation = await run(greet({ status: code, reason: 'warum? 100% ä' }))
    expect(observation.codes).toEqual(['GRPC_STATUS'])
    expect(observation.observed).toMatchObject({
      statusCode: code,
      status,
      statusMessage: 'warum? 100% ä',
      statusOrigin: 'server',
    })
  })

  test('that an assertion asks for passes', async () => {
    const wanted = asserting('GRPC_STATUS_CODE', 'EQUALS', '5')
    expect(await codesOf(run(greet({ status: 5 }), wanted))).toEqual([])
  })

  test('that shouldFail expects passes, and so does a good one', async () => {
    for (const status of [0, 5]) {
      expect(await codesOf(run(greet({ status }), {}, { shouldFail: true }))).toEqual([])
    }
    const health = { mode: 'HEALTH', service: 'down' }
    expect(await codesOf(run(health, {}, { shouldFail: true }))).toEqual([])
  })
})

describe('assertions', () => {
  test.each([
    ['GRPC_RESPONSE', 'EQUALS', 'hello Ann', '$.text', []],
    ['GRPC_RESPONSE', 'EQUALS', 'hello Bob', '$.text', ['ASSERTION_FAILED']],
    ['GRPC_RESPONSE', 'EQUALS', '0', '$.index', []],
    ['TEXT_BODY', 'CONTAINS', 'hello', '', []],
    ['TEXT_BODY', 'EQUALS', 'Ann', 'hello (\\w+)', []],
    ['GRPC_STATUS_CODE', 'EQUALS', '0', '', []],
    ['GRPC_STATUS_CODE', 'GREATER_THAN', '0', '', ['ASSERTION_FAILED']],
    ['RESPONSE_TIME', 'LESS_THAN', '20000', '', []],
    ['RESPONSE_TIME', 'GREATER_THAN', '20000', '', ['ASSERTION_FAILED']],
  ])('%s %s %s', async (source, comparison, target, property, failures) => {
    const wanted = asserting(source, comparison, target, property)
    expect(await codesOf(run(greet({ name: 'Ann' }), wanted))).toEqual(failures)
  })
})

test.each([
  ['EQUALS', '9007199254740992', '$.anInt64', ['ASSERTION_FAILED']],
  ['GREATER_THAN', '9007199254740992', '$.anInt64', []],
  ['EQUALS', '1152921504606847000', '$.aDouble', []],
  ['EQUALS', '1152921504606847001', '$.aDouble', ['ASSERTION_FAILED']],
])('a long integer of an answer %s %s', async (comparison, target, property, failures) => {
  const wanted = asserting('GRPC_RESPONSE', comparison, target, property)
  const message = '{"anInt64": 9007199254740993, "aDouble": 1152921504606846976}'
  expect(await codesOf(run({ method: 'shop.v1.Shop/Echo', message }, wanted))).toEqual(failures)
})

describe('response time', () => {
  test('above degradedResponseTime degrades', async () => {
    expect((await run(greet({}), {}, { degradedResponseTime: 0 })).degraded).toBe(true)
    expect((await run(greet({}))).degraded).toBe(false)
  })

  test('is without the time for reflection', async () => {
    const { responseTimeMs = 0, observed } = await run(greet({}))
    const { totalMs, reflectionMs = 0 } = observed.phases
    expect(reflectionMs).toBeGreaterThan(0)
    expect(responseTimeMs).toBeCloseTo(totalMs - reflectionMs, 3)
  })
})

test('metrics are blackbox_exporter’s', async () => {
  const { observed } = await run({ mode: 'HEALTH', service: 'down' })
  const samples = new Map(
    grpc
      .samples(observed)
      .map(({ name, value, labels = {} }) => [[name, ...Object.values(labels)].join(' '), value]),
  )
  expect(samples.get('probe_grpc_status_code')).toBe(0)
  expect(samples.get('probe_grpc_healthcheck_response NOT_SERVING')).toBe(1)
  expect(samples.get('probe_grpc_healthcheck_response SERVING')).toBe(0)
  expect(samples.get('probe_grpc_ssl')).toBe(0)
  expect(samples.get('probe_ip_protocol')).toBe(4)
  expect(samples.get('probe_grpc_duration_seconds check')).toBeGreaterThan(0)
})

const parsed = (grpcConfig: Options, request: Options = {}, settings: Options = {}) =>
  GrpcMonitor.parse({
    id: 'm',
    name: 'm',
    checkType: 'GRPC',
    request: { url: 'a.test', port: 1, grpcConfig, ...request },
    ...settings,
  })

test.each([
  ['the deadline of the call', { timeout: 1 }, {}, 1000],
  ['maxResponseTime, where that is sooner', {}, {}, 20_000],
  ['up to three minutes', { timeout: 180 }, { maxResponseTime: 180_000 }, 180_000],
])('an attempt takes no longer than %s', (_, request, settings, deadlineMs) => {
  expect(grpc.deadlineMs(parsed({ mode: 'HEALTH' }, request, settings))).toBe(deadlineMs)
})

const metadata = (key: string, value: string) => ({ metadata: [{ key, value }] })
test.each([
  ['no method', { method: 'Greet' }],
  ['a name of metadata with a blank', metadata('a b', 'x')],
  ['a line break in metadata', metadata('a', 'secret\ny')],
  ['binary metadata that is no base64', metadata('a-bin', '%secret')],
])('%s, brought by a variable, is refused without its value', async (_, brought) => {
  const monitor = parsed({ method: '{{M}}' })
  Object.assign(monitor.request.grpcConfig, { method: 'a.B/C', ...brought })
  const { failures } = await grpc.prepare(monitor)(testContext())
  expect(failures).toMatchObject([{ code: 'SETTINGS_INVALID' }])
  expect(JSON.stringify(failures)).not.toContain('secret')
})
