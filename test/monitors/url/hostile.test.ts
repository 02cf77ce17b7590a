// Aim: whatever a server does and whenever a run is aborted, a URL monitor ends with the right code, reads
// a bounded part of the answer, and leaves no socket behind.
import type { Socket } from 'node:net'
import * as zlib from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { FailureCode } from '../../../src/contract/failure.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { cancelAt, checkUrl } from '../../support/monitors/check-monitor.ts'
import { pour } from '../../support/monitors/tcp-servers.ts'
import { startHttpServer, startRawServer } from '../../support/test-server.ts'

const answer = (head: string, body = '') => `HTTP/1.1 ${head}\r\n\r\n${body}`

describe('hostile servers', () => {
  const after = (text: string) => (socket: Socket) =>
    void socket.once('data', () => socket.write(text))
  const last = (text: string) => (socket: Socket) =>
    void socket.once('data', () => socket.end(text))

  const ok = (head: string, body = '') => last(answer(`200 OK\r\n${head}`, body))
  const chunks = (text: string) => ok('Transfer-Encoding: chunked', text)
  const length = 'Content-Length: 1'
  const redirect = (location: string) =>
    last(answer(`302 Found\r\nLocation: ${location}\r\nContent-Length: 0`))
  const manyHeaders = `X-Many: ${'0'.repeat(70)}\r\n`.repeat(1000)
  test.each<[string, (socket: Socket) => void, FailureCode]>([
    ['never answers', () => {}, 'TIMEOUT_FIRST_BYTE'],
    ['closes at once', (socket) => socket.end(), 'CONNECTION_CLOSED'],
    ['resets', (socket) => socket.once('data', () => socket.resetAndDestroy()), 'CONNECTION_RESET'],
    ['closes within the head', last('HTTP/1.1 200 OK\r\nContent-'), 'CONNECTION_CLOSED'],
    ['stops within the head', after('HTTP/1.1 200 OK\r\nContent-'), 'TIMEOUT_FIRST_BYTE'],
    ['stops within the body', after(answer(`200 OK\r\n${length}0`, 'abc')), 'TIMEOUT_DOWNLOAD'],
    ['closes within the body', ok(`${length}0`, 'abc'), 'HTTP_BODY_INCOMPLETE'],
    ['sends a chunk of absurd size', chunks('fffffffffffffffff\r\n'), 'HTTP_MALFORMED'],
    ['speaks something else', last('220 mail ESMTP\r\n'), 'HTTP_MALFORMED'],
    ['smuggles', ok(`${length}\r\nTransfer-Encoding: chunked`, '0\r\n\r\n'), 'HTTP_MALFORMED'],
    ['sends a thousand headers', ok(`${manyHeaders}X: y`), 'HTTP_HEADERS_TOO_LARGE'],
    ['claims gzip', ok(`Content-Encoding: gzip\r\n${length}`, 'p'), 'HTTP_BODY_UNDECODABLE'],
    ['switches', last(answer('101 No\r\nUpgrade: x\r\nConnection: upgrade')), 'HTTP_MALFORMED'],
    ['redirects to a file', redirect('file:///etc/passwd'), 'HTTP_REDIRECT_INVALID'],
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
    ['zstd', zlib.createZstdCompress],
  ] as const)('a bomb in %s is cut at the limit, and little of it is read', async (name, pack) => {
    await using server = await startHttpServer((_, response) => {
      response.writeHead(200, { 'content-encoding': name })
      const packer = pack()
      packer.pipe(response)
      response.on('close', () => packer.destroy())
      pour(packer)
    })
    const { codes, observed } = await checkUrl(`http://${server.authority}/`)
    expect(codes).toEqual(['HTTP_UNPACKED_TOO_LARGE'])
    expect(observed.response?.unpackedBytes).toBeLessThan(LIMITS.unpackedBytesMax + 1_048_576)
    expect(observed.response?.bytes).toBeLessThan(1_048_576)
  })
})

test.each([
  ['before the first byte', ''],
  ['in the download', answer('200 OK\r\nContent-Length: 9')],
])('a run that is cancelled %s lets go', async (_, sent) => {
  await using server = await startRawServer((socket) => void socket.write(sent))
  const address = `http://${server.authority}/`
  const connected = server.connection()
  const outcome = await cancelAt(connected, (signal) => checkUrl(address, {}, {}, { signal }))
  expect(outcome).toBe('let go')
  const socket = (await connected).resume()
  await expect.poll(() => socket.closed).toBe(true)
})
