// Aim: an SSL monitor lets go at once at every stage, blames a silent server's phase, probes every address, and
// its assertions, thresholds and metrics say what its report says; STARTTLS of every protocol leads to a handshake.
import { connect } from 'node:net'
import type { TlsOptions } from 'node:tls'
import { afterAll, describe, expect, test } from 'vitest'
import type { Resolver } from '../../../src/network/dns/resolver.ts'
import type { StartTlsProtocol } from '../../../src/monitors/ssl/definition.ts'
import { ssl } from '../../../src/monitors/ssl/index.ts'
import { definitionOf, type Fields } from '../../support/definitions.ts'
import { deadlineAfter, fixedResolver } from '../../support/monitors/monitor-context.ts'
import { createPki } from '../../support/network/certificates.ts'
import { assertion, cancelAt, codesOf, sampleValues } from '../../support/monitors/check-monitor.ts'
import { runSsl, type SslOptions, startTlsServer } from '../../support/monitors/ssl/ssl-runs.ts'
import { type Script, SCRIPTS, startScripted } from '../../support/monitors/ssl/starttls-servers.ts'
import {
  flooding,
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

/** A run against a server with this certificate. */
async function look(options: SslOptions = {}, keys = pair, server: TlsOptions = {}) {
  await using running = await startTlsServer(keys, server)
  return await runSsl(running.port, { ca, ...options })
}

describe('what goes wrong before a handshake is done', () => {
  test('a port that refuses', async () => {
    const observation = await runSsl(await freePort())
    expect(observation.codes).toEqual(['CONNECT_REFUSED'])
    expect(observation.observed).toMatchObject({ errorCategory: 'connect', phases: {} })
    expect(observation.responseTimeMs).toBeUndefined()
  })

  test('handshakeTimeoutMs ends the handshake before maxResponseTime does', async () => {
    await using server = await startRawServer(unresponsive)
    const { failures } = await runSsl(server.port, { sslConfig: { handshakeTimeoutMs: 1000 } })
    expect(failures).toMatchObject([{ code: 'TIMEOUT_TLS', details: { deadlineMs: 1000 } }])
  })

  test('shouldFail takes what cannot be trusted for a pass', async () => {
    const settings = { shouldFail: true }
    expect(await codesOf(runSsl(await freePort(), { settings }))).toEqual([])
    expect(await codesOf(look({ settings }, pki.stranger().issue()))).toEqual([])
    const old = pki.issue({ fromDays: -20, toDays: -3 })
    expect(await look({ settings }, old)).toMatchObject({ codes: [], degraded: false })
    expect(await codesOf(look({}, old))).toEqual(['TLS_EXPIRED'])
  })
})

const neverReading: Behaviour = (socket) => void socket.pause()
test.each<[string, Behaviour, Record<string, unknown>]>([
  ['in the handshake', neverReading, {}],
  ['before a greeting', neverReading, { startTls: 'SMTP' }],
])('a cancelled run %s lets go at once', async (_, behaviour, sslConfig) => {
  await using server = await startRawServer(behaviour)
  const connected = server.connection()
  const cancelled = cancelAt(connected, (signal) =>
    runSsl(server.port, { sslConfig, context: { signal } }),
  )
  expect(await cancelled).toBe('let go')
  const socket = await connected
  socket.resume()
  await expect.poll(() => server.open()).toBe(0)
})

describe('assertions', () => {
  /** A run that is asserted on by these lines. */
  const asserted = (lines: string[], keys = pair) =>
    look({ request: { assertions: lines.map(assertion) } }, keys)

  test('that hold', async () => {
    const { codes } = await asserted([
      'CERTIFICATE daysUntilExpiry GREATER_THAN 50',
      'CERTIFICATE subjectCN EQUALS leaf.test',
      'CERTIFICATE keyAlgorithm EQUALS EC',
      'CERTIFICATE signatureAlgorithm EQUALS ECDSA-SHA256',
      'CERTIFICATE signatureAlgorithm EQUALS ecdsa-with-SHA256',
      'CERTIFICATE sans CONTAINS localhost',
      'CERTIFICATE sans NOT_CONTAINS local',
      'CERTIFICATE selfSigned EQUALS false',
      'CONNECTION tlsVersion GREATER_THAN TLS1.2',
      'CONNECTION tlsVersion EQUALS TLS1.3',
      'CONNECTION resolvedIp EQUALS 127.0.0.1',
      'CONNECTION hostnameVerified EQUALS true',
      'CONNECTION ocspStatus NOT_EQUALS revoked',
      'RESPONSE_TIME  LESS_THAN 5000',
      'JSON_RESPONSE $.chain.sent.length EQUALS 2',
      'TEXT_RESPONSE "grade":"(.*?)" EQUALS A-',
    ])
    expect(codes).toEqual([])
  })

  test('fingerprints and numbers in any spelling', async () => {
    const shown = (await asserted([])).observed['certificate'] as Record<string, string>
    const { fingerprintSha256, serialNumber, issuerFingerprintSha256 } = shown
    const colons = (hex = '') => hex.toUpperCase().replaceAll(/..(?=.)/g, '$&:')
    const { codes } = await asserted([
      `CERTIFICATE fingerprintSha256 EQUALS ${fingerprintSha256}`,
      `CERTIFICATE fingerprintSha256 EQUALS ${colons(fingerprintSha256)}`,
      `CERTIFICATE issuerFingerprintSha256 EQUALS ${colons(issuerFingerprintSha256)}`,
      `CERTIFICATE serialNumber EQUALS 0x00${serialNumber}`,
    ])
    expect(codes).toEqual([])
  })

  test.each([
    'CONNECTION tlsVersion LESS_THAN TLS1.3',
    'CONNECTION ocspStatus EQUALS good',
    'CERTIFICATE sans CONTAINS other.test',
    'CERTIFICATE fingerprintSha256 EQUALS aa:bb',
  ])('that does not: %s', async (line) => {
    expect((await asserted([line])).codes).toEqual(['ASSERTION_FAILED'])
  })

  test('are evaluated where the chain fails, too', async () => {
    const checking = asserted(['CONNECTION chainTrusted EQUALS false'], pki.stranger().issue())
    expect(await codesOf(checking)).toEqual(['TLS_UNTRUSTED'])
  })
})

test('every address is probed, and the one that fails is named', async () => {
  const resolver = fixedResolver({ 'two.test': ['127.0.0.1', '127.0.0.2'] })
  const options = { sslConfig: { hostname: 'two.test', allAddresses: true }, context: { resolver } }
  const { failures, observed } = await look(options, pki.issue({ names: 'DNS:two.test' }))
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
  ] as const)('%s', async (_, options, versions) => {
    const { observed, failures } = await look({ sslConfig }, pair, options)
    expect(observed['connection']).toMatchObject({ versions, tlsVersion: 'TLS1.3' })
    // What is accepted besides counts as much as what was agreed on.
    const rules = failures.map(({ details }) => details?.['rule'])
    expect(rules).toEqual(versions.length > 2 ? ['minTLSVersion'] : [])
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
    const undecided = { tlsVersion: 'TLS1.3', versions: [], versionsUndecided: ALL }
    expect(observed['connection']).toMatchObject(undecided)
  })

  test('are asked of the address that was looked at', async () => {
    let asked = 0
    // Each look-up finds the addresses in another order, as name servers with several do.
    const resolver: Resolver = {
      resolve: () => Promise.resolve([asked++ === 0 ? '127.0.0.1' : '127.0.0.2']),
    }
    const options = { sslConfig: { ...sslConfig, hostname: 'one.test' }, context: { resolver } }
    const { observed } = await look(options, pki.issue({ names: 'DNS:one.test' }))
    expect(observed['connection']).toMatchObject({ resolvedIp: '127.0.0.1', versions: ALL })
  })
})

test('application protocols are offered where they are asked for', async () => {
  const server = { ALPNProtocols: ['mqtt', 'h2'] }
  const offering = await look({ sslConfig: { alpnProtocols: ['h2'] } }, pair, server)
  expect(offering.observed['connection']).toMatchObject({ alpn: 'h2' })
  expect((await look({}, pair, server)).observed['connection']).not.toHaveProperty('alpn')
})

test('an end that comes near degrades', async () => {
  for (const alertDaysBeforeExpiry of [9, 10]) {
    const { degraded } = await look(
      { sslConfig: { alertDaysBeforeExpiry } },
      pki.issue({ toDays: 10 }),
    )
    expect(degraded).toBe(alertDaysBeforeExpiry === 10)
  }
})

test('STARTTLS and TLS have their own phases in the metrics', async () => {
  await using server = await startScripted(SCRIPTS.IMAP, pair)
  const { observed } = await runSsl(server.port, { ca, sslConfig: { startTls: 'IMAP' } })
  const samples = sampleValues(ssl, observed)
  const phases = ['connect', 'resolve', 'starttls', 'tls']
  const durations = Object.keys(samples).filter((name) => name.includes('duration'))
  expect(durations.toSorted()).toEqual(phases.map((one) => `probe_ssl_duration_seconds ${one}`))
  expect(samples).toMatchObject({
    probe_ssl_cert_days_left: 59,
    probe_ssl_chain_trusted: 1,
    probe_ssl_ocsp_stapled: 0,
  })
})

const scripts = Object.entries(SCRIPTS) as [StartTlsProtocol, Script][]

test.each(scripts)('STARTTLS of %s, at once and byte by byte', async (startTls, script) => {
  for (const apart of [false, true]) {
    await using server = await startScripted(script, pair, apart)
    const { codes, observed } = await runSsl(server.port, { ca, sslConfig: { startTls } })
    expect(codes).toEqual([])
    const phases = { startTlsMs: expect.any(Number) as number, tlsMs: expect.any(Number) as number }
    const connection = { hostnameVerified: true, chainTrusted: true }
    expect(observed).toMatchObject({ startTls, phases, connection })
  }
})

test('by STARTTLS each version is asked for, too', async () => {
  await using server = await startScripted(SCRIPTS.SMTP, { ...pair, maxVersion: 'TLSv1.2' })
  const sslConfig = { startTls: 'SMTP', probeVersions: true }
  const { observed } = await runSsl(server.port, { ca, sslConfig })
  expect(observed['connection']).toMatchObject({ versions: ['TLS1.2'] })
})

const answering = (greeting: string, answer: string): Behaviour => {
  return (socket) => {
    socket.write(greeting)
    socket.on('data', () => socket.write(answer))
  }
}

const injecting: Behaviour = (socket) => {
  socket.write('220 hi\r\n')
  socket.on('data', (chunk) => {
    const isLast = chunk.toString().startsWith('STARTTLS')
    socket.write(isLast ? '220 go\r\n250 injected\r\n' : '250 STARTTLS\r\n')
  })
}
const endless: Behaviour = (socket) => {
  socket.write('220-')
  flooding(socket)
}
const garbage = saying(Buffer.from('16030300050200000100', 'hex'))
const ldapNo: Behaviour = (socket) => {
  socket.on('data', () => socket.write(Buffer.from('300c02010178070a013404000400', 'hex')))
}

test.each<[string, StartTlsProtocol | undefined, Behaviour, string?]>([
  ['no answer', undefined, unresponsive, 'TIMEOUT_TLS'],
  ['half a record', undefined, saying(Buffer.from([22, 3, 3, 1])), 'TIMEOUT_TLS'],
  ['a reset', undefined, resetting, 'CONNECTION_RESET'],
  ['garbage in a record', undefined, garbage, 'TLS_PROTOCOL'],
  ['SMTP without STARTTLS', 'SMTP', answering('220 hi\r\n', '250 mail.test\r\n')],
  ['IMAP that says BAD', 'IMAP', answering('* OK\r\n', 'a1 BAD\r\n')],
  ['PostgreSQL without TLS', 'POSTGRESQL', answering('', 'N')],
  ['PostgreSQL that says more', 'POSTGRESQL', answering('', 'SX')],
  ['LDAP that says no', 'LDAP', ldapNo],
  ['one that sends ahead what should come under TLS', 'SMTP', injecting],
  ['one that never ends', 'SMTP', endless],
  ['one that is silent', 'IMAP', unresponsive, 'TIMEOUT_STARTTLS'],
  ['one that stops after its greeting', 'FTP', saying('220 hi\r\n'), 'TIMEOUT_STARTTLS'],
  ['one that goes on in the clear', 'POP3', answering('+OK\r\n', '+OK\r\n'), 'TLS_NOT_SPOKEN'],
])('instead of TLS: %s', async (_, startTls, behaviour, code = 'STARTTLS_REFUSED') => {
  await using server = await startRawServer((socket) => behaviour(socket.resume()))
  const isLate = code.startsWith('TIMEOUT')
  const settings = { maxResponseTime: isLate ? 300 : 10_000 }
  const sslConfig = startTls === undefined ? {} : { startTls }
  const { codes, observed } = await runSsl(server.port, { sslConfig, settings })
  const category = isLate ? 'timeout' : 'handshake'
  expect([codes, observed['errorCategory']]).toEqual([[code], category])
  await expect.poll(() => server.open()).toBe(0)
})

test('what a server said is shown with its line ends escaped once', async () => {
  await using server = await startRawServer(saying('421 "later"\r\n'))
  const { failures } = await runSsl(server.port, { sslConfig: { startTls: 'SMTP' } })
  expect(failures[0]?.details).toMatchObject({ actual: String.raw`421 "later"\r\n` })
})

test('the port of STARTTLS is the default', () => {
  const parsed = (sslConfig: Fields) =>
    ssl.schema.parse(definitionOf('SSL', { request: { sslConfig } }))
  const port = (number: number) => ({ request: { sslConfig: { port: number } } })
  expect(parsed({ startTls: 'LDAP' })).toMatchObject(port(389))
  expect(parsed({ startTls: 'SMTP', port: 25 })).toMatchObject(port(25))
})
