// The watch of headers reports enough that the agent learns of values that are too long or too many.
import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import { createRequire } from 'node:module'
import { connect, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { ObservedHeader } from '../../../src/scripts/playwright/observed-headers.ts'
import {
  listening,
  startHttpServer,
  startRawServer,
  type TestServer,
} from '../../support/test-server.ts'

type Watch = (
  source: string,
  report: (name: string, value: string) => void,
) => (name: string, values: string | string[]) => void
const watchHeaders = createRequire(import.meta.url)(
  '../../../src/scripts/in-run/header-watch.cjs',
) as Watch

/** The values that the watch reports of these. */
function reportedOf(values: string | string[]): string[] {
  const reported: string[] = []
  watchHeaders('^cookie$', (_, value) => reported.push(value))('Cookie', values)
  return reported
}

test.each<[string, (url: string, authorization: string) => Promise<unknown>]>([
  ['fetch', (url, authorization) => fetch(url, { headers: { authorization } })],
  [
    'node:http',
    (url, authorization) =>
      new Promise((_, reject) => request(url, { headers: { authorization } }).on('error', reject)),
  ],
])('a request by %s that reaches nobody is reported', async (name, send) => {
  const reported: string[] = []
  watchHeaders('^authorization$', (_, value) => reported.push(value))
  const server = await startHttpServer(() => undefined)
  await server.close()
  await expect(send(`http://${server.authority}/`, `Bearer by-${name}`)).rejects.toThrow(
    /ECONNREFUSED|fetch failed/,
  )
  expect(reported).toEqual([`Bearer by-${name}`])
})

/** What is reported of cookies while a client asks a server of plain sockets, or is asked by one. */
async function reportedWith(
  exchange: (port: number) => Promise<unknown>,
  server: Promise<TestServer>,
): Promise<string[]> {
  const reported: string[] = []
  watchHeaders('^(?:cookie|setcookie)$', (_, value) => reported.push(value))
  await using running = await server
  await exchange(running.port)
  return reported
}

/** A server that answers with these lines. */
const answering = (...lines: string[]) =>
  startRawServer((socket) => {
    socket.once('data', () => socket.write(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')))
  })

/** Sends a head with a cookie by a plain socket, and waits for the first answer. */
async function asking(port: number, line: string, ...headers: string[]) {
  const socket = connect(port, '127.0.0.1')
  socket.write([line, 'Host: a', 'Cookie: sid=asked', ...headers, '', ''].join('\r\n'))
  await once(socket, 'data')
  socket.destroy()
}

const UPGRADE = ['Connection: Upgrade', 'Upgrade: chat']

describe('of what diagnostics channels leave out,', () => {
  test('the answer to an upgrade is reported', async () => {
    const exchange = async (port: number) => {
      const headers = { Connection: 'Upgrade', Upgrade: 'chat' }
      const [, socket] = (await once(request({ port, headers }).end(), 'upgrade')) as [
        unknown,
        Socket,
      ]
      socket.destroy()
    }
    const server = answering(
      'HTTP/1.1 101 Switching Protocols',
      ...UPGRADE,
      'Set-Cookie: sid=given',
    )
    expect(await reportedWith(exchange, server)).toEqual(['sid=given'])
  })

  test('trailers are reported', async () => {
    const server = answering(
      'HTTP/1.1 200 OK',
      'Transfer-Encoding: chunked',
      '',
      '0',
      'Set-Cookie: sid=late',
    )
    const exchange = async (port: number) => {
      const [answer] = (await once(request({ port }).end(), 'response')) as [IncomingMessage]
      await once(answer.resume(), 'end')
    }
    expect(await reportedWith(exchange, server)).toEqual(['sid=late'])
  })

  test('what a server is asked for an upgrade is reported', async () => {
    const server = createServer().on('upgrade', (_, socket) =>
      socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n'),
    )
    const exchange = (port: number) => asking(port, 'GET / HTTP/1.1', ...UPGRADE)
    expect(await reportedWith(exchange, listening(server))).toEqual(['sid=asked'])
  })

  test('an answer that does not end is reported', async () => {
    const server = startHttpServer((_, response) => {
      response.writeHead(200, { 'Set-Cookie': 'sid=open' }).write('a')
    })
    const exchange = (port: number) => asking(port, 'GET / HTTP/1.1')
    expect(await reportedWith(exchange, server)).toEqual(['sid=asked', 'sid=open'])
  })

  test('early hints are reported', async () => {
    const server = startHttpServer((_, response) => {
      response.writeEarlyHints({ link: '</a.css>; rel=preload', 'set-cookie': 'sid=early' })
    })
    const exchange = (port: number) => asking(port, 'GET / HTTP/1.1')
    expect(await reportedWith(exchange, server)).toEqual(['sid=asked', 'sid=early'])
  })

  test('a value with a byte that is not UTF-8 is reported as fetch shows it', async () => {
    const server = answering('HTTP/1.1 200 OK', 'Content-Length: 0', 'Set-Cookie: sid=caf\u00E9')
    const shown: unknown[] = []
    const exchange = async (port: number) => {
      shown.push((await fetch(`http://127.0.0.1:${port}/`)).headers.get('set-cookie'))
    }
    expect(await reportedWith(exchange, server)).toEqual(shown)
  })
})

test('a value that is no text hides none of the others', () => {
  const values = [Object.create(null), 'a-text'] as string[]
  expect(reportedOf(values)).toEqual(['a-text'])
})

test('that a value is longer than a secret may be shows after a scheme, too', () => {
  const [value] = reportedOf(`Bearer ${'x'.repeat(2 * LIMITS.secretCharactersMax)}`)
  const observed = ObservedHeader.parse({ name: 'cookie', value })
  expect(observed.value.slice('Bearer '.length).length).toBeGreaterThan(LIMITS.secretCharactersMax)
})

test('of more values than a run may know, one without a name says that there are more', () => {
  const values = Array.from(
    { length: 20 * LIMITS.userCodeSecretValuesMax },
    (_, at) => `value ${at}`,
  )
  const reported = reportedOf(values)
  expect(reported.length).toBeGreaterThan(LIMITS.userCodeSecretValuesMax)
  expect(reported).toEqual([...values.slice(0, reported.length - 1), ''])
})

test('short values count for nothing', () => {
  const values = Array.from({ length: 2 * LIMITS.userCodeSecretValuesMax }, (_, at) => `${at}`)
  expect(reportedOf([...values, 'the-token'])).toEqual(['the-token'])
})

test('more characters than a run may know are reported, and not without end', () => {
  const value = 'x'.repeat(LIMITS.secretCharactersMax)
  const count = (20 * LIMITS.userCodeSecretsCharactersMax) / value.length
  const values = Array.from({ length: count }, (_, at) => `${at} ${value}`)
  const reported = reportedOf(values)
  expect(reported.join('').length).toBeGreaterThan(LIMITS.userCodeSecretsCharactersMax)
  expect(reported).toEqual([...values.slice(0, reported.length - 1), ''])
})
