// Aim: every kind of server on badssl.com's list, made here, gets the verdict that it deserves, and its report is
// whole whatever is wrong with it.
import { afterAll, describe, expect, test } from 'vitest'
import type { TlsOptions } from 'node:tls'
import { sslDefinition } from '../../../src/monitors/ssl/definition.ts'
import type { SslProbe } from '../../../src/monitors/ssl/report.ts'
import {
  createAuthority,
  createPki,
  type IssueOptions,
  type KeyPair,
} from '../../support/network/certificates.ts'
import { startOpensslServer } from '../../support/monitors/ssl/openssl-server.ts'
import { codesOf } from '../../support/monitors/check-monitor.ts'
import { runSsl, startTlsServer } from '../../support/monitors/ssl/ssl-runs.ts'

const pki = createPki()
afterAll(() => pki[Symbol.dispose]())

const many = (count: number) =>
  ['DNS:localhost', ...Array.from({ length: count - 1 }, (_, at) => `DNS:n${at}.test`)].join(',')

/** A certificate of an intermediate that is sent along. */
function under(middle: KeyPair): KeyPair {
  const { cert, key } = pki.stranger().as(middle).issue()
  return { cert: cert + middle.cert, key }
}

const expiredIntermediate = () => {
  const dates = { fromDays: -20, toDays: -2 }
  return under(pki.root.issue({ ca: true, names: 'none', subject: '/CN=Old', ...dates }))
}
const outOfOrder = () => {
  const { cert, key } = pki.intermediate.issue()
  return { cert: cert + pki.root.pair.cert + pki.intermediate.pair.cert, key }
}

interface Case {
  /** How the certificate is issued, or the pair itself. */
  pair?: IssueOptions | (() => KeyPair)
  server?: TlsOptions
  sslConfig?: Record<string, unknown>
  request?: Record<string, unknown>
  /** None by default. */
  codes?: string[]
  category?: string
  degraded?: boolean
  grade?: string
  /** The broken rule that the first failure names, and the certificate. */
  rule?: [rule: string, certificate: string]
  /** Parts of the report. */
  shows?: Record<string, unknown>
}

const only = (version: 'TLSv1' | 'TLSv1.2'): TlsOptions => ({
  minVersion: version,
  maxVersion: version,
})
const oldCiphers = (ciphers: string): TlsOptions => ({
  ciphers: `${ciphers}:@SECLEVEL=0`,
  dhparam: 'auto',
  maxVersion: 'TLSv1.2',
})
const named = (serverName: string) => ({ serverName })
const skipping = { skipChainValidation: true }
const rule = (name: string, severity: string) => ({ securityBaseline: { [name]: { severity } } })
const expired = { fromDays: -20, toDays: -10 }
const hasNames = (...targets: string[]) => ({
  assertions: targets.map((target) => ({
    source: 'CERTIFICATE',
    property: 'sans',
    comparison: 'CONTAINS',
    target,
  })),
})
/** The certificate of an intermediate with these constraints. */
const constrained = (nameConstraints: string) => () =>
  under(
    pki.root.issue({
      ca: true,
      names: 'none',
      subject: '/CN=Narrow',
      extensions: [`nameConstraints=critical,${nameConstraints}`],
    }),
  )
const TLS12_NULL = 'TLS_RSA_WITH_NULL_SHA256'
const isIncomplete = [expect.stringMatching(/^incomplete: .*Test Intermediate/)]

const CASES: Record<string, Case> = {
  good: {
    grade: 'A-',
    shows: {
      connection: { tlsVersion: 'TLS1.3', hostnameVerified: true, chainTrusted: true },
      certificate: { subjectCN: 'leaf.test', issuerCN: 'Test Intermediate', daysUntilExpiry: 59 },
      chain: {
        sent: [{}, {}],
        built: [
          { subject: 'CN=leaf.test' },
          { subject: 'O=Vedette Tests, CN=Test Intermediate' },
          { subject: 'O=Vedette Tests, CN=Test Root' },
        ],
      },
    },
  },
  expired: {
    pair: expired,
    codes: ['TLS_EXPIRED'],
    category: 'chain',
    shows: { certificate: { daysUntilExpiry: -11 } },
  },
  'not yet valid': { pair: { fromDays: 5 }, codes: ['TLS_NOT_YET_VALID'], category: 'chain' },
  'near its end': { pair: { toDays: 10 }, degraded: true },
  'for a wrong host': {
    pair: { names: 'DNS:other.test' },
    codes: ['TLS_HOSTNAME_MISMATCH'],
    category: 'hostname',
  },
  'for localhost by its common name alone': {
    pair: { subject: '/CN=localhost', names: 'none' },
    codes: ['TLS_HOSTNAME_MISMATCH'],
  },
  'for two levels by one wildcard': {
    pair: { names: 'DNS:*.b.test' },
    sslConfig: named('x.a.b.test'),
    codes: ['TLS_HOSTNAME_MISMATCH'],
  },
  'for one level by a wildcard': { pair: { names: 'DNS:*.b.test' }, sslConfig: named('a.b.test') },
  'for a part of a label by a wildcard': {
    pair: { names: 'DNS:a*.b.test' },
    sslConfig: named('ab.b.test'),
    codes: ['TLS_HOSTNAME_MISMATCH'],
  },
  'for an address': { sslConfig: { hostname: '127.0.0.1' } },
  'for another address': {
    pair: { names: 'IP:127.0.0.9' },
    sslConfig: { hostname: '127.0.0.1' },
    codes: ['TLS_HOSTNAME_MISMATCH'],
  },
  'for an IPv6 address': {
    pair: { names: 'IP:::1,DNS:localhost' },
    request: hasNames('::1', '0:0:0:0:0:0:0:1'),
    shows: { certificate: { sans: ['::1', 'localhost'] } },
  },
  'for a name of another script': {
    pair: { names: 'DNS:xn--bcher-kva.test' },
    sslConfig: named('bücher.test'),
  },
  'self-signed': {
    pair: () => pki.stranger().pair,
    codes: ['TLS_SELF_SIGNED', 'TLS_HOSTNAME_MISMATCH'],
    category: 'chain',
  },
  'self-signed, by a key that may not sign': {
    pair: () => createAuthority().selfSigned(['keyUsage=digitalSignature']),
    codes: ['TLS_SELF_SIGNED'],
    shows: { certificate: { selfSigned: true } },
  },
  'of an untrusted root': {
    pair: () => pki.stranger().issue(),
    codes: ['TLS_UNTRUSTED'],
    category: 'chain',
    shows: { chain: { anchored: false }, securityBaseline: { verdict: 'skipped' } },
  },
  'of an untrusted root, with the chain skipped': {
    pair: () => pki.stranger().issue(),
    sslConfig: skipping,
    grade: 'A-',
    shows: { connection: { chainTrusted: false } },
  },
  'expired, with the chain skipped': { pair: expired, sslConfig: skipping, codes: ['TLS_EXPIRED'] },
  'with an incomplete chain': {
    pair: () => pki.intermediate.issue(),
    codes: ['TLS_UNTRUSTED'],
    shows: { chain: { issues: isIncomplete } },
  },
  'with an expired intermediate': { pair: expiredIntermediate, codes: ['TLS_EXPIRED'] },
  'with an expired intermediate, with the chain skipped': {
    pair: expiredIntermediate,
    sslConfig: skipping,
    degraded: true,
    shows: { degradedBy: [expect.stringContaining('2 days ago')] },
  },
  'with an intermediate that is no authority': {
    pair: () => under(pki.root.issue({ subject: '/CN=No Authority' })),
    codes: ['TLS_CERTIFICATE_INVALID'],
    category: 'chain',
    rule: ['not-an-authority', 'CN=No Authority'],
  },
  'with an intermediate that is no authority and may not sign': {
    pair: () => {
      const extensions = ['keyUsage=digitalSignature']
      return under(pki.root.issue({ subject: '/CN=No Authority', extensions }))
    },
    codes: ['TLS_UNTRUSTED'],
    rule: ['not-an-authority', 'CN=No Authority'],
    shows: {
      chain: {
        issues: [
          'CN=No Authority is not a certificate authority',
          'certificates that do not belong to the chain',
        ],
      },
    },
  },
  'with a critical extension that nobody knows': {
    pair: { extensions: ['1.2.3.4=critical,ASN1:NULL'] },
    codes: ['TLS_CERTIFICATE_INVALID'],
    rule: ['critical-extension', 'CN=leaf.test'],
  },
  'for a name that its intermediate does not permit': {
    pair: constrained('permitted;DNS:allowed.test,permitted;DNS:.localhost'),
    codes: ['TLS_CERTIFICATE_INVALID'],
    rule: ['permitted-names', 'CN=Narrow'],
  },
  'for an address that its intermediate excludes': {
    pair: constrained('permitted;DNS:localhost,excluded;IP:127.0.0.0/255.255.0.0'),
    codes: ['TLS_CERTIFICATE_INVALID'],
    rule: ['excluded-names', 'CN=Narrow'],
  },
  'for what its intermediate permits': {
    pair: constrained('permitted;DNS:localhost,permitted;IP:127.0.0.0/255.255.0.0'),
  },
  'with its chain out of order and more': {
    pair: outOfOrder,
    shows: { chain: { issues: ['out of order', 'the authority’s own certificate is sent'] } },
  },
  'signed with SHA-1': { pair: { digest: 'sha1' }, codes: ['TLS_BASELINE'], grade: 'F' },
  'with RSA 1024': {
    pair: { key: 'rsa:1024' },
    codes: ['TLS_BASELINE'],
    grade: 'F',
    shows: { certificate: { keyAlgorithm: 'RSA', keySizeBits: 1024 } },
  },
  'with RSA 1024, which is asked for to degrade': {
    pair: { key: 'rsa:1024' },
    sslConfig: rule('minKeySizeBits', 'degrade'),
    grade: 'B',
    degraded: true,
  },
  'with a key on P-384': {
    pair: { key: 'ec:P-384' },
    shows: { certificate: { keyAlgorithm: 'ECDSA', keySizeBits: 384, curve: 'secp384r1' } },
  },
  'with an Ed25519 key': {
    pair: { key: 'ed25519' },
    shows: { certificate: { keyAlgorithm: 'Ed25519', keySizeBits: 256 } },
  },
  'that must staple and does not': {
    pair: { extensions: ['tlsfeature=status_request'] },
    sslConfig: rule('ocspMustStapleRespected', 'fail'),
    codes: ['TLS_BASELINE'],
    shows: { certificate: { mustStaple: true } },
  },
  'without a subject': { pair: { subject: '/' }, shows: { certificate: { subject: '' } } },
  'with 1,000 names': {
    pair: { names: many(1000) },
    request: hasNames('n998.test'),
    shows: { certificate: { sansTotal: 1000, sans: { length: 100 } } },
  },
  'with 10,000 names': {
    pair: { names: many(10_000) },
    codes: ['TLS_PROTOCOL'],
    category: 'handshake',
  },
  'for clients': {
    pair: { extensions: ['extendedKeyUsage=clientAuth'] },
    codes: ['TLS_CERTIFICATE_INVALID'],
  },
  'that is an authority itself': { pair: { ca: true }, shows: { certificate: { isCA: true } } },
  'with TLS 1.0 only': { server: only('TLSv1'), codes: ['TLS_BASELINE'], grade: 'F' },
  'with TLS 1.2 only': { server: only('TLSv1.2'), grade: 'A-' },
  'without encryption': {
    pair: { key: 'rsa:2048' },
    server: oldCiphers('NULL-SHA256'),
    codes: ['TLS_BASELINE'],
    shows: { connection: { cipherSuite: TLS12_NULL } },
  },
  'with a key of DH of 1024 bits': {
    pair: { key: 'rsa:2048' },
    server: oldCiphers('DHE-RSA-AES128-SHA'),
  },
}

describe('a certificate', () => {
  test.each(Object.entries(CASES))('%s', async (_, one) => {
    const { pair = {}, server, sslConfig = {}, request = {}, ...expected } = one
    const { codes = [], shows = {}, rule: broken, ...verdict } = expected
    const keys = typeof pair === 'function' ? pair() : pki.issue(pair)
    await using running = await startTlsServer(keys, server)
    const options = { ca: pki.ca, sslConfig, request }
    const { observed, degraded, failures, codes: seen } = await runSsl(running.port, options)
    const probe = observed as unknown as SslProbe
    expect(seen).toEqual(codes)
    expect(observed).toMatchObject(shows)
    const { rule: name, certificate } = failures[0]?.details ?? {}
    expect([name, certificate]).toEqual(broken ?? [name, certificate])
    const { grade } = (probe.securityBaseline ?? {}) as { grade?: string }
    expect({ category: observed['errorCategory'], degraded, grade }).toMatchObject(verdict)
    // Only what never got as far as a certificate has none to show.
    expect(probe.certificate === undefined).toBe(codes.includes('TLS_PROTOCOL'))
    expect(probe.chain?.built.length).not.toBe(0)
  })
})

describe('a server that wants a client certificate', () => {
  const client = pki.issue({ subject: '/CN=client', extensions: ['extendedKeyUsage=clientAuth'] })
  const settings = { ca: pki.ca, certificate: client.cert, privateKey: client.key }

  test.each([
    ['over TLS 1.3', '-tls1_3', 'TLS_CLIENT_CERTIFICATE'],
    // There the alert is the same as for no cipher in common.
    ['over TLS 1.2', '-tls1_2', 'TLS_PROTOCOL'],
  ])('%s', async (_, version, code) => {
    await using server = await startOpensslServer(pki.root.issue(), pki.ca, [
      '-Verify',
      '3',
      version,
    ])
    const without = await runSsl(server.port, { ca: pki.ca })
    expect([without.codes, without.observed['errorCategory']]).toEqual([[code], 'handshake'])
    const withOne = runSsl(server.port, { request: { tls: settings } })
    expect(await codesOf(withOne)).toEqual([])
  })

  test.each(['TLSv1.2', 'TLSv1.3'] as const)('but does not insist on it: %s', async (version) => {
    const options = { requestCert: true, rejectUnauthorized: false, maxVersion: version }
    const asks = { connection: { asksForClientCertificate: true } }
    await using server = await startTlsServer(pki.issue(), options)
    const without = await runSsl(server.port, { ca: pki.ca })
    expect(without).toMatchObject({ codes: [], observed: asks })
    expect(sslDefinition.summary?.(without.observed)).toContain('asks for a client certificate')
    const withOne = await runSsl(server.port, { request: { tls: settings } })
    expect(withOne.observed).not.toMatchObject(asks)
    await using other = await startTlsServer(pki.issue(), { maxVersion: version })
    expect((await runSsl(other.port, { ca: pki.ca })).observed).not.toMatchObject(asks)
  })

  test('an id of the platform is nothing that an agent could look up', async () => {
    const explicit = { sslConfig: { clientCertificateMode: 'explicit' } }
    const checking = runSsl(1, { ...explicit, request: { sslClientCertificateId: 'abc' } })
    expect(await codesOf(checking)).toEqual(['CLIENT_CERTIFICATE_UNKNOWN'])
  })
})
