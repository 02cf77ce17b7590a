// Aim: every kind of server on badssl.com's list, made here, gets the verdict that it deserves, and its report is
// whole whatever is wrong with it.
import { afterAll, describe, expect, test } from 'vitest'
import type { TlsOptions } from 'node:tls'
import type { SslProbe } from '../../../src/monitors/ssl/report.ts'
import { createPki, type IssueOptions, type KeyPair } from '../../support/network/certificates.ts'
import { missing } from '../../support/needs.ts'
import { startOpensslServer } from '../../support/monitors/ssl/openssl-server.ts'
import {
  codesOf,
  runSsl,
  type SslOptions,
  startTlsServer,
} from '../../support/monitors/ssl/ssl-runs.ts'

const pki = createPki()
afterAll(() => pki[Symbol.dispose]())

const many = (count: number) =>
  ['DNS:localhost', ...Array.from({ length: count - 1 }, (_, at) => `DNS:n${at}.test`)].join(',')

/** An intermediate that has ended, with a certificate of its own that has not. */
function underExpired(): KeyPair {
  const middle = pki.root.issue({
    ca: true,
    names: 'none',
    fromDays: -20,
    toDays: -2,
    subject: '/CN=Old',
  })
  return underNew(middle)
}

function underNew(middle: KeyPair, issueOptions: IssueOptions = {}): KeyPair {
  const { cert, key } = pki.stranger().as(middle).issue(issueOptions)
  return { cert: cert + middle.cert, key }
}

interface Case {
  pair: () => KeyPair
  server?: TlsOptions
  options?: SslOptions
  codes: string[]
  category?: string
  degraded?: boolean
  grade?: string
  verify?: (probe: SslProbe) => void
}

const own = (issueOptions?: IssueOptions) => () => pki.issue(issueOptions)
const only = (version: 'TLSv1' | 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3'): TlsOptions => ({
  minVersion: version,
  maxVersion: version,
})

const CASES: Record<string, Case> = {
  good: {
    pair: own(),
    codes: [],
    grade: 'A-',
    verify: ({ connection, certificate, chain }) => {
      expect(connection).toMatchObject({
        tlsVersion: 'TLS1.3',
        hostnameVerified: true,
        chainTrusted: true,
      })
      expect(certificate).toMatchObject({
        subjectCN: 'leaf.test',
        issuerCN: 'Test Intermediate',
        daysUntilExpiry: 59,
      })
      expect(chain?.sent).toHaveLength(2)
      expect(chain?.built.map(({ subject }) => subject)).toEqual([
        'CN=leaf.test',
        'O=Vedette Tests, CN=Test Intermediate',
        'O=Vedette Tests, CN=Test Root',
      ])
    },
  },
  expired: {
    pair: own({ fromDays: -20, toDays: -10 }),
    codes: ['TLS_EXPIRED'],
    category: 'chain',
    verify: ({ certificate }) => expect(certificate?.daysUntilExpiry).toBe(-11),
  },
  'not yet valid': {
    pair: own({ fromDays: 5, toDays: 50 }),
    codes: ['TLS_NOT_YET_VALID'],
    category: 'chain',
  },
  'near its end': { pair: own({ toDays: 10 }), codes: [], degraded: true },
  'for a wrong host': {
    pair: own({ names: 'DNS:other.test' }),
    codes: ['TLS_HOSTNAME_MISMATCH'],
    category: 'hostname',
  },
  'for localhost by its common name alone': {
    pair: own({ subject: '/CN=localhost', names: 'none' }),
    codes: ['TLS_HOSTNAME_MISMATCH'],
    category: 'hostname',
  },
  'for two levels by one wildcard': {
    pair: own({ names: 'DNS:*.b.test' }),
    options: { sslConfig: { serverName: 'x.a.b.test' } },
    codes: ['TLS_HOSTNAME_MISMATCH'],
  },
  'for one level by a wildcard': {
    pair: own({ names: 'DNS:*.b.test' }),
    options: { sslConfig: { serverName: 'a.b.test' } },
    codes: [],
  },
  'for a part of a label by a wildcard': {
    pair: own({ names: 'DNS:a*.b.test' }),
    options: { sslConfig: { serverName: 'ab.b.test' } },
    codes: ['TLS_HOSTNAME_MISMATCH'],
  },
  'for an address': { pair: own(), options: { sslConfig: { hostname: '127.0.0.1' } }, codes: [] },
  'for another address': {
    pair: own({ names: 'IP:127.0.0.9' }),
    options: { sslConfig: { hostname: '127.0.0.1' } },
    codes: ['TLS_HOSTNAME_MISMATCH'],
  },
  'for a name of another script': {
    pair: own({ names: 'DNS:xn--bcher-kva.test' }),
    options: { sslConfig: { serverName: 'bücher.test' } },
    codes: [],
  },
  'self-signed': {
    pair: () => pki.stranger().pair,
    codes: ['TLS_SELF_SIGNED', 'TLS_HOSTNAME_MISMATCH'],
    category: 'chain',
  },
  'of an untrusted root': {
    pair: () => pki.stranger().issue(),
    codes: ['TLS_UNTRUSTED'],
    category: 'chain',
    verify: ({ chain, securityBaseline }) => {
      expect(chain?.anchored).toBe(false)
      expect(securityBaseline).toEqual({ verdict: 'skipped' })
    },
  },
  'of an untrusted root, with the chain skipped': {
    pair: () => pki.stranger().issue(),
    options: { sslConfig: { skipChainValidation: true } },
    codes: [],
    grade: 'A-',
    verify: ({ connection }) => expect(connection?.chainTrusted).toBe(false),
  },
  'expired, with the chain skipped': {
    pair: own({ fromDays: -20, toDays: -10 }),
    options: { sslConfig: { skipChainValidation: true } },
    codes: ['TLS_EXPIRED'],
  },
  'with an incomplete chain': {
    pair: () => pki.intermediate.issue(),
    codes: ['TLS_UNTRUSTED'],
    category: 'chain',
    verify: ({ chain }) => expect(chain?.issues[0]).toMatch(/^incomplete: .*Test Intermediate/),
  },
  'with an expired intermediate': { pair: underExpired, codes: ['TLS_EXPIRED'], category: 'chain' },
  'with an intermediate that is no authority': {
    pair: () => underNew(pki.root.issue({ subject: '/CN=No Authority' })),
    codes: ['TLS_CERTIFICATE_INVALID'],
    category: 'chain',
  },
  'with its chain out of order and more': {
    pair: () => {
      const { cert, key } = pki.intermediate.issue()
      return { cert: cert + pki.root.pair.cert + pki.intermediate.pair.cert, key }
    },
    codes: [],
    verify: ({ chain }) => {
      expect(chain?.issues).toEqual(['out of order', 'the authority’s own certificate is sent'])
    },
  },
  'signed with SHA-1': { pair: own({ digest: 'sha1' }), codes: ['TLS_BASELINE'], grade: 'F' },
  'with RSA 1024': { pair: own({ key: 'rsa:1024' }), codes: ['TLS_BASELINE'], grade: 'F' },
  'with RSA 1024, which is asked for to be ignored': {
    pair: own({ key: 'rsa:1024' }),
    options: { sslConfig: { securityBaseline: { minKeySizeBits: { severity: 'degrade' } } } },
    codes: [],
    grade: 'B',
    degraded: true,
  },
  'with RSA 8192': {
    pair: own({ key: 'rsa:8192' }),
    codes: [],
    verify: ({ certificate }) =>
      expect(certificate).toMatchObject({ keyAlgorithm: 'RSA', keySizeBits: 8192 }),
  },
  'with a key on P-384': {
    pair: own({ key: 'ec:P-384' }),
    codes: [],
    verify: ({ certificate }) =>
      expect(certificate).toMatchObject({
        keyAlgorithm: 'ECDSA',
        keySizeBits: 384,
        curve: 'secp384r1',
      }),
  },
  'with an Ed25519 key': {
    pair: own({ key: 'ed25519' }),
    codes: [],
    verify: ({ certificate }) =>
      expect(certificate).toMatchObject({ keyAlgorithm: 'Ed25519', keySizeBits: 256 }),
  },
  'that must staple and does not': {
    pair: own({ extensions: ['tlsfeature=status_request'] }),
    options: { sslConfig: { securityBaseline: { ocspMustStapleRespected: { severity: 'fail' } } } },
    codes: ['TLS_BASELINE'],
    verify: ({ certificate }) => expect(certificate?.mustStaple).toBe(true),
  },
  'without a subject': {
    pair: own({ subject: '/' }),
    codes: [],
    verify: ({ certificate }) => expect(certificate).toMatchObject({ subject: '', sansTotal: 2 }),
  },
  'without a common name': {
    pair: own({ subject: '/O=Nobody' }),
    codes: [],
    verify: ({ certificate }) => expect(certificate).not.toHaveProperty('subjectCN'),
  },
  'with 1,000 names': {
    pair: own({ names: many(1000) }),
    options: {
      request: {
        assertions: [
          { source: 'CERTIFICATE', property: 'sans', comparison: 'CONTAINS', target: 'n998.test' },
        ],
      },
    },
    codes: [],
    verify: ({ certificate }) => {
      expect(certificate?.sansTotal).toBe(1000)
      expect(certificate?.sans).toHaveLength(100)
    },
  },
  'with 10,000 names': {
    pair: own({ names: many(10_000) }),
    codes: ['TLS_PROTOCOL'],
    category: 'handshake',
  },
  'for clients': {
    pair: own({ extensions: ['extendedKeyUsage=clientAuth'] }),
    codes: ['TLS_CERTIFICATE_INVALID'],
  },
  'that is an authority itself': {
    pair: own({ ca: true }),
    codes: [],
    verify: ({ certificate }) => expect(certificate?.isCA).toBe(true),
  },
  'with TLS 1.0 only': { pair: own(), server: only('TLSv1'), codes: ['TLS_BASELINE'], grade: 'F' },
  'with TLS 1.1 only': {
    pair: own(),
    server: only('TLSv1.1'),
    codes: ['TLS_BASELINE'],
    grade: 'F',
  },
  'with TLS 1.2 only': { pair: own(), server: only('TLSv1.2'), codes: [], grade: 'A-' },
  'with TLS 1.3 only': { pair: own(), server: only('TLSv1.3'), codes: [] },
  'without encryption': {
    pair: own({ key: 'rsa:2048' }),
    server: { ciphers: 'NULL-SHA256:@SECLEVEL=0', maxVersion: 'TLSv1.2' },
    codes: ['TLS_BASELINE'],
    grade: 'F',
    verify: ({ connection }) => expect(connection?.cipherSuite).toBe('TLS_RSA_WITH_NULL_SHA256'),
  },
  'with a key of DH of 1024 bits': {
    pair: own({ key: 'rsa:2048' }),
    server: { ciphers: 'DHE-RSA-AES128-SHA:@SECLEVEL=0', dhparam: 'auto', maxVersion: 'TLSv1.2' },
    codes: [],
  },
}

describe.skipIf(missing('openssl') !== undefined)('a certificate', () => {
  test.each(Object.entries(CASES))(
    '%s',
    async (_, { pair, server = {}, options = {}, ...expected }) => {
      await using running = await startTlsServer(pair(), server)
      const observation = await runSsl(running.port, { ca: pki.ca, ...options })
      const probe = observation.observed as unknown as SslProbe
      const { verify, ...wanted } = expected
      expect({
        codes: codesOf(observation),
        category: probe.errorCategory,
        degraded: observation.degraded,
        grade: (probe.securityBaseline as { grade?: string } | undefined)?.grade,
      }).toMatchObject(wanted)
      // Only what never got as far as a certificate has none to show.
      expect(probe.certificate === undefined).toBe(expected.codes.includes('TLS_PROTOCOL'))
      expect(probe.chain?.built.length).not.toBe(0)
      verify?.(probe)
    },
  )
})

describe.skipIf(missing('openssl') !== undefined)(
  'a server that wants a client certificate',
  () => {
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
      expect(codesOf(without)).toEqual([code])
      expect(without.observed['errorCategory']).toBe('handshake')
      const withOne = await runSsl(server.port, { request: { tls: settings } })
      expect(codesOf(withOne)).toEqual([])
    })

    test('an id of the platform is nothing that an agent could look up', async () => {
      const explicit = { sslConfig: { clientCertificateMode: 'explicit' } }
      const request = { sslClientCertificateId: 'abc' }
      const observation = await runSsl(1, { ...explicit, request })
      expect(codesOf(observation)).toEqual(['CLIENT_CERTIFICATE_UNKNOWN'])
    })
  },
)
