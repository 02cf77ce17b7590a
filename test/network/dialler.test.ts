// Aim: the dialled address is the one that was checked; each failure of connecting and of the TLS handshake has its
// code, and closes the socket.
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'
import { describe, expect, test } from 'vitest'
import type { FailureCode } from '../../src/contract/failure.ts'
import type { TlsSettings } from '../../src/contract/tls.ts'
import type { Progress } from '../../src/network/dial.ts'
import { connectFailure, connectionFailure } from '../../src/network/connect-errors.ts'
import { failureOf } from '../../src/network/target-failure.ts'
import { certificateCode, handshakeCode } from '../../src/network/tls/errors.ts'
import { createAuthority } from '../support/network/certificates.ts'
import { deadlineAfter, fixedResolver, testContext } from '../support/monitors/monitor-context.ts'
import { startOpensslServer } from '../support/monitors/ssl/openssl-server.ts'
import { listening, startRawServer } from '../support/test-server.ts'

const authority = createAuthority()
const good = authority.issue()
const trusted = { ca: authority.ca }
const never = new AbortController().signal

const local = (port: number) => ({ host: '127.0.0.1', port, family: 'IPv4' }) as const

/** A connection to a port of this machine. */
async function connected(port: number) {
  const progress: Progress = { phase: 'dns' }
  const { dial } = testContext()
  const { socket } = await dial.connect(local(port), progress, never)
  return { dial, socket, progress }
}

async function codeOf(work: Promise<unknown>, progress: Progress): Promise<string> {
  return work.then(
    () => 'none' as const,
    (error: unknown) => failureOf(error, progress).code,
  )
}

describe('connecting', () => {
  test('a name is resolved once and the literal is dialled', async () => {
    await using server = await startRawServer((socket) => socket.end('hello'))
    const resolver = fixedResolver({ 'name.test': ['127.0.0.1'] })
    const { dial } = testContext({ resolver })
    const endpoint = { host: 'name.test', port: server.port, family: 'IPv4' } as const
    const connection = await dial.connect(endpoint, { phase: 'dns' }, never)
    expect(connection).toMatchObject({ address: '127.0.0.1', family: 'IPv4' })
    expect(connection.dnsMs).toBeGreaterThanOrEqual(0)
    expect(connection.connectMs).toBeGreaterThan(0)
    expect(connection.proxyMs).toBeUndefined()
    const [chunk] = (await once(connection.socket, 'data')) as [Buffer]
    expect(chunk.toString()).toBe('hello')
    connection.socket.destroy()
  })

  test('a closed port refuses', async () => {
    const server = await startRawServer(() => {})
    await server.close()
    expect(await codeOf(connected(server.port), { phase: 'connect' })).toBe('CONNECT_REFUSED')
  })

  test.each([
    ['a literal', '169.254.169.254', undefined],
    ['another spelling', '0xa9fea9fe', undefined],
    ['a name that leads there', 'rebound.test', undefined],
    ['an address given in addition to the name', 'name.test', '169.254.169.254'],
    ['an embedded address', '[64:ff9b::a9fe:a9fe]', undefined],
  ])('the policy stops %s', async (_, host, address) => {
    const resolver = fixedResolver({ 'rebound.test': ['::ffff:169.254.169.254'] })
    const { dial } = testContext({ resolver })
    const endpoint = { host, port: 80, family: 'IPv4', address } as const
    const progress: Progress = { phase: 'dns' }
    expect(await codeOf(dial.connect(endpoint, progress, never), progress)).toBe('ADDRESS_BLOCKED')
  })

  test('a name resolves only if all its addresses are allowed', async () => {
    const resolver = fixedResolver({ a: ['10.0.0.1', '10.0.0.2'], b: ['10.0.0.1', '169.254.0.1'] })
    const { dial } = testContext({ resolver })
    expect(await dial.resolve('a', 'IPv4', never)).toEqual(['10.0.0.1', '10.0.0.2'])
    const progress: Progress = { phase: 'dns' }
    expect(await codeOf(dial.resolve('b', 'IPv4', never), progress)).toBe('ADDRESS_BLOCKED')
  })

  test.each<[string, string, FailureCode]>([
    ['EHOSTUNREACH', 'connect', 'CONNECT_UNREACHABLE'],
    ['ENETUNREACH', 'connect', 'CONNECT_UNREACHABLE'],
    ['ETIMEDOUT', 'connect', 'TIMEOUT_CONNECT'],
    ['ECONNRESET', 'connect', 'CONNECTION_RESET'],
    ['EINVAL', 'connect', 'CONNECT_FAILED'],
    ['EMFILE', 'socket', 'RESOURCES_EXHAUSTED'],
    ['ENFILE', 'socket', 'RESOURCES_EXHAUSTED'],
    ['ENOBUFS', 'connect', 'RESOURCES_EXHAUSTED'],
    ['ENOMEM', 'connect', 'RESOURCES_EXHAUSTED'],
    ['EADDRNOTAVAIL', 'connect', 'RESOURCES_EXHAUSTED'],
    ['EACCES', 'connect', 'ADDRESS_BLOCKED'],
    ['EPERM', 'connect', 'ADDRESS_BLOCKED'],
  ])('the system says %s', (code, syscall, expected) => {
    const error = Object.assign(new Error(code), { code, syscall })
    expect(connectFailure(error, '192.0.2.1:80').code).toBe(expected)
  })

  test('over IPv6 a router that prohibits looks like EACCES', () => {
    const error = Object.assign(new Error('EACCES'), { code: 'EACCES', syscall: 'connect' })
    expect(connectFailure(error, '[2001:db8::1]:80').code).toBe('CONNECT_UNREACHABLE')
  })

  test.each<[string, string | undefined, FailureCode]>([
    ['ECONNRESET', 'read', 'CONNECTION_RESET'],
    ['ECONNRESET', undefined, 'CONNECTION_CLOSED'],
    ['EPIPE', 'write', 'CONNECTION_CLOSED'],
    ['ERR_STREAM_DESTROYED', undefined, 'CONNECTION_CLOSED'],
    ['ETIMEDOUT', 'read', 'CONNECTION_RESET'],
    ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', undefined, 'TLS_CLIENT_CERTIFICATE'],
  ])('on an open connection: %s of %s', (code, syscall, expected) => {
    const error = Object.assign(new Error(code), { code, syscall })
    expect(connectionFailure(error, '192.0.2.1:80').code).toBe(expected)
  })
})

interface Case {
  server?: TlsOptions
  settings?: TlsSettings
  name?: string
}

async function shake({ server = good, settings, name = '127.0.0.1' }: Case) {
  const tlsServer = createTlsServer(server, (socket) => socket.on('error', () => {}))
  tlsServer.on('tlsClientError', () => {})
  await using target = await listening(tlsServer)
  const { dial, socket } = await connected(target.port)
  const handshake = { serverName: name, settings: settings ?? trusted }
  try {
    return await dial.secure(socket, handshake, { phase: 'connect' }, never)
  } finally {
    socket.destroy()
  }
}

describe('certificates', () => {
  test('the facts of a valid one', async () => {
    const { peer, tlsMs } = await shake({ name: 'localhost' })
    expect(tlsMs).toBeGreaterThan(0)
    expect(peer).toMatchObject({
      protocol: 'TLSv1.3',
      verified: true,
      chainTrusted: true,
      hostnameVerified: true,
      ocspStapled: false,
      daysLeft: 29,
      certificate: {
        subject: 'CN=leaf.test',
        issuer: 'CN=Test Authority',
        subjectAltNames: ['localhost', '127.0.0.1'],
        keyType: 'ec',
        curve: 'prime256v1',
        signatureAlgorithm: 'ecdsa-with-SHA256',
      },
    })
    expect(peer.cipher).toMatch(/^TLS_/)
    expect(peer.error).toBeUndefined()
    expect(peer.certificate?.fingerprint256).toMatch(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/)
    expect(peer.certificate?.serialNumber).toBe('1000')
    expect(peer.earliestExpiry).toBe(peer.certificate?.validTo)
    expect(peer.chain[0]?.fingerprint256).toBe(peer.certificate?.fingerprint256)
  })

  test('the chain is shown as it was sent, with its earliest expiry', async () => {
    const leaf = authority.issue({ toDays: 60 })
    const { peer } = await shake({ server: { key: leaf.key, cert: leaf.cert + authority.ca } })
    expect(peer.chain.map((one) => one.subject)).toEqual(['CN=leaf.test', 'CN=Test Authority'])
    expect(peer.earliestExpiry).toBe(peer.chain[1]?.validTo)
    expect(peer.daysLeft).toBe(59)
  })

  test.each<[string, Case, FailureCode]>([
    ['expired', { server: authority.issue({ fromDays: -9, toDays: -2 }) }, 'TLS_EXPIRED'],
    ['not valid yet', { server: authority.issue({ fromDays: 2, toDays: 9 }) }, 'TLS_NOT_YET_VALID'],
    ['for another name', { name: 'other.test' }, 'TLS_HOSTNAME_MISMATCH'],
    ['for another address', { name: '127.0.0.2' }, 'TLS_HOSTNAME_MISMATCH'],
    ['for a set name', { settings: { ...trusted, serverName: 'x.test' } }, 'TLS_HOSTNAME_MISMATCH'],
    ['signed by itself', { server: authority.selfSigned() }, 'TLS_SELF_SIGNED'],
    ['of an unknown authority', { settings: {} }, 'TLS_UNTRUSTED'],
  ])('a certificate %s', async (_, options, code) => {
    const { peer } = await shake(options)
    expect(peer.failure?.code).toBe(code)
    expect(peer.verified).toBe(false)
    expect(peer.certificate?.subject).toBeTypeOf('string')
    expect(peer.error).toBeTypeOf('string')
  })

  test('days left of an expired certificate are negative', async () => {
    const { peer } = await shake({ server: authority.issue({ fromDays: -9, toDays: -2 }) })
    // Two days and a moment ago.
    expect(peer.daysLeft).toBe(-3)
  })

  test.each<[string, FailureCode]>([
    ['CERT_REVOKED', 'TLS_REVOKED'],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'TLS_UNTRUSTED'],
    ['CERT_SIGNATURE_FAILURE', 'TLS_CERTIFICATE_INVALID'],
  ])('OpenSSL says %s', (reason, code) => {
    expect(certificateCode(reason)).toBe(code)
  })
})

describe('handshakes', () => {
  const wantsClient = { ...good, ca: authority.ca, requestCert: true, rejectUnauthorized: true }
  const client = authority.issue()
  const passphrase = 'secret passphrase'
  const locked = authority.issue({ passphrase })

  test.each<[string, KeySettings]>([
    ['a key', own(client)],
    ['a key with a passphrase', { ...own(locked), passphrase }],
  ])('a client certificate with %s is shown', async (_, shown) => {
    const server = { ...wantsClient, maxVersion: 'TLSv1.2' } as const
    const { peer } = await shake({ server, settings: { ...trusted, ...shown } })
    expect(peer.verified).toBe(true)
  })

  const old = { ...good, maxVersion: 'TLSv1.2' } as const
  const ciphers = 'AES256-SHA256'
  const newer = { server: old, settings: { minVersion: 'TLSv1.3' } } as const
  test.each<[string, Case, FailureCode]>([
    ['no version in common', newer, 'TLS_PROTOCOL'],
    ['no cipher in common', { ...newer, server: { ...old, ciphers } }, 'TLS_PROTOCOL'],
    ['another key', { settings: { ...own(client), privateKey: good.key } }, 'SETTINGS_INVALID'],
    ['a wrong passphrase', { settings: { ...own(locked), passphrase: 'no' } }, 'SETTINGS_INVALID'],
  ])('%s', async (_, options, code) => {
    expect(await codeOf(shake(options), { phase: 'tls' })).toBe(code)
  })

  test.each<[string, TlsSettings, FailureCode]>([
    // TLS 1.2 says nothing but "handshake failure" here; TLS 1.3 has an alert of its own.
    ['none is shown', {}, 'TLS_PROTOCOL'],
    ['a wrong one is shown', own(authority.selfSigned()), 'TLS_CLIENT_CERTIFICATE'],
  ])('a client certificate is wanted and %s', async (_, settings, expected) => {
    const options = ['-Verify', '1', '-verify_return_error', '-tls1_2']
    await using server = await startOpensslServer(good, authority.ca, options)
    const { dial, socket, progress } = await connected(server.port)
    const handshake = { serverName: '127.0.0.1', settings }
    const secure = dial.secure(socket, handshake, progress, never)
    expect(await codeOf(secure, progress)).toBe(expected)
  })

  test('old versions are spoken when asked for', async () => {
    const versions = { minVersion: 'TLSv1', maxVersion: 'TLSv1' } as const
    const server = { ...good, ...versions, ciphers: 'DEFAULT@SECLEVEL=0' }
    const { peer } = await shake({ server, settings: { ...trusted, minVersion: 'TLSv1' } })
    expect(peer.protocol).toBe('TLSv1')
  })

  test.each<[string, (socket: Socket) => void, FailureCode]>([
    ['plain HTTP answers', (socket) => socket.end('HTTP/1.1 400 No\r\n\r\n'), 'TLS_NOT_SPOKEN'],
    ['a banner comes', (socket) => socket.write('220 mail.test ESMTP\r\n'), 'TLS_NOT_SPOKEN'],
    ['it closes at once', (socket) => socket.end(), 'CONNECTION_CLOSED'],
    ['it closes', (socket) => socket.once('data', () => socket.end()), 'CONNECTION_CLOSED'],
    ['resets', (socket) => socket.once('data', () => socket.resetAndDestroy()), 'CONNECTION_RESET'],
  ])('without TLS: %s', async (_, onConnection, code) => {
    await using server = await startRawServer(onConnection)
    const { dial, socket, progress } = await connected(server.port)
    const secure = dial.secure(socket, { serverName: 'x.test' }, progress, never)
    expect(await codeOf(secure, progress)).toBe(code)
    expect(socket.destroyed).toBe(true)
  })

  test.each<[string, FailureCode]>([
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'TLS_NOT_SPOKEN'],
    ['ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE', 'TLS_PROTOCOL'],
    ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'TLS_CLIENT_CERTIFICATE'],
    ['ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE', 'TLS_CLIENT_CERTIFICATE'],
  ])('OpenSSL says %s', (reason, code) => {
    expect(handshakeCode(reason)).toBe(code)
  })

  test('an abort in the handshake destroys the socket', async () => {
    await using server = await startRawServer(() => {})
    const { dial, socket, progress } = await connected(server.port)
    const secure = dial.secure(socket, { serverName: 'x.test' }, progress, deadlineAfter(30))
    expect(await codeOf(secure, progress)).toBe('TIMEOUT_TLS')
    expect(socket.destroyed).toBe(true)
  })
})

test('an abort before and while connecting is passed on as it is', async () => {
  const reason = new Error('cancelled')
  const endpoint = local(9)
  const { dial } = testContext({ resolver: fixedResolver({}) })
  const early = dial.connect(endpoint, { phase: 'dns' }, AbortSignal.abort(reason))
  await expect(early).rejects.toBe(reason)
  const controller = new AbortController()
  const progress: Progress = { phase: 'connect' }
  const pending = dial.connect({ ...endpoint, host: 'x.test' }, progress, controller.signal)
  const outcome = pending.catch((error: unknown) => error)
  controller.abort(reason)
  expect(await outcome).toBe(reason)
  expect(progress.phase).toBe('dns')
})

type KeySettings = Pick<TlsSettings, 'certificate' | 'privateKey' | 'passphrase'>

function own(pair: { cert: string; key: string }): KeySettings {
  return { certificate: pair.cert, privateKey: pair.key }
}
