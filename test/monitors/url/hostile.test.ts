// Aim: whatever a server does and whenever a run is aborted, a URL monitor ends with the right code, reads
// a bounded part of the answer, and leaves no socket behind.
import type { Socket } from 'node:net'
import { createServer } from 'node:net'
import * as zlib from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { FailureCode } from '../../../src/contract/failure.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { checkUrl } from '../../support/monitors/check-url.ts'
import { deadlineAfter, fixedResolver } from '../../support/monitors/monitor-context.ts'
import { pour } from '../../support/monitors/tcp-servers.ts'
import { listening, startHttpServer, startRawServer } from '../../support/test-server.ts'

const answer = (head: string, body = '') => `HTTP/1.1 ${head}\r\n\r\n${body}`

describe('hostile servers', () => {
  const after = (text: string | Buffer) => (socket: Socket) =>
    void socket.once('data', () => socket.write(text))
  const last = (text: string | Buffer) => (socket: Socket) =>
    void socket.once('data', () => socket.end(text))

  const ok = (head: string, body = '') => last(answer(`200 OK\r\n${head}`, body))
  const chunks = (text: string) => ok('Transfer-Encoding: chunked', text)
  const length = 'Content-Length: 1'
  const redirect = (location: string) =>
    last(answer(`302 Found\r\nLocation: ${location}\r\nContent-Length: 0`))
  const manyHeaders = `X-Many: ${'0'.repeat(70)}\r\n`.repeat(1000)
  const half = zlib.gzipSync('x'.repeat(999)).subarray(0, 15)
  const halfGzip = Buffer.concat([Buffer.from(answer('200 OK\r\nContent-Encoding: gzip')), half])
  test.each<[string, (socket: Socket) => void, FailureCode]>([
    ['never answers', () => {}, 'TIMEOUT_FIRST_BYTE'],
    ['closes at once', (socket) => socket.end(), 'CONNECTION_CLOSED'],
    ['resets at once', (socket) => socket.resetAndDestroy(), 'CONNECTION_RESET'],
    ['resets', (socket) => socket.once('data', () => socket.resetAndDestroy()), 'CONNECTION_RESET'],
    ['closes on the request', last(''), 'CONNECTION_CLOSED'],
    ['closes within the head', last('HTTP/1.1 200 OK\r\nContent-'), 'CONNECTION_CLOSED'],
    ['stops within the head', after('HTTP/1.1 200 OK\r\nContent-'), 'TIMEOUT_FIRST_BYTE'],
    ['stops within the body', after(answer(`200 OK\r\n${length}0`, 'abc')), 'TIMEOUT_DOWNLOAD'],
    ['closes within the body', ok(`${length}0`, 'abc'), 'HTTP_BODY_INCOMPLETE'],
    ['closes within the chunks', chunks('3\r\nabc\r\n'), 'HTTP_BODY_INCOMPLETE'],
    ['sends a broken chunk', chunks('3\r\nabc\r\nzz\r\n'), 'HTTP_MALFORMED'],
    ['sends a chunk of absurd size', chunks('fffffffffffffffff\r\n'), 'HTTP_MALFORMED'],
    ['speaks something else', last('220 mail ESMTP\r\n'), 'HTTP_MALFORMED'],
    ['speaks of two lengths', ok(`${length}\r\nContent-Length: 2`, 'a'), 'HTTP_MALFORMED'],
    ['smuggles', ok(`${length}\r\nTransfer-Encoding: chunked`, '0\r\n\r\n'), 'HTTP_MALFORMED'],
    ['sends a header of 1 MB', ok(`X-Long: ${'x'.repeat(1 << 20)}`), 'HTTP_HEADERS_TOO_LARGE'],
    ['sends a thousand headers', ok(`${manyHeaders}X: y`), 'HTTP_HEADERS_TOO_LARGE'],
    ['claims gzip', ok(`Content-Encoding: gzip\r\n${length}`, 'p'), 'HTTP_BODY_UNDECODABLE'],
    ['cuts gzip off', last(halfGzip), 'HTTP_BODY_UNDECODABLE'],
    ['packs often', ok('Content-Encoding: gzip, gzip, br, gzip', 'x'), 'HTTP_BODY_UNDECODABLE'],
    ['switches', last(answer('101 No\r\nUpgrade: x\r\nConnection: upgrade')), 'HTTP_MALFORMED'],
    ['redirects nowhere', last(answer('302 Found\r\nContent-Length: 0')), 'HTTP_REDIRECT_INVALID'],
    ['redirects to a file', redirect('file:///etc/passwd'), 'HTTP_REDIRECT_INVALID'],
    ['redirects to no URL', redirect('http://[::'), 'HTTP_REDIRECT_INVALID'],
    ['redirects to itself for ever', redirect('/'), 'HTTP_REDIRECT_LIMIT'],
    ['redirects to metadata', redirect('http://0xa9fea9fe/latest'), 'ADDRESS_BLOCKED'],
  ])('one that %s', async (_, onConnection, code) => {
    const deadline = new AbortController()
    await using server = await startRawServer((socket) => {
      onConnection(socket)
      if (!code.startsWith('TIMEOUT')) return
      setTimeout(() => deadline.abort(new DeadlineReached(100)), 100)
    })
    const { signal } = deadline
    const result = await checkUrl(`http://${server.authority}/`, {}, {}, { signal })
    expect(result.codes).toEqual([code])
    expect(result.observed.hops.length).toBeGreaterThan(0)
    expect(result.responseTimeMs).toBeUndefined()
    expect(JSON.stringify(result.failures)).not.toContain('TLS')
  })

  test('one that stacks thousands of encodings does not fill the result with them', async () => {
    const encodings = Array.from({ length: 8000 }, () => 'gzip').join(',')
    const sent = answer(`200 OK\r\nContent-Encoding: ${encodings}`, 'x')
    await using server = await startRawServer(last(sent))
    const result = await checkUrl(`http://${server.authority}/`)
    expect(result.codes).toEqual(['HTTP_BODY_UNDECODABLE'])
    expect(JSON.stringify(result.failures).length).toBeLessThan(500)
  })

  test('a body without end is cut at the limit', async () => {
    await using server = await startHttpServer((_, response) => pour(response))
    const result = await checkUrl(`http://${server.authority}/`)
    expect(result.codes).toEqual(['HTTP_BODY_TOO_LARGE'])
    const { bytes } = result.observed.response as { bytes: number }
    expect(bytes).toBeGreaterThan(LIMITS.bodyBytesMax)
    expect(bytes).toBeLessThan(LIMITS.bodyBytesMax + 1_048_576)
  })

  test.each([
    ['gzip', zlib.createGzip],
    ['br', zlib.createBrotliCompress],
    ['zstd', zlib.createZstdCompress],
    ['deflate', zlib.createDeflate],
  ] as const)('a bomb in %s is cut at the limit, and little of it is read', async (name, pack) => {
    await using server = await startHttpServer((_, response) => {
      response.writeHead(200, { 'content-encoding': name })
      const packer = pack()
      packer.pipe(response)
      response.on('close', () => packer.destroy())
      pour(packer)
    })
    const result = await checkUrl(`http://${server.authority}/`)
    expect(result.codes).toEqual(['HTTP_UNPACKED_TOO_LARGE'])
    const { response } = result.observed
    expect(response?.unpackedBytes).toBeLessThan(LIMITS.unpackedBytesMax + 1_048_576)
    expect(response?.bytes).toBeLessThan(1_048_576)
  })
})

describe('an abort', () => {
  type Act = (socket: Socket) => void
  const begin: Act = (socket) => socket.write(answer('200 OK\r\nContent-Length: 9'))
  test.each<[string, string, Act, FailureCode]>([
    ['in the look-up', 'http://nowhere.test', () => {}, 'TIMEOUT_DNS'],
    ['in the handshake', 'https', () => {}, 'TIMEOUT_TLS'],
    ['before the first byte', 'http', () => {}, 'TIMEOUT_FIRST_BYTE'],
    ['in the download', 'http', begin, 'TIMEOUT_DOWNLOAD'],
  ])(
    '%s leaves nothing: by the deadline a code, by cancelling the reason',
    async (_, scheme, act, code) => {
      await using server = await startRawServer(act)
      const address = scheme.includes(':') ? scheme : `${scheme}://${server.authority}/`
      const resolver = fixedResolver({ '127.0.0.1': ['127.0.0.1'] })
      const late = await checkUrl(address, {}, {}, { resolver, signal: deadlineAfter(60) })
      expect(late.codes).toEqual([code])
      expect(late.failures[0]?.details).toMatchObject({ deadlineMs: 60 })

      const controller = new AbortController()
      const reason = new Error('cancelled')
      const connected = scheme.includes(':') ? Promise.resolve() : server.connection()
      const pending = checkUrl(address, {}, {}, { resolver, signal: controller.signal })
      const outcome = pending.catch((error: unknown) => error)
      const socket = await connected
      const closed = new Promise((resolve) => socket?.once('close', resolve) ?? resolve(undefined))
      socket?.resume()
      controller.abort(reason)
      expect(await outcome).toBe(reason)
      await closed
    },
  )

  test('already there stops before anything is dialled', async () => {
    await using server = await listening(createServer())
    const reason = new Error('cancelled')
    const signal = AbortSignal.abort(reason)
    const pending = checkUrl(`http://${server.authority}/`, {}, {}, { signal })
    await expect(pending).rejects.toBe(reason)
    expect(server.open()).toBe(0)
  })
})
