// Aim: `vedette doctor` finds the state of the way to the platform by one call, names the fix, quotes no secret.
import { afterEach, describe, expect, test, vi } from 'vitest'
import { probePlatform } from '../../../src/cli/doctor/platform.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import { FAKE_KEY, json, startFakePlatform } from '../../support/agent/fake-platform.ts'
import { temporaryFile } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

const authority = createAuthority()
const PASSWORD = 'planted-proxy-password'
const NONE = { monitorsFile: undefined, platformProxyUrl: undefined, noProxy: [] }
const { signal } = new AbortController()
afterEach(() => void vi.unstubAllEnvs())

/** The standing of each probed thing, and the findings by their ids. */
async function probe(
  platformUrl: string,
  more: { platformProxyUrl?: string; noProxy?: string[] } = {},
) {
  const settings = { ...NONE, apiKey: FAKE_KEY, platformUrl, ...more }
  const findings = await probePlatform(settings, signal)
  expect(JSON.stringify(findings)).not.toContain(PASSWORD)
  const standings = Object.fromEntries(findings.map(({ id, standing }) => [id, standing]))
  return { standings, of: new Map(findings.map((one) => [one.id, one])) }
}

describe('the platform', () => {
  test('accepts the key, or is another server that answers 200', async () => {
    await using platform = await startFakePlatform()
    const { standings } = await probe(platform.url)
    expect(standings).toEqual({ platform: 'works', proxy: 'absent', tls: 'absent', clock: 'works' })
    await using server = await startHttpServer((_, response) => response.end('<p>hello'))
    const { of } = await probe(`http://${server.authority}`)
    expect(of.get('platform')).toMatchObject({ standing: 'broken', facts: { status: 200 } })
  })

  test.each([
    ['of no location', 'unknown', /does not accept API_KEY/],
    ['that was revoked', 'revoked', /revoked/],
  ])('refuses a key %s', async (_, reason, says) => {
    await using platform = await startFakePlatform()
    platform.misbehave((__, response) => {
      json(response, { message: 'No', attributes: { reason } }, 401)
      return true
    })
    expect((await probe(platform.url)).of.get('platform')).toMatchObject({
      standing: 'broken',
      says: expect.stringMatching(says) as string,
      fix: expect.stringContaining('API_KEY') as string,
    })
  })

  test.each([
    ['behind', 3600, /3[56]\d\d s behind/],
    ['ahead of', -3600, /3[56]\d\d s ahead/],
  ])('has a clock that this one is %s: a warning', async (_, seconds, says) => {
    await using platform = await startFakePlatform()
    platform.misbehave((__, response) => {
      response.setHeader('date', new Date(Date.now() + seconds * 1000).toUTCString())
      json(response, { live: false })
      return true
    })
    const { of, standings } = await probe(platform.url)
    expect(standings).toMatchObject({ platform: 'works', clock: 'warning' })
    const { says: said, fix } = of.get('clock') ?? {}
    expect([said, fix]).toEqual([expect.stringMatching(says), expect.stringContaining('set-ntp')])
  })
})

describe('TLS', () => {
  test('with a certificate of an unknown authority: the fix names the authority', async () => {
    await using platform = await startFakePlatform(authority.selfSigned())
    const { of, standings } = await probe(platform.url)
    expect(standings).toMatchObject({ platform: 'broken', tls: 'broken', clock: 'absent' })
    expect(of.get('tls')?.fix).toContain('NODE_EXTRA_CA_CERTS')
  })

  test('with a file of authorities without a certificate: reported, although Node.js ignores it', async () => {
    vi.stubEnv('NODE_EXTRA_CA_CERTS', temporaryFile('ca.pem', 'none\n'))
    await using platform = await startFakePlatform()
    const { standings } = await probe(platform.url)
    expect(standings).toMatchObject({ platform: 'works', tls: 'broken' })
    vi.unstubAllEnvs()
    // To a port without TLS the fix is http://.
    const { of } = await probe(platform.url.replace('http:', 'https:'))
    expect(of.get('tls')?.fix).toContain('http://')
  })
})

describe('the proxy', () => {
  const credentials = `user:${PASSWORD}`

  test.each([
    ['in a tunnel', () => authority.selfSigned()],
    ['that forwards', () => undefined],
  ])('requires other credentials, %s', async (_, pair) => {
    await using platform = await startFakePlatform(pair())
    await using proxy = await startConnectProxy({ credentials: 'user:right' })
    const platformProxyUrl = `http://${credentials}@${proxy.authority}`
    const { of, standings } = await probe(platform.url, { platformProxyUrl })
    expect(standings).toMatchObject({ platform: 'broken', proxy: 'broken' })
    expect(of.get('proxy')?.fix).toMatch(/HTTPS?_PROXY/)
  })

  test('leads to the platform, unless NO_PROXY names that', async () => {
    await using platform = await startFakePlatform()
    await using proxy = await startConnectProxy({ credentials })
    const platformProxyUrl = `http://${credentials}@${proxy.authority}`
    const through = await probe(platform.url, { platformProxyUrl })
    expect(through.standings).toMatchObject({ platform: 'works', proxy: 'works' })
    expect(proxy.requestLines).toHaveLength(1)
    const direct = await probe(platform.url, { platformProxyUrl, noProxy: ['127.0.0.1'] })
    expect(direct.standings).toMatchObject({ platform: 'works', proxy: 'absent' })
    expect(direct.of.get('proxy')?.says).toContain('NO_PROXY')
  })
})
