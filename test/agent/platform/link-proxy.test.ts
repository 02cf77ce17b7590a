// The way to the platform through a proxy: http and https ones, tunnels and forwarding, credentials, and that
// errors of the proxy differ from errors of the platform.
import { describe, expect, test } from 'vitest'
import type { LinkErrorCode } from '../../../src/agent/platform/link-error.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import { anAsk, failureOf, hello, linkTo, opened } from '../../support/agent/platform-links.ts'
import { startHttpServer, startHttpsServer, startRawServer } from '../../support/test-server.ts'

const authority = createAuthority()

describe('a proxy', () => {
  const CREDENTIALS = 'user:p@ss word'
  const withCredentials = (at: string, scheme = 'http') => `${scheme}://user:p%40ss%20word@${at}`

  test.each([['http'], ['https']])(
    'that is %s makes tunnels to an https platform',
    async (scheme) => {
      const platform = await opened(startHttpsServer(authority.issue(), hello))
      const proxy = await opened(
        startConnectProxy({
          credentials: CREDENTIALS,
          ...(scheme === 'https' ? { tls: authority.issue() } : {}),
        }),
      )
      const link = linkTo(`https://${platform.authority}`, {
        proxyUrl: withCredentials(proxy.authority, scheme),
        ca: authority.ca,
      })
      expect((await link.request(anAsk())).body.toString()).toBe('hello')
      expect((await link.request(anAsk())).body.toString()).toBe('hello')
      expect(proxy.requestLines).toEqual([`CONNECT ${platform.authority}`])
    },
  )

  test.each([['http'], ['https']])('that is %s forwards to an http platform', async (scheme) => {
    const platform = await opened(startHttpServer(hello))
    const proxy = await opened(
      startConnectProxy({
        credentials: CREDENTIALS,
        ...(scheme === 'https' ? { tls: authority.issue() } : {}),
      }),
    )
    const link = linkTo(`http://${platform.authority}`, {
      proxyUrl: withCredentials(proxy.authority, scheme),
      ca: authority.ca,
    })
    expect((await link.request(anAsk())).body.toString()).toBe('hello')
    expect(proxy.requestLines).toEqual([`POST http://${platform.authority}/agent/v1/sync`])
  })

  test('is not used for hosts of NO_PROXY', async () => {
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

  test.each([['http'], ['https']])(
    'that wants other credentials is named, without the password, for %s',
    async (scheme) => {
      const proxy = await opened(startConnectProxy({ credentials: 'user:other' }))
      const proxyUrl = withCredentials(proxy.authority)
      const { code, message } = await failureOf(linkTo(`${scheme}://127.0.0.1:9`, { proxyUrl }))
      expect(code).toBe('PROXY')
      expect(message).toContain('407')
      expect(message).toContain(proxy.authority)
      expect(message).not.toMatch(/p@ss|p%40ss/)
    },
  )

  test.each<[string, LinkErrorCode, { answer?: string; unresponsive?: boolean }]>([
    ['refuses', 'PROXY', { answer: 'HTTP/1.1 403 Forbidden\r\n\r\n' }],
    ['cannot reach the platform', 'PROXY', { answer: 'HTTP/1.1 502 Bad Gateway\r\n\r\n' }],
    ['answers in another language', 'PROXY', { answer: 'SSH-2.0-OpenSSH_9.6\r\n\r\n' }],
    ['never answers', 'TIMEOUT', { unresponsive: true }],
  ])('that %s is %s', async (_, code, options) => {
    const proxy = await opened(startConnectProxy(options))
    const proxyUrl = `http://${proxy.authority}`
    const link = linkTo('https://platform.test', { proxyUrl, connectMs: 200 })
    expect((await failureOf(link)).code).toBe(code)
  })

  test.each([['http'], ['https']])(
    'that is unreachable differs from a platform that is, %s',
    async (scheme) => {
      const gone = await startRawServer(() => {})
      await gone.close()
      const proxyUrl = `http://user:secret@${gone.authority}`
      const { code, message } = await failureOf(linkTo(`${scheme}://platform.test`, { proxyUrl }))
      expect(code).toBe('PROXY')
      expect(message).toContain(gone.authority)
      expect(message).not.toContain('secret')
    },
  )

  test('with a certificate that is not trusted', async () => {
    const proxy = await opened(startConnectProxy({ tls: authority.selfSigned() }))
    const proxyUrl = `https://${proxy.authority}`
    const { code, message } = await failureOf(linkTo('https://platform.test', { proxyUrl }))
    expect(code).toBe('TLS')
    expect(message).toContain(`the proxy ${proxyUrl}`)
  })
})
