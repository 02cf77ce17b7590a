// Through a proxy to the platform: tunnels, forwarding, credentials, and errors that differ from the platform's.
import { expect, test } from 'vitest'
import type { LinkErrorCode } from '../../../src/agent/platform/link-error.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import { anAsk, failureOf, hello, linkTo, opened } from '../../support/agent/platform-links.ts'
import { startHttpServer, startHttpsServer, startRawServer } from '../../support/test-server.ts'

const authority = createAuthority()

const CREDENTIALS = 'user:p@ss word'
const withCredentials = (at: string, scheme = 'http') => `${scheme}://user:p%40ss%20word@${at}`

test.each<[string, string, (at: string) => string]>([
  ['http', 'https', (at) => `CONNECT ${at}`],
  ['https', 'https', (at) => `CONNECT ${at}`],
  ['http', 'http', (at) => `POST http://${at}/agent/v1/sync`],
  ['https', 'http', (at) => `POST http://${at}/agent/v1/sync`],
])('a proxy that is %s leads to a platform that is %s', async (way, scheme, requestLine) => {
  const platform = await opened(
    scheme === 'https' ? startHttpsServer(authority.issue(), hello) : startHttpServer(hello),
  )
  const tls = way === 'https' ? { tls: authority.issue() } : {}
  const proxy = await opened(startConnectProxy({ credentials: CREDENTIALS, ...tls }))
  const link = linkTo(`${scheme}://${platform.authority}`, {
    proxyUrl: withCredentials(proxy.authority, way),
    ca: authority.ca,
  })
  expect((await link.request(anAsk())).body.toString()).toBe('hello')
  expect(proxy.requestLines).toEqual([requestLine(platform.authority)])
  if (scheme === 'http') return
  expect((await link.request(anAsk())).body.toString()).toBe('hello')
  expect(proxy.requestLines).toHaveLength(1)
})

test('a refusal that repeats the credentials of the call is read without them', async () => {
  const gateway = await opened(
    startHttpServer(({ headers }, response) => {
      const given = `${headers.authorization} ${headers['proxy-authorization']} ${CREDENTIALS}`
      response.writeHead(403).end(JSON.stringify({ message: `not allowed: ${given}` }))
    }),
  )
  const link = linkTo('http://127.0.0.1:9', { proxyUrl: withCredentials(gateway.authority) })
  const { status, body } = await link.request(anAsk())
  expect(status).toBe(403)
  expect(JSON.parse(body.toString())).toEqual({
    message: 'not allowed: [scrubbed] [scrubbed] [scrubbed]',
  })
})

test('a proxy is not used for hosts of NO_PROXY', async () => {
  const platform = await opened(startHttpsServer(authority.issue(), hello))
  const proxy = await opened(startConnectProxy())
  const link = linkTo(`https://${platform.authority}`, {
    proxyUrl: `http://${proxy.authority}`,
    noProxy: ['127.0.0.0/8'],
    ca: authority.ca,
  })
  await link.request(anAsk())
  expect(proxy.requestLines).toEqual([])
})

test.each(['http', 'https'])(
  'a proxy that wants other credentials is named, for %s',
  async (scheme) => {
    const proxy = await opened(startConnectProxy({ credentials: 'user:other' }))
    const proxyUrl = withCredentials(proxy.authority)
    const { code, message } = await failureOf(linkTo(`${scheme}://127.0.0.1:9`, { proxyUrl }))
    expect([code, message]).toEqual(['PROXY', expect.stringContaining('407')])
    expect(message).toContain(proxy.authority)
    expect(message).not.toMatch(/p@ss|p%40ss/)
  },
)

test.each<[string, LinkErrorCode, { answer?: string; unresponsive?: boolean }]>([
  ['refuses', 'PROXY', { answer: 'HTTP/1.1 403 Forbidden\r\n\r\n' }],
  ['cannot reach the platform', 'PROXY', { answer: 'HTTP/1.1 502 Bad Gateway\r\n\r\n' }],
  ['answers in another language', 'PROXY', { answer: 'SSH-2.0-OpenSSH_9.6\r\n\r\n' }],
  ['never answers', 'TIMEOUT', { unresponsive: true }],
])('a proxy that %s is %s', async (_, code, options) => {
  const proxy = await opened(startConnectProxy(options))
  const proxyUrl = `http://${proxy.authority}`
  const link = linkTo('https://platform.test', { proxyUrl, connectMs: 200 })
  expect((await failureOf(link)).code).toBe(code)
})

test('a proxy that is unreachable differs from a platform that is', async () => {
  const gone = await startRawServer(() => {})
  await gone.close()
  const proxyUrl = `http://user:secret@${gone.authority}`
  const { code, message } = await failureOf(linkTo('http://platform.test', { proxyUrl }))
  expect(code).toBe('PROXY')
  expect(message).toContain(gone.authority)
  expect(message).not.toContain('secret')
})

test('a proxy with a certificate that is not trusted', async () => {
  const proxy = await opened(startConnectProxy({ tls: authority.selfSigned() }))
  const proxyUrl = `https://${proxy.authority}`
  const { code, message } = await failureOf(linkTo('https://platform.test', { proxyUrl }))
  expect(code).toBe('TLS')
  expect(message).toContain(`the proxy ${proxyUrl}`)
})
