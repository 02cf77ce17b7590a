// Aim: a gRPC check says exactly what the server did: health, unary and streamed calls by reflection and by
// a proto text, with every status; and it sends what it should, over plain HTTP/2 and TLS.
import { afterAll, describe, expect, test } from 'vitest'
import { readFileSync } from 'node:fs'
import { GrpcMonitor } from '../../../src/monitors/grpc/definition.ts'
import { grpc } from '../../../src/monitors/grpc/index.ts'
import type { GrpcObserved } from '../../../src/monitors/grpc/observed.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startGrpcServer } from '../../support/monitors/grpc/grpc-server.ts'
import { assertion, codesOf, sampleValues } from '../../support/monitors/check-monitor.ts'
import { runGrpc, type Options } from '../../support/monitors/grpc/grpc-run.ts'
import { testContext } from '../../support/monitors/monitor-context.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

const server = await startGrpcServer({ health: { '': 1, serving: 1, down: 2, gone: 3 } })
afterAll(() => server.close())

const run = (config: Options, request: Options = {}, settings: Options = {}) =>
  runGrpc({ port: server.port, config, request, settings })
const calling = (method: string) => (message: unknown) => ({
  method: `shop.v1.Shop/${method}`,
  message: JSON.stringify(message),
})
const [greet, count] = [calling('Greet'), calling('Count')]
const asserting = (line: string) => ({ assertions: [assertion(line)] })
const bodyOf = ({ observed }: { observed: GrpcObserved }): unknown =>
  JSON.parse(observed.response?.body ?? 'null')

describe('health', () => {
  test.each([
    ['the whole server', '', 'SERVING', []],
    ['NOT_SERVING', 'down', 'NOT_SERVING', ['GRPC_NOT_SERVING']],
    ['SERVICE_UNKNOWN is a state', 'gone', 'SERVICE_UNKNOWN', ['GRPC_NOT_SERVING']],
    ['NOT_FOUND is a status', 'nobody', undefined, ['GRPC_SERVICE_NOT_FOUND']],
  ])('%s', async (_, service, healthStatus, failures) => {
    const observation = await run({ mode: 'HEALTH', service })
    expect(observation.codes).toEqual(failures)
    expect(observation.observed.healthStatus).toBe(healthStatus)
  })

  test('an assertion says which state is right', async () => {
    const wanted = asserting('GRPC_HEALTHCHECK_STATUS  EQUALS 2')
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

test.each([
  ['with a slash', 'shop.v1.Shop/Greet'],
  ['with a dot', 'shop.v1.Shop.Greet'],
  ['as a path', '/shop.v1.Shop/Greet'],
])('calls by reflection: a method may be written %s', async (_, method) => {
  const observation = await run({ method, message: '{"name": "Ann"}' })
  expect(observation.codes).toEqual([])
  expect(bodyOf(observation)).toMatchObject({ text: 'hello Ann' })
  expect(observation.observed.reflection).toMatchObject({ version: 'v1' })
})

test('calls by reflection: v1alpha, where the server has nothing else', async () => {
  await using old = await startGrpcServer({ reflection: ['v1alpha'] })
  const observation = await run(greet({ name: 'Ann' }), { port: old.port })
  expect(observation.codes).toEqual([])
  expect(observation.observed.reflection?.version).toBe('v1alpha')
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
    const byReflection = run(greet({}), { port: bare.port })
    expect(await codesOf(byReflection)).toEqual(['GRPC_REFLECTION_UNAVAILABLE'])
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
  ['a method that the server lacks', calling('Gret')({}), 'GRPC_METHOD_NOT_FOUND', /Greet/],
  ['a service', { method: 'shop.v1.Shopp/Greet' }, 'GRPC_METHOD_NOT_FOUND', /shop\.v1\.Shop\b/],
  ['a field of the request', greet({ nam: 'Ann' }), 'GRPC_MESSAGE_INVALID', /^nam: .*name/],
  ['a stream of requests', calling('Collect')({}), 'GRPC_METHOD_UNSUPPORTED', /takes a stream/],
])('%s is reported, with what may have been meant', async (_, config, code, message) => {
  const { failures } = await run({ method: 'S/A', ...config })
  expect(failures).toMatchObject([{ code, message: expect.stringMatching(message) as string }])
})

describe('streams of answers', () => {
  test('are a list', async () => {
    const wanted = asserting('GRPC_RESPONSE $[2].text EQUALS number 2')
    const observation = await run(count({ count: 3 }), wanted)
    expect(observation.codes).toEqual([])
    expect(observation.observed.response?.messages).toBe(3)
    const none = asserting('TEXT_BODY  EQUALS []')
    expect(await codesOf(run(count({ count: 0 }), none))).toEqual([])
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

test.each([
  [1, 'CANCELLED'],
  [16, 'UNAUTHENTICATED'],
  [42, 'UNKNOWN'],
])('status: %i %s fails', async (code, status) => {
  const observation = await run(greet({ status: code, reason: 'warum? 100% ä' }))
  expect(observation.codes).toEqual(['GRPC_STATUS'])
  const said = { statusMessage: 'warum? 100% ä', statusOrigin: 'server' }
  expect(observation.observed).toMatchObject({ statusCode: code, status, ...said })
})

test('status: that an assertion or shouldFail expects passes, and so does a good one', async () => {
  const wanted = asserting('GRPC_STATUS_CODE  EQUALS 5')
  expect(await codesOf(run(greet({ status: 5 }), wanted))).toEqual([])
  for (const status of [0, 5]) {
    expect(await codesOf(run(greet({ status }), {}, { shouldFail: true }))).toEqual([])
  }
  const health = { mode: 'HEALTH', service: 'down' }
  expect(await codesOf(run(health, {}, { shouldFail: true }))).toEqual([])
})

test.each([
  ['GRPC_RESPONSE $.text EQUALS hello Ann', []],
  ['GRPC_RESPONSE $.text EQUALS hello Bob', ['ASSERTION_FAILED']],
  // A long integer is exact.
  ['GRPC_RESPONSE $.anInt64 EQUALS 9007199254740993', []],
  ['GRPC_RESPONSE $.anInt64 EQUALS 9007199254740992', ['ASSERTION_FAILED']],
  ['TEXT_BODY hello.(\\w+) EQUALS Ann', []],
  ['GRPC_STATUS_CODE  GREATER_THAN 0', ['ASSERTION_FAILED']],
  ['RESPONSE_TIME  GREATER_THAN 20000', ['ASSERTION_FAILED']],
])('%s', async (line, failures) => {
  const message = '{"anInt64": 9007199254740993}'
  const echo = { method: 'shop.v1.Shop/Echo', message }
  const config = line.includes('anInt64') ? echo : greet({ name: 'Ann' })
  expect(await codesOf(run(config, asserting(line)))).toEqual(failures)
})

test('the response time is without that for reflection, and degrades', async () => {
  const settings = { degradedResponseTime: 0 }
  const { responseTimeMs = 0, observed, degraded } = await run(greet({}), {}, settings)
  const { totalMs, reflectionMs = 0 } = observed.phases
  expect(reflectionMs).toBeGreaterThan(0)
  expect(responseTimeMs).toBeCloseTo(totalMs - reflectionMs, 3)
  expect(degraded).toBe(true)
})

test('metrics are blackbox_exporter’s', async () => {
  const { observed } = await run({ mode: 'HEALTH', service: 'down' })
  expect(sampleValues(grpc, observed)).toMatchObject({
    probe_grpc_status_code: 0,
    'probe_grpc_healthcheck_response NOT_SERVING': 1,
    'probe_grpc_healthcheck_response SERVING': 0,
    probe_grpc_ssl: 0,
    probe_ip_protocol: 4,
    'probe_grpc_duration_seconds check': expect.any(Number),
  })
})

const parsed = (grpcConfig: Options, more: Options = {}, settings: Options = {}) => {
  const request = { url: 'a.test', port: 1, grpcConfig, ...more }
  return GrpcMonitor.parse({ id: 'm', name: 'm', checkType: 'GRPC', request, ...settings })
}

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

describe('metadata', () => {
  test('goes with the call, repeated and binary', async () => {
    const pairs = ['X-Token abc', 'x-list a', 'x-list b', 'x-raw-bin AAH_']
    const sent = pairs.map((one) => one.split(' ')).map(([key, value]) => ({ key, value }))
    expect(await codesOf(run({ ...greet({}), metadata: sent }))).toEqual([])
    expect(server.latestCall().metadata).toMatchObject({
      'x-token': 'abc',
      'x-list': expect.stringMatching(/^a/) as string,
      'x-raw-bin': Buffer.from([0, 1, 255]),
      'user-agent': expect.stringMatching(/^Vedette\//) as string,
    })
  })

  test('of the answer, before and after it, can be asserted', async () => {
    const tests = ['X-Served-By EQUALS shop', 'x-cost EQUALS 7', 'x-trace-bin EQUALS AAEC/w==']
    const lines = [...tests, 'x-none IS_NULL'].map((one) => `GRPC_METADATA ${one}`)
    const assertions = lines.map(assertion)
    const { codes, observed } = await run(greet({}), { assertions })
    expect(codes).toEqual([])
    expect(observed.response?.trailers).toEqual({ 'x-cost': '7' })
  })

  test('the authority is host and port, or what the monitor says', async () => {
    await run(greet({}))
    expect(server.latestCall().authority).toBe(`127.0.0.1:${server.port}`)
    await run(greet({}), { authority: 'shop.example' })
    expect(server.latestCall().authority).toBe('shop.example')
  })

  test('the time that is left goes with the call', async () => {
    await run(greet({}), { timeout: 3 })
    const { deadlineMs } = server.latestCall()
    expect(deadlineMs).toBeGreaterThan(1000)
    expect(deadlineMs).toBeLessThanOrEqual(3000)
  })
})

describe('TLS', () => {
  const authority = createAuthority()
  const pair = authority.issue()
  const client = authority.issue()
  const secure = { tls: true }

  test('verified against an authority', async () => {
    await using safe = await startGrpcServer({ tls: pair })
    const request = { port: safe.port, tls: { ca: authority.ca } }
    const { codes, observed } = await run({ ...greet({}), ...secure }, request)
    expect(codes).toEqual([])
    expect(observed.tls).toMatchObject({ alpn: 'h2', verified: true })
    expect(observed.phases.tlsMs).toBeGreaterThan(0)
    const untrusted = run({ ...greet({}), ...secure }, { port: safe.port })
    expect(await codesOf(untrusted)).toEqual(['TLS_UNTRUSTED'])
  })

  test('with a client certificate, and without', async () => {
    await using strict = await startGrpcServer({ tls: { ...pair, clientCa: authority.ca } })
    const { port } = strict
    const health = { mode: 'HEALTH', ...secure }
    const tls = { ca: authority.ca, certificate: client.cert, privateKey: client.key }
    expect(await codesOf(run(health, { port, tls }))).toEqual([])
    const without = run(health, { port, tls: { ca: authority.ca } })
    expect(await codesOf(without)).toEqual(['TLS_CLIENT_CERTIFICATE'])
  })
})

test('nobody there: the status is that of gRPC', async () => {
  const { codes, observed } = await run({ mode: 'HEALTH' }, { port: 1 })
  expect(codes).toEqual(['CONNECT_REFUSED'])
  expect(observed).toMatchObject({ status: 'UNAVAILABLE', statusOrigin: 'client' })
})
