// Aim: a gRPC check sends what it should, over plain HTTP/2, TLS and TLS with client certificates.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createAuthority } from '../../support/network/certificates.ts'
import { startGrpcServer, type GrpcServer } from '../../support/monitors/grpc/grpc-server.ts'
import { codesOf } from '../../support/monitors/check-monitor.ts'
import { runGrpc, type Options } from '../../support/monitors/grpc/grpc-run.ts'

let server: GrpcServer
beforeAll(async () => {
  server = await startGrpcServer()
})
afterAll(() => server.close())

const run = (config: Options, request: Options = {}) =>
  runGrpc({ port: server.port, config, request })
const greet = (message: unknown) => ({
  method: 'shop.v1.Shop/Greet',
  message: JSON.stringify(message),
})

describe('metadata', () => {
  test('goes with the call, repeated and binary', async () => {
    const metadata = [
      { key: 'X-Token', value: 'abc' },
      { key: 'x-list', value: 'a' },
      { key: 'x-list', value: 'b' },
      { key: 'x-raw-bin', value: 'AAH_' },
    ]
    expect(await codesOf(run({ ...greet({}), metadata }))).toEqual([])
    expect(server.latestCall().metadata).toMatchObject({
      'x-token': 'abc',
      'x-list': expect.stringMatching(/^a/) as string,
      'x-raw-bin': Buffer.from([0, 1, 255]),
      'user-agent': expect.stringMatching(/^Vedette\//) as string,
    })
  })

  test('of the answer, before and after it, can be asserted', async () => {
    const equals = (property: string, target: string) => ({
      source: 'GRPC_METADATA',
      comparison: 'EQUALS',
      property,
      target,
    })
    const none = { source: 'GRPC_METADATA', property: 'x-none', comparison: 'IS_NULL' }
    const present = [equals('X-Served-By', 'shop'), equals('x-cost', '7')]
    const assertions = [...present, equals('x-trace-bin', 'AAEC/w=='), none]
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

  test('a server that speaks none, and one that wants it', async () => {
    expect(await codesOf(run({ mode: 'HEALTH', ...secure }))).toEqual(['TLS_NOT_SPOKEN'])
    await using safe = await startGrpcServer({ tls: pair })
    const plain = await codesOf(run({ mode: 'HEALTH' }, { port: safe.port }))
    expect(['CONNECTION_CLOSED', 'CONNECTION_RESET', 'HTTP2_NOT_SPOKEN']).toContain(plain[0])
  })
})

test('nobody there: the status is that of gRPC', async () => {
  const { codes, observed } = await run({ mode: 'HEALTH' }, { port: 1 })
  expect(codes).toEqual(['CONNECT_REFUSED'])
  expect(observed).toMatchObject({ status: 'UNAVAILABLE', statusOrigin: 'client' })
})
