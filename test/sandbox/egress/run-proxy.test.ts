// Aim: through the proxy of a run, everything reaches what the policy allows and nothing else, by every way
// that clients speak to proxies, and nobody gets through without the run's password.
import { createServer, request } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import {
  connect,
  createServer as createTcpServer,
  type AddressInfo,
  type Server,
  type Socket,
} from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openRunProxy, type RunProxy } from '../../../src/sandbox/egress/run-proxy.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { eventually } from '../../support/eventually.ts'
import { fixedResolver, testContext } from '../../support/monitors/monitor-context.ts'

const names = {
  'site.test': ['127.0.0.1'],
  'metadata.test': ['169.254.169.254'],
  'six.test': ['::1'],
}
const closed: (() => unknown)[] = []
let proxy: RunProxy
let site: string

beforeAll(async () => {
  const { dial } = testContext({ resolver: fixedResolver(names), blocked: ['127.0.0.77'] })
  proxy = await openRunProxy(dial)
  const server = createServer((incoming, response) => {
    response.setHeader('x-saw', JSON.stringify(incoming.headers))
    incoming.pipe(response)
  })
  server.on('upgrade', (_, socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello')
  })
  const port = await listening(server)
  site = `site.test:${port}`
  closed.push(
    () => proxy.close(),
    () => server.close(),
  )
})
afterAll(async () => {
  for (const close of closed) await close()
})

function listening(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

const authorization = ({ username, password } = proxy) =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

interface Answer {
  status: number
  proxyStatus: string | undefined
  saw: string
  body: string
}

/** One plain request in absolute form. */
function plain(
  url: string,
  headers: Record<string, string> = {},
  through = proxy,
): Promise<Answer> {
  const { port } = new URL(through.server)
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        port,
        method: 'POST',
        path: url,
        headers: { host: 'x', 'proxy-authorization': authorization(through), ...headers },
      },
      (answer) => {
        let body = ''
        answer.setEncoding('utf8').on('data', (part: string) => (body += part))
        answer.on('end', () => {
          const saw = String(answer.headers['x-saw'] ?? '')
          const proxyStatus = answer.headers['proxy-status'] as string | undefined
          resolve({ status: answer.statusCode ?? 0, proxyStatus, saw, body })
        })
      },
    )
    asked.on('error', reject)
    asked.end('said')
  })
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

describe('a target that answers oddly', () => {
  test.each([
    ['a status that is none', 'HTTP/1.1 099 Odd\r\n', 'HTTP/1.1 502 Bad Gateway'],
    ['a reason that is no text', 'HTTP/1.1 200 O\u0001K\r\n', 'HTTP/1.1 502 Bad Gateway'],
    ['trailers that do not come', 'HTTP/1.1 200 OK\r\ntrailer: x\r\n', 'HTTP/1.1 200 OK'],
    ['another protocol', 'HTTP/1.1 101 Go\r\nupgrade: x\r\nconnection: upgrade\r\n', ''],
  ])('with %s harms its own answer alone', async (_, head, first) => {
    const server = createTcpServer((socket) => {
      socket.on('error', () => socket.destroy())
      socket.once('data', () => socket.end(`${head}content-length: 0\r\n\r\n`, 'latin1'))
    })
    closed.push(() => server.close())
    const port = await listening(server)
    const received = await answerTo(client(`GET http://site.test:${port}/`, 'trailer: x\r\n'))
    expect(received.split('\r\n')[0]).toBe(first)
  })
})

describe('what is allowed', () => {
  test('a plain request arrives with its body and without the password', async () => {
    const answer = await plain(`http://${site}/`, {
      connection: 'x-hop',
      'x-hop': '1',
      'x-end': '2',
    })
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
      const server = createSecureServer(pair, (incoming, response) => incoming.pipe(response))
      closed.push(() => server.close())
      return plain(`https://site.test:${await listening(server)}/`, {}, trusting)
    })
    const [good, bad] = await Promise.all(answers)
    await trusting.close()
    expect(good).toMatchObject({ status: 200, body: 'said' })
    expect(bad?.status).toBe(502)
    expect(trusting.refusals.map(({ failure }) => failure.code)).toEqual(['TLS_SELF_SIGNED'])
  })

  test('a tunnel carries what was said before it stood and after', async () => {
    const server = createTcpServer((socket) => socket.pipe(socket))
    closed.push(() => server.close())
    const target = `site.test:${await listening(server)}`
    const socket = client(`CONNECT ${target}`)
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
    const server = createTcpServer((socket) => socket.end())
    await new Promise<void>((resolve) => server.listen(0, '::1', resolve))
    closed.push(() => server.close())
    const { port } = server.address() as AddressInfo
    expect(await tunnel(`[::1]:${port}`)).toMatch(/^HTTP\/1\.1 200 /)
  })
})

const FORBIDDEN: [what: string, host: string][] = [
  ['a metadata service', '169.254.169.254'],
  ['it mapped into IPv6', '[::ffff:169.254.169.254]'],
  ['a name that leads to it', 'metadata.test'],
  ['what the operator has blocked', '127.0.0.77'],
]

describe('what is forbidden', () => {
  test.for(FORBIDDEN)('%s', async ([, host]) => {
    expect(await tunnel(`${host}:80`)).toMatch(/^HTTP\/1\.1 403 ADDRESS_BLOCKED\r\n/)
    expect(await plain(`http://${host}/`)).toMatchObject({
      status: 403,
      proxyStatus: 'vedette; error=destination_ip_prohibited',
    })
    expect(proxy.refusals.some(({ failure }) => failure.code === 'ADDRESS_BLOCKED')).toBe(true)
  })
})

describe('who may not', () => {
  test.for([
    ['no password', ''],
    ['another password', `Basic ${Buffer.from('run:wrong').toString('base64')}`],
  ] as const)('%s: 407', async ([, password]) => {
    expect(await tunnel(site, password)).toMatch(/^HTTP\/1\.1 407 /)
    expect(await plain(`http://${site}/`, { 'proxy-authorization': password })).toMatchObject({
      status: 407,
    })
  })
})

test('missing targets have a failure of their own', async () => {
  const free = createTcpServer()
  const port = await listening(free)
  await new Promise((resolve) => free.close(resolve))
  expect(await plain(`http://site.test:${port}/`)).toMatchObject({
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
  const { dial } = testContext({
    resolver: {
      resolve(_host, _family, signal) {
        asked.resolve(signal)
        return found.promise
      },
    },
  })
  const own = await openRunProxy(dial)
  let connections = 0
  const server = createTcpServer(() => connections++)
  const port = await listening(server)
  closed.push(() => server.close())
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
  const gone = new Promise<void>((resolve) => socket.on('close', () => resolve()))
  await new Promise((resolve) => socket.once('data', resolve))
  await short.close()
  await expect(gone).resolves.toBeUndefined()
})
