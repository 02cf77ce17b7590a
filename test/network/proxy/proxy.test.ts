// Aim: through the location's proxy all works as without, with separate timings; the proxy gets no request for a
// denied target; and failures of the proxy are not failures of the target.
import { describe, expect, test } from 'vitest'
import type { FailureCode } from '../../../src/contract/failure.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { proxyProblem } from '../../../src/network/proxy/proxy.ts'
import { failureOf } from '../../../src/network/target-failure.ts'
import { tcp } from '../../../src/monitors/tcp/index.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import { checkMonitor } from '../../support/monitors/check-monitor.ts'
import { checkUrl } from '../../support/monitors/check-monitor.ts'
import {
  deadlineAfter,
  fixedResolver,
  testContext,
  type ContextOptions,
} from '../../support/monitors/monitor-context.ts'
import { startHttpServer, startHttpsServer, startRawServer } from '../../support/test-server.ts'

const authority = createAuthority()
const pair = authority.issue()

const check = (address: string, options: ContextOptions, request: object = {}) =>
  checkUrl(address, { tls: { ca: authority.ca }, ...request }, {}, options)

/** The codes of a check through `proxy`. */
const codesBy = async (
  proxy: { authority: string },
  address = 'https://127.0.0.1:9/',
  options = {},
) => (await check(address, { proxyUrl: `http://${proxy.authority}`, ...options })).codes

const startTarget = () => startHttpsServer(pair, (_, response) => response.end('ok'))

describe('tunnels', () => {
  test('carry TLS to the target, with separate timings', async () => {
    await using target = await startTarget()
    await using proxy = await startConnectProxy({ credentials: 'me:s%cret' })
    const proxyUrl = `http://me:s%25cret@${proxy.authority}`
    const observation = await check(`https://${target.authority}/`, { proxyUrl })
    expect(observation.codes).toEqual([])
    expect(observation.observed.tls?.verified).toBe(true)
    expect(observation.observed.phases.proxyMs).toBeGreaterThan(0)
    expect(proxy.requestLines).toEqual([`CONNECT ${target.authority}`])
  })

  test('go through a proxy that speaks TLS itself', async () => {
    await using target = await startTarget()
    await using proxy = await startConnectProxy({ tls: pair })
    const proxyUrl = `https://${proxy.authority}`
    // Its authority is unknown, so it must not be trusted with the tunnel.
    const observation = await check(`https://${target.authority}/`, { proxyUrl })
    expect(observation.codes).toEqual(['PROXY_UNREACHABLE'])
    expect(observation.failures[0]?.details).toMatchObject({ reason: 'TLS_UNTRUSTED' })
  })

  test('preserve the bytes that the target sends right after the answer', async () => {
    const head = 'HTTP/1.1 200 OK\r\n\r\n'
    await using proxy = await startRawServer((socket) =>
      socket.once('data', () => socket.write(`${head}220 hello`)),
    )
    const { dial } = testContext({ proxyUrl: `http://${proxy.authority}` })
    const endpoint = { host: '127.0.0.1', port: 25, family: 'IPv4' } as const
    const { socket } = await dial.connect(endpoint, { phase: 'dns' }, new AbortController().signal)
    const text = await new Promise((resolve) =>
      socket.once('data', (chunk) => resolve(String(chunk))),
    )
    expect(text).toBe('220 hello')
    socket.destroy()
  })

  test.each<[string, string, FailureCode]>([
    ['wants other credentials', 'HTTP/1.1 407 No\r\n\r\n', 'PROXY_AUTHENTICATION'],
    ['forbids it', 'HTTP/1.1 403 No\r\n\r\n', 'PROXY_REFUSED'],
    ['cannot reach the target', 'HTTP/1.1 502 No\r\n\r\n', 'CONNECT_FAILED'],
    ['gets no answer from the target', 'HTTP/1.1 504 No\r\n\r\n', 'CONNECT_FAILED'],
    ['is none', 'SSH-2.0-x\r\n\r\n', 'PROXY_REFUSED'],
    ['talks too much', 'x'.repeat(20_000), 'PROXY_REFUSED'],
    ['hangs up', '', 'PROXY_REFUSED'],
  ])('a proxy that %s', async (_, answer, code) => {
    await using proxy = await startConnectProxy({ answer })
    expect(await codesBy(proxy)).toEqual([code])
  })

  test('a proxy that does not run', async () => {
    const proxy = await startConnectProxy()
    await proxy.close()
    expect(await codesBy(proxy)).toEqual(['PROXY_UNREACHABLE'])
  })

  test('a proxy that never answers', async () => {
    const stop = new AbortController()
    const onConnect = () => stop.abort(new DeadlineReached(60))
    await using proxy = await startConnectProxy({ unresponsive: true, onConnect })
    expect(await codesBy(proxy, undefined, { signal: stop.signal })).toEqual(['TIMEOUT_PROXY'])
  })

  test.each(['http', 'https'])('a proxy whose name cannot be resolved, for %s', async (scheme) => {
    const proxyUrl = 'http://proxy.test:3128'
    const options = { proxyUrl, resolver: fixedResolver({}), signal: deadlineAfter(60) }
    const observation = await check(`${scheme}://127.0.0.1:9/`, options)
    expect(observation.codes).toEqual(['PROXY_UNREACHABLE'])
  })

  test('a proxy with TLS that does not answer', async () => {
    await using proxy = await startRawServer(() => {})
    const options = { proxyUrl: `https://${proxy.authority}`, signal: deadlineAfter(60) }
    expect((await check('https://127.0.0.1:9/', options)).codes).toEqual(['PROXY_UNREACHABLE'])
  })
})

describe('a failure of a target behind the proxy', () => {
  test.each([
    ['http', 'HTTP_MALFORMED'],
    ['https', 'TLS_NOT_SPOKEN'],
  ])('names the target and the proxy’s host for %s', async (scheme, code) => {
    await using target = await startRawServer((socket) => socket.end('no protocol at all\r\n'))
    // A forwarding proxy would parse the answer itself, so this one passes the target's bytes on.
    await using proxy =
      scheme === 'http'
        ? await startRawServer((socket) => socket.end('no protocol at all\r\n'))
        : await startConnectProxy({ credentials: 'me:hunter2' })
    const proxyUrl = `http://me:hunter2@localhost:${proxy.port}`
    const observation = await check(`${scheme}://127.0.0.1:${target.port}/`, { proxyUrl })
    expect(observation.codes).toEqual([code])
    const [failed] = observation.failures
    expect(failed?.message).toContain(`127.0.0.1:${target.port} (through the proxy localhost)`)
    expect(JSON.stringify(failed)).not.toMatch(/hunter2|:undefined/)
  })

  test('and for TCP', async () => {
    await using target = await startRawServer((socket) => socket.end())
    await using proxy = await startConnectProxy()
    const assertions = [{ source: 'RESPONSE_DATA', comparison: 'CONTAINS', target: 'x' }]
    const request = { hostname: '127.0.0.1', port: target.port, assertions }
    const proxyUrl = `http://localhost:${proxy.port}`
    const { failures } = await checkMonitor(tcp, request, {}, { proxyUrl })
    expect(failures[0]?.code).toBe('CONNECTION_CLOSED')
    expect(failures[0]?.message).toContain(`127.0.0.1:${target.port} (through the proxy localhost)`)
  })
})

describe('plain HTTP', () => {
  test('is forwarded in absolute form, with the credentials for the proxy alone', async () => {
    let received: NodeJS.Dict<string | string[]> = {}
    await using target = await startHttpServer((request, response) => {
      received = request.headers
      response.end('ok')
    })
    await using proxy = await startConnectProxy({ credentials: 'me:secret' })
    const proxyUrl = `http://me:secret@${proxy.authority}`
    const observation = await check(`http://${target.authority}/a?b=c`, { proxyUrl })
    expect(observation.codes).toEqual([])
    expect(proxy.requestLines).toEqual([`GET http://${target.authority}/a?b=c`])
    expect(received['host']).toBe(target.authority)
    expect(received['proxy-authorization']).toBeUndefined()
  })

  test('with the wrong credentials is the proxy’s refusal, not the target’s status', async () => {
    await using proxy = await startConnectProxy({ credentials: 'me:secret' })
    expect(await codesBy(proxy, 'http://127.0.0.1:9/')).toEqual(['PROXY_AUTHENTICATION'])
  })
})

describe('the network policy', () => {
  test.each([
    '169.254.169.254',
    '0xa9fea9fe',
    '[::ffff:a9fe:a9fe]',
    'metadata.google.internal',
    'METADATA.google.internal.',
    'rebound.test',
  ])('denies %s before the proxy gets a request', async (host) => {
    await using proxy = await startConnectProxy()
    const resolver = fixedResolver({ 'rebound.test': ['10.0.0.1', '169.254.169.254'] })
    for (const scheme of ['http', 'https']) {
      expect(await codesBy(proxy, `${scheme}://${host}/`, { resolver })).toEqual([
        'ADDRESS_BLOCKED',
      ])
    }
    expect(proxy.requestLines).toEqual([])
  })

  test('is not a failure of the target when our own name servers are unresponsive', async () => {
    await using proxy = await startConnectProxy()
    const options = { resolver: fixedResolver({}), signal: deadlineAfter(30) }
    expect(await codesBy(proxy, 'https://inside.test/', options)).toEqual(['POLICY_UNDECIDED'])
    expect(proxy.requestLines).toEqual([])
  })

  test('lets a name pass that only the proxy knows', async () => {
    await using target = await startTarget()
    await using proxy = await startConnectProxy({ names: { 'inside.test': '127.0.0.1' } })
    const resolver = { resolve: () => Promise.reject(new Error('no such name')) }
    const options = { proxyUrl: `http://${proxy.authority}`, resolver }
    const address = `https://inside.test:${target.port}/`
    const observation = await check(address, options, { skipSSL: true })
    expect(observation.codes).toEqual([])
    expect(observation.observed.tls?.error).toBe('HOSTNAME_MISMATCH')
  })
})

test.each(['', 'proxy:3128', 'socks5://proxy:1080', 'http://proxy:3128/path', 'http://'])(
  '%j is no proxyUrl, and the message shows no password',
  (text) => {
    expect(proxyProblem(text)).toBeTypeOf('string')
    expect(() => testContext({ proxyUrl: text })).toThrow(TypeError)
    expect(proxyProblem('ftp://me:hunter2@proxy')).not.toContain('hunter2')
  },
)

test('a fault of our own is no failure of the target', () => {
  const fault = new Error('bug')
  expect(() => failureOf(fault, { phase: 'dns' })).toThrow(fault)
})
