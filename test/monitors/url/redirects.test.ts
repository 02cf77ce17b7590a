// Aim: redirects are followed as browsers do it, each hop is on record, and none leads past the network
// policy or the limit.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { checkUrl } from '../../support/monitors/check-url.ts'
import { fixedResolver } from '../../support/monitors/monitor-context.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startHttpServer, startHttpsServer } from '../../support/test-server.ts'

describe('redirects', () => {
  type Route = (request: IncomingMessage, response: ServerResponse) => void
  const to = (location: string, headers: Record<string, string | string[]> = {}): Route => {
    return (_, response) => response.writeHead(302, { location, ...headers }).end('moved')
  }
  const serve = (routes: Record<string, Route>) =>
    startHttpServer((request, response) =>
      (routes[request.url as string] ?? ((_, r) => r.end(JSON.stringify(request.headers))))(
        request,
        response,
      ),
    )

  test('every hop is reported with its phases', async () => {
    await using server = await serve({
      '/': to('a'),
      '/a': to('/b#x'),
      '/b': to(`//%6cocalhost:/c`),
    })
    await using other = await serve({ '/': to(`http://${server.authority}/end`) })
    const result = await checkUrl(`http://${other.authority}/`)
    expect(result.codes).toEqual([])
    expect(result.observed.redirects).toBe(1)
    expect(result.observed.hops).toMatchObject([
      { statusCode: 302, location: `http://${server.authority}/end`, address: '127.0.0.1' },
      { statusCode: 200, url: `http://${server.authority}/end` },
    ])
    const relative = await checkUrl(`http://${server.authority}/a`, { followRedirects: true })
    expect(relative.observed.hops[0]?.location).toBe(`http://${server.authority}/b`)
    const total = result.observed.hops.reduce((sum, hop) => sum + hop.phases.totalMs, 0)
    // Each is rounded to microseconds by itself.
    expect(Math.abs(total - result.observed.phases.totalMs)).toBeLessThan(0.02)
  })

  test('ten are followed, eleven are too many', async () => {
    const routes = Array.from({ length: 11 }, (_, n) => [`/${n + 1}`, to(`/${n}`)] as const)
    await using server = await serve(Object.fromEntries(routes))
    const ten = await checkUrl(`http://${server.authority}/10`)
    expect([ten.codes, ten.observed.redirects]).toEqual([[], 10])
    const eleven = await checkUrl(`http://${server.authority}/11`)
    expect(eleven.codes).toEqual(['HTTP_REDIRECT_LIMIT'])
    expect(eleven.observed.hops).toHaveLength(11)
  })

  test('are the answer where they are not followed', async () => {
    await using server = await serve({ '/': to('/a') })
    const result = await checkUrl(`http://${server.authority}/`, { followRedirects: false })
    expect(result.codes).toEqual([])
    expect(result.observed).toMatchObject({ statusCode: 302, redirects: 0 })
  })

  test('carry the cookies that they set', async () => {
    let cookie: string | undefined
    const cookies = ['a=1; Path=/', 'b=2; Path=/other', 'c=3; Domain=evil.test']
    await using server = await serve({
      '/': to('/next', { 'set-cookie': cookies }),
      '/next': (request, response) => {
        cookie = request.headers.cookie
        response.end()
      },
    })
    await checkUrl(`http://${server.authority}/`)
    expect(cookie).toBe('a=1')
  })

  test('carry Secure cookies over TLS alone, on loopback as well', async () => {
    const set = { 'set-cookie': ['a=1; Secure', 'b=2'] }
    let sent: string | undefined
    await using plain = await serve({
      '/set': to('/', set),
      '/': (request, response) => {
        sent = request.headers.cookie
        response.end()
      },
    })
    await checkUrl(`http://${plain.authority}/set`)
    expect(sent).toBe('b=2')
    const authority = createAuthority()
    await using secure = await startHttpsServer(authority.issue(), (request, response) => {
      sent = request.headers.cookie
      const next = { '/': '/next', '/next': `http://${plain.authority}/` }[request.url as string]
      response.writeHead(302, { location: next, ...set }).end()
    })
    const tls = { ca: authority.ca }
    const options = { followRedirects: true, tls }
    const { observed } = await checkUrl(`https://${secure.authority}/`, options)
    expect(observed.hops).toMatchObject([{}, {}, { downgraded: true }])
    expect(sent).toBe('b=2')
    await using last = await startHttpsServer(authority.issue(), (request, response) => {
      sent = request.headers.cookie
      if (request.url === '/') response.writeHead(302, { location: '/next', ...set }).end()
      else response.end()
    })
    await checkUrl(`https://${last.authority}/`, options)
    expect(sent).toBe('a=1; b=2')
  })

  test('a name that leads to a blocked address is stopped at its hop', async () => {
    await using server = await serve({ '/': to('http://rebound.test/latest/meta-data') })
    const resolver = fixedResolver({ 'rebound.test': ['169.254.169.254'] })
    const result = await checkUrl(`http://${server.authority}/`, {}, {}, { resolver })
    expect(result.codes).toEqual(['ADDRESS_BLOCKED'])
    expect(result.failures[0]?.details).toMatchObject({ address: '169.254.169.254', hop: 1 })
  })
})
