// Aim: every kind of server on badssl.com's list, made here, gets the verdict that it deserves, and its report is
// whole whatever is wrong with it.
import { afterAll, describe, expect, test } from 'vitest'
import { X509Certificate } from 'node:crypto'
import type { TlsOptions } from 'node:tls'
import { brokenRule, notAnAuthority } from '../../../src/monitors/ssl/chain-rules.ts'
import { sslDefinition } from '../../../src/monitors/ssl/definition.ts'
import type { SslProbe } from '../../../src/monitors/ssl/report.ts'
import {
  createAuthority,
  createPki,
  type IssueOptions,
  type KeyPair,
} from '../../support/network/certificates.ts'
import { startOpensslServer } from '../../support/monitors/ssl/openssl-server.ts'
import { assertion, codesOf } from '../../support/monitors/check-monitor.ts'
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

/** One of an intermediate that the root issues with these options. */
const underOne = (options: IssueOptions) => () =>
  under(pki.root.issue({ names: 'none', subject: '/CN=Middle', ...options }))

const outOfOrder = () => {
  const { cert, key } = pki.intermediate.issue()
  return { cert: cert + pki.root.pair.cert + pki.intermediate.pair.cert, key }
}

interface More {
  server?: TlsOptions
  sslConfig?: Record<string, unknown>
  request?: Record<string, unknown>
  degraded?: boolean
  grade?: string
  /** The broken rule that the first failure names, and the certificate. */
  rule?: [rule: string, certificate: string]
  /** Parts of the report. */
  shows?: Record<string, unknown>
}

const named = (serverName: string): More => ({ sslConfig: { serverName } })
const skipping = (more: More = {}): More => ({ sslConfig: { skipChainValidation: true }, ...more })
const severity = (rule: string, how: string, more: More): More => {
  return { sslConfig: { securityBaseline: { [rule]: { severity: how } } }, ...more }
}
const certificate = (facts: object, more: More = {}): More => {
  return { shows: { certificate: facts }, ...more }
}
const issues = (...found: unknown[]): More => ({ shows: { chain: { issues: found } } })
const hasNames = (...names: string[]) => {
  return { assertions: names.map((name) => assertion(`CERTIFICATE sans CONTAINS ${name}`)) }
}
const isIncomplete = expect.stringMatching(/^incomplete: .*Test Intermediate/) as string

const [MISMATCH, UNTRUSTED, INVALID, BASELINE] = [
  ['TLS_HOSTNAME_MISMATCH'],
  ['TLS_UNTRUSTED'],
  ['TLS_CERTIFICATE_INVALID'],
  ['TLS_BASELINE'],
]
const CATEGORIES = {
  TLS_EXPIRED: 'chain',
  TLS_NOT_YET_VALID: 'chain',
  TLS_SELF_SIGNED: 'chain',
  TLS_UNTRUSTED: 'chain',
  TLS_HOSTNAME_MISMATCH: 'hostname',
  TLS_PROTOCOL: 'handshake',
} as Record<string, string>

const expired = { fromDays: -20, toDays: -10 }
const GOOD = {
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
}
const ADDRESSES = ['::1', '0:0:0:0:0:0:0:1']
const ADDRESS6 = certificate({ sans: ['::1', 'localhost'] }, { request: hasNames(...ADDRESSES) })
const NULL_CIPHER = { ciphers: 'NULL-SHA256:@SECLEVEL=0', maxVersion: 'TLSv1.2' } as const
const FOREIGN = 'certificates that do not belong to the chain'
const NO_AUTHORITY: More = {
  rule: ['not-an-authority', 'CN=Middle'],
  ...issues('CN=Middle is not a certificate authority', FOREIGN),
}
const UNKNOWN_EXTENSION: More = { rule: ['critical-extension', 'CN=leaf.test'] }
const NOT_PERMITTED: More = { rule: ['permitted-names', 'CN=Middle'] }
const ENDED = { ca: true, fromDays: -20, toDays: -2 }
const DEGRADED = { degraded: true, shows: { degradedBy: [expect.stringContaining('2 days ago')] } }
const OWN_ROOT = 'the authority’s own certificate is sent'
const SIGNING = ['keyUsage=digitalSignature']
const PERMITTED = 'nameConstraints=critical,permitted;DNS:allowed.test,permitted;DNS:.localhost'
const NARROW = { ca: true, extensions: [PERMITTED] }
const CRITICAL = ['1.2.3.4=critical,ASN1:NULL']
const RSA = { keyAlgorithm: 'RSA', keySizeBits: 1024 }
const ED25519 = { keyAlgorithm: 'Ed25519', keySizeBits: 256 }
const MANY = { sansTotal: 1000, sans: { length: 100 } }
const UNANCHORED = { chain: { anchored: false }, securityBaseline: { verdict: 'skipped' } }
const WITH_B = severity('minKeySizeBits', 'degrade', { grade: 'B', degraded: true })
const STAPLE = severity('ocspMustStapleRespected', 'fail', certificate({ mustStaple: true }))
const bySelf = () => createAuthority().selfSigned(SIGNING)

type Row = [string, IssueOptions | (() => KeyPair), codes?: string[], more?: More]

const CASES: Row[] = [
  ['good', {}, [], { grade: 'A-', shows: GOOD }],
  ['expired', expired, ['TLS_EXPIRED'], certificate({ daysUntilExpiry: -11 })],
  ['expired, with the chain skipped', expired, ['TLS_EXPIRED'], skipping()],
  ['not yet valid', { fromDays: 5 }, ['TLS_NOT_YET_VALID']],
  ['for a wrong host', { names: 'DNS:other.test' }, MISMATCH],
  ['for a host by its common name', { subject: '/CN=localhost', names: 'none' }, MISMATCH],
  ['for a part of a label', { names: 'DNS:a*.b.test' }, MISMATCH, named('ab.b.test')],
  ['for an address', {}, [], { sslConfig: { hostname: '127.0.0.1' } }],
  ['for one of IPv6', { names: 'IP:::1,DNS:localhost' }, [], ADDRESS6],
  ['of another script', { names: 'DNS:xn--bcher-kva.test' }, [], named('bücher.test')],
  ['self-signed', () => pki.stranger().pair, ['TLS_SELF_SIGNED', ...MISMATCH]],
  ['self-signed, by a key that may not sign', bySelf, ['TLS_SELF_SIGNED']],
  ['of an untrusted root', () => pki.stranger().issue(), UNTRUSTED, { shows: UNANCHORED }],
  ['with an incomplete chain', () => pki.intermediate.issue(), UNTRUSTED, issues(isIncomplete)],
  ['of an expired intermediate, with the chain skipped', underOne(ENDED), [], skipping(DEGRADED)],
  ['of one that is no authority', underOne({ extensions: SIGNING }), UNTRUSTED, NO_AUTHORITY],
  ['with a critical extension', { extensions: CRITICAL }, INVALID, UNKNOWN_EXTENSION],
  ['for a name that is not permitted', underOne(NARROW), INVALID, NOT_PERMITTED],
  ['with its chain out of order and more', outOfOrder, [], issues('out of order', OWN_ROOT)],
  ['signed with SHA-1', { digest: 'sha1' }, BASELINE],
  ['with RSA 1024', { key: 'rsa:1024' }, BASELINE, certificate(RSA)],
  ['with RSA 1024, which is to degrade', { key: 'rsa:1024' }, [], WITH_B],
  ['with Ed25519', { key: 'ed25519' }, [], certificate(ED25519)],
  ['that must staple', { extensions: ['tlsfeature=status_request'] }, BASELINE, STAPLE],
  ['with 1,000 names', { names: many(1000) }, [], certificate(MANY)],
  ['with 10,000 names', { names: many(10_000) }, ['TLS_PROTOCOL']],
  ['for clients', { extensions: ['extendedKeyUsage=clientAuth'] }, INVALID],
  ['that is an authority itself', { ca: true }, [], certificate({ isCA: true })],
  ['with TLS 1.0 only', {}, BASELINE, { server: { minVersion: 'TLSv1', maxVersion: 'TLSv1' } }],
  ['without encryption', { key: 'rsa:2048' }, BASELINE, { server: NULL_CIPHER }],
]

test.each(CASES)('a certificate: %s', async (_, pair, codes = [], more = {}) => {
  const { server, sslConfig = {}, request = {}, shows = {}, rule: broken, ...verdict } = more
  const keys = typeof pair === 'function' ? pair() : pki.issue(pair)
  await using running = await startTlsServer(keys, server)
  const options = { ca: pki.ca, sslConfig, request }
  const { observed, degraded, failures, codes: seen } = await runSsl(running.port, options)
  const probe = observed as unknown as SslProbe
  expect(seen).toEqual(codes)
  expect(observed).toMatchObject(shows)
  const { rule, certificate: ofRule } = failures[0]?.details ?? {}
  expect([rule, ofRule]).toEqual(broken ?? [rule, ofRule])
  const [first = ''] = codes
  const category = observed['errorCategory']
  expect(category).toBe(CATEGORIES[first] ?? category)
  const { grade } = (probe.securityBaseline ?? {}) as { grade?: string }
  const expected = { ...(first === 'TLS_BASELINE' && { grade: 'F' }), ...verdict }
  expect({ degraded, grade }).toMatchObject(expected)
  // Only what never got as far as a certificate has none to show.
  expect(probe.certificate === undefined).toBe(codes.includes('TLS_PROTOCOL'))
  expect(probe.chain?.built.length).not.toBe(0)
})

describe('a server that wants a client certificate', () => {
  const client = pki.issue({ subject: '/CN=client', extensions: ['extendedKeyUsage=clientAuth'] })
  const settings = { ca: pki.ca, certificate: client.cert, privateKey: client.key }

  test.each([
    ['over TLS 1.3', '-tls1_3', 'TLS_CLIENT_CERTIFICATE'],
    // There the alert is the same as for no cipher in common.
    ['over TLS 1.2', '-tls1_2', 'TLS_PROTOCOL'],
  ])('%s', async (_, version, code) => {
    const options = ['-Verify', '3', version]
    await using server = await startOpensslServer(pki.root.issue(), pki.ca, options)
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

// The rule that a chain is said to break is one that it breaks, whatever kinds and numbers of names it holds.
const issued = (options: IssueOptions) => new X509Certificate(pki.root.issue(options).cert)
const authority = (nameConstraints: string) =>
  issued({ ca: true, names: 'none', extensions: [`nameConstraints=critical,${nameConstraints}`] })
const broken = (...chain: X509Certificate[]) => brokenRule('UNSPECIFIED', chain)

test('a name of a kind that is not compared is not blamed', () => {
  const leaf = issued({ names: 'email:me@example.com,DNS:evil.test' })
  const narrow = authority('permitted;email:example.com,permitted;DNS:allowed.test')
  const found = broken(leaf, narrow)
  expect(found?.rule).toBe('permitted-names')
  expect(found?.message).toMatch(/evil\.test$/)
})

test('constraints of the server’s own certificate are not for itself', () => {
  const extensions = ['nameConstraints=critical,excluded;DNS:own.test']
  const leaf = issued({ names: 'DNS:own.test', extensions })
  expect(broken(leaf)).toBeUndefined()
  expect(broken(leaf, authority('excluded;DNS:own.test'))?.rule).toBe('excluded-names')
})

test('comparisons are bounded for the whole chain', () => {
  const hosts = Array.from({ length: 1000 }, (_, at) => `n${at}.test`)
  const leaf = issued({ names: hosts.map((host) => `DNS:${host}`).join(',') })
  const wide = authority(hosts.map((host) => `excluded;DNS:no.${host}`).join(','))
  const narrow = authority('excluded;DNS:n0.test')
  expect(broken(leaf, wide, narrow)?.rule).toBe('excluded-names')
  expect(broken(leaf, wide, wide, narrow)).toBeUndefined()
})

test('a certificate without a subject is named all the same', () => {
  expect(notAnAuthority(issued({ subject: '/' })).certificate).not.toBe('')
})
