// The proxy of a run: every protocol of clients reaches what the policy allows, only with the run's password.
import { once } from 'node:events'
import { createServer, request, type IncomingMessage } from 'node:http'
import { connect, createServer as createTcpServer, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openRunProxy, type RunProxy } from '../../../src/sandbox/egress/run-proxy.ts'
import type { Resolver } from '../../../src/network/dns/resolver.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { eventually } from '../../support/eventually.ts'
import { fixedResolver, testContext } from '../../support/monitors/monitor-context.ts'
import {
  listening,
  startHttpsServer,
  startRawServer,
  type TestServer,
} from '../../support/test-server.ts'

const names = { 'site.test': ['127.0.0.1'], 'metadata.test': ['169.254.169.254'] }
let proxy: RunProxy
let server: TestServer
let site: string

beforeAll(async () => {
  const { dial } = testContext({ resolver: fixedResolver(names), blocked: ['127.0.0.77'] })
  proxy = await openRunProxy(dial)
  const http = createServer((incoming, response) => {
    response.setHeader('x-saw', JSON.stringify(incoming.headers))
    incoming.pipe(response)
  })
  http.on('upgrade', (_, socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello')
  })
  server = await listening(http)
  site = `site.test:${server.port}`
})
afterAll(async () => {
  await proxy.close()
  await server.close()
})

/** The port of a server that ends with the test. */
async function portOf(starting: Promise<TestServer>): Promise<number> {
  const one = await starting
  onTestFinished(() => one.close())
  return one.port
}

const authorization = ({ username, password } = proxy) =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

/** One plain request in absolute form. */
async function plain(path: string, more: Record<string, string> = {}, through = proxy) {
  const { port } = new URL(through.server)
  const headers = { host: 'x', 'proxy-authorization': authorization(through), ...more }
  const asked = request({ port, method: 'POST', path, headers }).end('said')
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  return {
    status: answer.statusCode,
    proxyStatus: answer.headers['proxy-status'],
    saw: String(answer.headers['x-saw'] ?? ''),
    body: await text(answer),
  }
}

/** A client of the proxy, which sends this first line, with its password. */
function client(first: string, more = '', through = proxy, password = authorization(through)) {
  const socket = connect(Number(new URL(through.server).port), '127.0.0.1')
  socket.on('error', () => socket.destroy())
  const head = `host: x\r\nproxy-authorization: ${password}\r\n${more}\r\n`
  socket.write(`${first} HTTP/1.1\r\n${head}`)
  return socket
}

/** The head that comes back. */
function answerTo(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let received = ''
    socket.setEncoding('latin1').on('data', (part: string) => {
      received += part
      if (received.includes('\r\n\r\n')) socket.destroy()
    })
    socket.on('close', () => resolve(received))
  })
}

const tunnel = (target: string, password = authorization()) =>
  answerTo(client(`CONNECT ${target}`, '', proxy, password))
const UPGRADE = 'connection: upgrade\r\nupgrade: x\r\n'

test.each([
  ['a status that is none', 'HTTP/1.1 099 Odd\r\n', 'HTTP/1.1 502 Bad Gateway'],
  ['a reason that is no text', 'HTTP/1.1 200 O\u0001K\r\n', 'HTTP/1.1 502 Bad Gateway'],
  ['trailers that do not come', 'HTTP/1.1 200 OK\r\ntrailer: x\r\n', 'HTTP/1.1 200 OK'],
  ['another protocol', 'HTTP/1.1 101 Go\r\nupgrade: x\r\nconnection: upgrade\r\n', ''],
])('a target that answers with %s harms its own answer alone', async (_, head, first) => {
  const answering = (socket: Socket) =>
    socket.once('data', () => socket.end(`${head}content-length: 0\r\n\r\n`, 'latin1'))
  const port = await portOf(startRawServer(answering))
  const received = await answerTo(client(`GET http://site.test:${port}/`, 'trailer: x\r\n'))
  expect(received.split('\r\n')[0]).toBe(first)
})

describe('what is allowed', () => {
  test('a plain request arrives with its body and without the password', async () => {
    const headers = { connection: 'x-hop', 'x-hop': '1', 'x-end': '2' }
    const answer = await plain(`http://${site}/`, headers)
    expect(answer).toMatchObject({ status: 200, body: 'said' })
    const saw = JSON.parse(answer.saw) as Record<string, string>
    expect(saw['x-end']).toBe('2')
    expect(Object.keys(saw)).not.toContain('proxy-authorization')
    expect(Object.keys(saw)).not.toContain('x-hop')
  })

  test('what is encrypted may be asked for without a tunnel, where its certificate is good', async () => {
    const authority = createAuthority()
    const { dial } = testContext({ resolver: fixedResolver(names) })
    const settings = { ca: authority.ca }
    const trusting = await openRunProxy({
      ...dial,
      secure: (socket, handshake, progress, signal) =>
        dial.secure(socket, { ...handshake, settings }, progress, signal),
    })
    const pairs = [authority.issue({ names: 'DNS:site.test' }), authority.selfSigned()]
    const answers = pairs.map(async (pair) => {
      const port = await portOf(startHttpsServer(pair, (incoming, to) => incoming.pipe(to)))
      return plain(`https://site.test:${port}/`, {}, trusting)
    })
    const [good, bad] = await Promise.all(answers)
    await trusting.close()
    expect(good).toMatchObject({ status: 200, body: 'said' })
    expect(bad?.status).toBe(502)
    expect(trusting.refusals.map(({ failure }) => failure.code)).toEqual(['TLS_SELF_SIGNED'])
  })

  test('a tunnel carries what was said before it stood and after', async () => {
    const port = await portOf(startRawServer((one) => one.pipe(one)))
    const socket = client(`CONNECT site.test:${port}`)
    socket.write('early ')
    let received = ''
    socket.setEncoding('latin1').on('data', (part: string) => (received += part))
    await eventually(() => received.endsWith('early '), { what: 'what was said early' })
    socket.end('late')
    await new Promise((resolve) => socket.once('close', resolve))
    expect(received).toMatch(/^HTTP\/1\.1 200 .*\r\n\r\nearly late$/s)
  })

  test('an upgrade goes through', async () => {
    const answer = await answerTo(client(`GET http://${site}/`, UPGRADE))
    expect(answer).toMatch(/^HTTP\/1\.1 101 /)
  })

  test('a name with IPv6 addresses only is reached', async () => {
    const ends = createTcpServer((socket) => socket.end())
    const port = await portOf(listening(ends, '::1'))
    expect(await tunnel(`[::1]:${port}`)).toMatch(/^HTTP\/1\.1 200 /)
  })
})

const FORBIDDEN: [what: string, host: string][] = [
  ['a metadata service', '169.254.169.254'],
  ['it mapped into IPv6', '[::ffff:169.254.169.254]'],
  ['a name that leads to it', 'metadata.test'],
  ['what the operator has blocked', '127.0.0.77'],
]

test.for(FORBIDDEN)('%s is forbidden', async ([, host]) => {
  expect(await tunnel(`${host}:80`)).toMatch(/^HTTP\/1\.1 403 ADDRESS_BLOCKED\r\n/)
  expect(await plain(`http://${host}/`)).toMatchObject({
    status: 403,
    proxyStatus: 'vedette; error=destination_ip_prohibited',
  })
  expect(proxy.refusals.some(({ failure }) => failure.code === 'ADDRESS_BLOCKED')).toBe(true)
})

test.for([
  ['no password', ''],
  ['another password', `Basic ${Buffer.from('run:wrong').toString('base64')}`],
] as const)('%s: 407', async ([, password]) => {
  expect(await tunnel(site, password)).toMatch(/^HTTP\/1\.1 407 /)
  expect(await plain(`http://${site}/`, { 'proxy-authorization': password })).toMatchObject({
    status: 407,
  })
})

test('missing targets have a failure of their own', async () => {
  const gone = await startRawServer(() => {})
  await gone.close()
  expect(await plain(`http://site.test:${gone.port}/`)).toMatchObject({
    status: 502,
    proxyStatus: 'vedette; error=connection_refused',
  })
})

test.each([
  ['a tunnel', (target: string) => `CONNECT ${target}`, ''],
  ['a plain request', (target: string) => `GET http://${target}/`, ''],
  ['an upgrade', (target: string) => `GET http://${target}/`, UPGRADE],
])('%s whose client goes away while it is dialled leaves nothing', async (_, first, more) => {
  const asked = Promise.withResolvers<AbortSignal>()
  const found = Promise.withResolvers<[string]>()
  const resolve: Resolver['resolve'] = (_host, _family, signal) => {
    asked.resolve(signal)
    return found.promise
  }
  const { dial } = testContext({ resolver: { resolve } })
  const own = await openRunProxy(dial)
  let connections = 0
  const port = await portOf(startRawServer(() => connections++))
  const socket = client(first(`slow.test:${port}`), more, own)
  const signal = await asked.promise
  socket.destroy()
  await eventually(() => signal.aborted, { what: 'the end of the dialling' })
  found.resolve(['127.0.0.1'])
  await own.close()
  expect(connections).toBe(0)
  expect(own.refusals).toEqual([])
})

test('at the end its connections end', async () => {
  const { dial } = testContext({ resolver: fixedResolver(names) })
  const short = await openRunProxy(dial)
  const socket = client(`CONNECT ${site}`, '', short)
  const gone = once(socket, 'close')
  await once(socket, 'data')
  await short.close()
  expect(await gone).toHaveLength(1)
})
