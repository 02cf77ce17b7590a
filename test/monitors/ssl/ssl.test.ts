// Aim: an SSL monitor lets go at once at every stage, blames a silent server's phase, probes every address, and
// its assertions, thresholds and metrics say what its report says.
import { connect } from 'node:net'
import { afterAll, describe, expect, test } from 'vitest'
import type { Resolver } from '../../../src/network/dns/resolver.ts'
import { ssl } from '../../../src/monitors/ssl/index.ts'
import { deadlineAfter, fixedResolver } from '../../support/monitors/monitor-context.ts'
import { createPki } from '../../support/network/certificates.ts'
import { codesOf } from '../../support/monitors/check-monitor.ts'
import { runSsl, type SslOptions, startTlsServer } from '../../support/monitors/ssl/ssl-runs.ts'
import { SCRIPTS, startScripted } from '../../support/monitors/ssl/starttls-servers.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import {
  closing,
  resetting,
  saying,
  unresponsive,
  type Behaviour,
} from '../../support/monitors/tcp-servers.ts'
import { startRawServer } from '../../support/test-server.ts'
import { freePort } from '../../support/network/free-port.ts'

const pki = createPki()
const { ca } = pki
const pair = pki.issue()
afterAll(() => pki[Symbol.dispose]())

describe('what goes wrong before a handshake is done', () => {
  test('a port that refuses', async () => {
    const observation = await runSsl(await freePort())
    expect(observation.codes).toEqual(['CONNECT_REFUSED'])
    expect(observation.observed).toMatchObject({ errorCategory: 'connect', phases: {} })
    expect(observation.responseTimeMs).toBeUndefined()
  })

  test('a name that is never found', async () => {
    const context = { resolver: fixedResolver({}) }
    const options = { sslConfig: { hostname: 'nowhere.test' }, settings: { maxResponseTime: 50 } }
    const { codes, observed } = await runSsl(1, { ...options, context })
    expect([codes, observed['errorCategory']]).toEqual([['TIMEOUT_DNS'], 'timeout'])
  })

  test.each<[string, Behaviour, string]>([
    ['no answer', unresponsive, 'TIMEOUT_TLS'],
    ['half a record', saying(Buffer.from([22, 3, 3, 1])), 'TIMEOUT_TLS'],
    ['an end', closing, 'CONNECTION_CLOSED'],
    ['a reset', resetting, 'CONNECTION_RESET'],
    ['another protocol', saying('220 hello\r\n'), 'TLS_NOT_SPOKEN'],
    ['garbage in a record', saying(Buffer.from('16030300050200000100', 'hex')), 'TLS_PROTOCOL'],
  ])('%s', async (_, behaviour, code) => {
    await using server = await startRawServer((socket) => behaviour(socket.resume()))
    const settings = { maxResponseTime: code.startsWith('TIMEOUT') ? 300 : 10_000 }
    expect(await codesOf(runSsl(server.port, { settings }))).toEqual([code])
    await expect.poll(() => server.open()).toBe(0)
  })

  test('handshakeTimeoutMs ends the handshake before maxResponseTime does', async () => {
    await using server = await startRawServer(unresponsive)
    const { failures } = await runSsl(server.port, { sslConfig: { handshakeTimeoutMs: 1000 } })
    expect(failures).toMatchObject([{ code: 'TIMEOUT_TLS', details: { deadlineMs: 1000 } }])
  })

  test('shouldFail takes what cannot be trusted for a pass', async () => {
    const settings = { shouldFail: true }
    expect(await codesOf(runSsl(await freePort(), { settings }))).toEqual([])
    await using server = await startTlsServer(pki.stranger().issue())
    expect(await codesOf(runSsl(server.port, { ca, settings }))).toEqual([])
    await using old = await startTlsServer(pki.issue({ fromDays: -20, toDays: -3 }))
    expect(await runSsl(old.port, { ca, settings })).toMatchObject({ codes: [], degraded: false })
    const { failures } = await runSsl(old.port, { ca })
    expect(failures).toMatchObject([{ code: 'TLS_EXPIRED' }])
    expect(failures[0]?.message).toContain('3 days ago')
  })
})

describe('a cancelled run', () => {
  const neverReading: Behaviour = (socket) => void socket.pause()
  /** Starts a run; gives what cancels it and checks that it ends at once. */
  const start = (port: number, options: SslOptions) => {
    const controller = new AbortController()
    const context = { signal: controller.signal }
    const ended = runSsl(port, { ...options, context }).catch((error: Error) => error.message)
    return async () => {
      const ownMs = startStopwatch()
      controller.abort(new Error('enough'))
      expect(await ended).toBe('enough')
      expect(ownMs()).toBeLessThan(50)
    }
  }

  test.each<[string, Behaviour, Record<string, unknown>]>([
    ['in the handshake', neverReading, {}],
    ['before a greeting', neverReading, { startTls: 'SMTP' }],
    ['after EHLO', saying('220 hi\r\n'), { startTls: 'SMTP' }],
  ])('%s lets go at once', async (_, behaviour, sslConfig) => {
    await using server = await startRawServer(behaviour)
    const connected = server.connection()
    const cancel = start(server.port, { sslConfig })
    const socket = await connected
    await new Promise((resolve) => setImmediate(resolve))
    await cancel()
    socket.resume()
    await expect.poll(() => server.open()).toBe(0)
  })

  test('while the versions are asked for', async () => {
    let connections = 0
    const tls = await startTlsServer(pair)
    await using front = await startRawServer((socket) => {
      // The first connection is the handshake's; the others receive nothing.
      if (connections++ > 0) {
        socket.resume()
        return
      }
      const behind = connect(tls.port, '127.0.0.1')
      behind.on('error', () => {})
      socket.on('close', () => behind.destroy())
      socket.pipe(behind).pipe(socket)
    })
    const cancel = start(front.port, { ca, sslConfig: { probeVersions: true } })
    await expect.poll(() => connections).toBe(5)
    await cancel()
    await expect.poll(() => front.open()).toBe(0)
    await tls.close()
  })
})

describe('assertions', () => {
  const asserting =
    (source: string) => (property: string, comparison: string, target: unknown) => ({
      source,
      property,
      comparison,
      target,
    })
  const [certificate, connection] = [asserting('CERTIFICATE'), asserting('CONNECTION')]
  const holds = [
    certificate('daysUntilExpiry', 'GREATER_THAN', 50),
    certificate('daysUntilExpiry', 'LESS_THAN', 61),
    certificate('keySizeBits', 'EQUALS', 256),
    certificate('subjectCN', 'EQUALS', 'leaf.test'),
    certificate('issuerCN', 'CONTAINS', 'Intermediate'),
    certificate('keyAlgorithm', 'EQUALS', 'EC'),
    certificate('signatureAlgorithm', 'EQUALS', 'ECDSA-SHA256'),
    certificate('signatureAlgorithm', 'EQUALS', 'ecdsa-with-SHA256'),
    certificate('sans', 'CONTAINS', 'localhost'),
    certificate('sans', 'NOT_CONTAINS', 'local'),
    certificate('selfSigned', 'EQUALS', false),
    certificate('isCA', 'EQUALS', false),
    connection('tlsVersion', 'GREATER_THAN', 'TLS1.2'),
    connection('tlsVersion', 'EQUALS', 'TLS1.3'),
    connection('tlsVersion', 'NOT_EQUALS', 'TLS1.0'),
    connection('cipherSuite', 'CONTAINS', 'TLS_'),
    connection('resolvedIp', 'EQUALS', '127.0.0.1'),
    connection('hostnameVerified', 'EQUALS', true),
    connection('chainTrusted', 'EQUALS', true),
    connection('ocspStapled', 'EQUALS', false),
    connection('ocspStatus', 'NOT_EQUALS', 'revoked'),
    { source: 'RESPONSE_TIME', comparison: 'LESS_THAN', target: 5000 },
    { source: 'JSON_RESPONSE', property: '$.chain.sent.length', comparison: 'EQUALS', target: 2 },
    { source: 'TEXT_RESPONSE', property: '"grade":"(.*?)"', comparison: 'EQUALS', target: 'A-' },
  ]

  test('that hold', async () => {
    await using server = await startTlsServer(pair)
    const observation = await runSsl(server.port, { ca, request: { assertions: holds } })
    expect(observation.failures).toEqual([])
  })

  test('fingerprints and numbers in any spelling', async () => {
    await using server = await startTlsServer(pair)
    const { observed } = await runSsl(server.port, { ca })
    const shown = observed['certificate'] as Record<string, string>
    const { fingerprintSha256, serialNumber, issuerFingerprintSha256 } = shown
    const colons = (hex = '') => hex.toUpperCase().replaceAll(/..(?=.)/g, '$&:')
    const assertions = [
      certificate('fingerprintSha256', 'EQUALS', fingerprintSha256),
      certificate('fingerprintSha256', 'EQUALS', colons(fingerprintSha256)),
      certificate('issuerFingerprintSha256', 'EQUALS', colons(issuerFingerprintSha256)),
      certificate('serialNumber', 'EQUALS', `0x00${serialNumber}`),
      certificate('fingerprintSha256', 'NOT_EQUALS', '00'),
    ]
    expect(await codesOf(runSsl(server.port, { ca, request: { assertions } }))).toEqual([])
  })

  test('that do not', async () => {
    await using server = await startTlsServer(pair)
    const assertions = [
      connection('tlsVersion', 'LESS_THAN', 'TLS1.3'),
      connection('tlsVersion', 'GREATER_THAN', 'TLS1.3'),
      connection('ocspStatus', 'EQUALS', 'good'),
      certificate('sans', 'CONTAINS', 'other.test'),
      certificate('keySizeBits', 'GREATER_THAN', 256),
      certificate('fingerprintSha256', 'EQUALS', 'aa:bb'),
    ]
    const { failures } = await runSsl(server.port, { ca, request: { assertions } })
    expect(failures).toMatchObject(
      assertions.map(({ property }) => ({ code: 'ASSERTION_FAILED', details: { property } })),
    )
  })

  test('are evaluated where the chain fails, too', async () => {
    await using server = await startTlsServer(pki.stranger().issue())
    const assertions = [connection('chainTrusted', 'EQUALS', false)]
    const checking = runSsl(server.port, { ca, request: { assertions } })
    expect(await codesOf(checking)).toEqual(['TLS_UNTRUSTED'])
  })
})

test('every address is probed, and the one that fails is named', async () => {
  const resolver = fixedResolver({ 'two.test': ['127.0.0.1', '127.0.0.2'] })
  await using server = await startTlsServer(pki.issue({ names: 'DNS:two.test' }))
  const sslConfig = { hostname: 'two.test', allAddresses: true }
  const { failures, observed } = await runSsl(server.port, { ca, sslConfig, context: { resolver } })
  expect(failures).toMatchObject([{ code: 'CONNECT_REFUSED', details: { address: '127.0.0.2' } }])
  expect(observed['addresses']).toMatchObject([
    { address: '127.0.0.1', daysUntilExpiry: 59, failures: [] },
    { address: '127.0.0.2', errorCategory: 'connect' },
  ])
})

test('the same certificate with other ones behind it is another chain', async () => {
  const bare = pki.intermediate.issue()
  const whole = { cert: bare.cert + pki.intermediate.pair.cert, key: bare.key }
  await using complete = await startTlsServer(whole)
  await using incomplete = await startTlsServer(bare)
  for (let round = 0; round < 2; round++) {
    const one = await runSsl(complete.port, { ca })
    expect([one.codes, one.observed['chain']]).toMatchObject([[], { issues: [] }])
    const other = await runSsl(incomplete.port, { ca })
    expect([other.codes, other.observed['chain']]).toMatchObject([
      ['TLS_UNTRUSTED'],
      { issues: [expect.stringMatching(/^incomplete/)], anchored: false },
    ])
  }
})

describe('versions', () => {
  const ALL = ['TLS1.0', 'TLS1.1', 'TLS1.2', 'TLS1.3']
  const sslConfig = { probeVersions: true }

  test.each([
    ['all that there are', {}, ALL],
    ['the new ones', { minVersion: 'TLSv1.2' }, ['TLS1.2', 'TLS1.3']],
    ['the newest', { minVersion: 'TLSv1.3' }, ['TLS1.3']],
  ] as const)('%s', async (_, options, versions) => {
    await using server = await startTlsServer(pair, options)
    const { observed, failures } = await runSsl(server.port, { ca, sslConfig })
    expect(observed['connection']).toMatchObject({ versions, tlsVersion: 'TLS1.3' })
    // What is accepted besides counts as much as what was agreed on.
    expect(failures.map(({ details }) => details?.['rule'])).toEqual(
      versions.length > 2 ? ['minTLSVersion'] : [],
    )
  })

  test('stay open when time runs out on them: the handshake still counts', async () => {
    let connections = 0
    await using server = await startTlsServer(pair)
    await using front = await startRawServer((socket) => {
      if (connections++ === 0) socket.pipe(connect(server.port, '127.0.0.1')).pipe(socket)
      else socket.resume()
    })
    const context = { signal: deadlineAfter(400) }
    const { observed, failures } = await runSsl(front.port, { ca, sslConfig, context })
    expect(failures).toEqual([])
    expect(observed['connection']).toMatchObject({
      tlsVersion: 'TLS1.3',
      versions: [],
      versionsUndecided: ALL,
    })
  })

  test('are asked of the address that was looked at', async () => {
    await using server = await startTlsServer(pki.issue({ names: 'DNS:one.test' }))
    let asked = 0
    // Each look-up finds the addresses in another order, as name servers with several do.
    const resolver: Resolver = {
      resolve: () => Promise.resolve([asked++ === 0 ? '127.0.0.1' : '127.0.0.2']),
    }
    const named = { ...sslConfig, hostname: 'one.test' }
    const options = { ca, sslConfig: named, context: { resolver } }
    const { observed } = await runSsl(server.port, options)
    expect(observed['connection']).toMatchObject({ resolvedIp: '127.0.0.1', versions: ALL })
  })
})

test('application protocols are offered where they are asked for', async () => {
  await using server = await startTlsServer(pair, { ALPNProtocols: ['mqtt', 'h2'] })
  const alpnOf = async (sslConfig: Record<string, unknown>) =>
    (await runSsl(server.port, { ca, sslConfig })).observed['connection'] as { alpn?: string }
  expect((await alpnOf({ alpnProtocols: ['h2'] })).alpn).toBe('h2')
  expect((await alpnOf({})).alpn).toBeUndefined()
})

test('an end that comes near degrades', async () => {
  await using server = await startTlsServer(pki.issue({ toDays: 10 }))
  for (const days of [9, 10]) {
    const sslConfig = { alertDaysBeforeExpiry: days }
    expect((await runSsl(server.port, { ca, sslConfig })).degraded).toBe(days === 10)
  }
})

test('STARTTLS and TLS have their own phases in the metrics', async () => {
  await using server = await startScripted(SCRIPTS.IMAP, pair)
  const { observed } = await runSsl(server.port, { ca, sslConfig: { startTls: 'IMAP' } })
  const samples = ssl.samples(observed)
  const phases = samples.flatMap(({ name, labels }) =>
    name === 'probe_ssl_duration_seconds' ? [labels?.['phase']] : [],
  )
  expect(new Set(phases)).toEqual(new Set(['connect', 'resolve', 'starttls', 'tls']))
  const value = (name: string) => samples.find((one) => one.name === name)?.value
  expect(value('probe_ssl_cert_days_left')).toBe(59)
  expect(value('probe_ssl_chain_trusted')).toBe(1)
  expect(value('probe_ssl_ocsp_stapled')).toBe(0)
})
