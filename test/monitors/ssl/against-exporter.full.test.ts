// Aim: on the same servers an SSL monitor comes to the verdict of blackbox_exporter's TCP prober with TLS, and to
// the same second of expiry; where they differ, the row says why.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TlsOptions } from 'node:tls'
import { afterAll, describe, expect, test } from 'vitest'
import type { Sample } from '../../../src/contract/observation.ts'
import { ssl } from '../../../src/monitors/ssl/index.ts'
import { type Exporter, startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { createPki, type KeyPair } from '../../support/network/certificates.ts'
import { missing } from '../../support/needs.ts'
import { runSsl, type SslOptions, startTlsServer } from '../../support/monitors/ssl/ssl-runs.ts'
import { SCRIPTS, startScripted } from '../../support/monitors/ssl/starttls-servers.ts'

const lacking = missing('prometheus-blackbox-exporter', 'openssl')
const pki = createPki()
const folder = mkdtempSync(join(tmpdir(), 'vedette-compared-'))
const client = pki.issue({ subject: '/CN=client' })
for (const [name, text] of Object.entries({ ca: pki.ca, cert: client.cert, key: client.key })) {
  writeFileSync(join(folder, `${name}.pem`), text)
}

const tlsOf = (more = '') => `tls_config: { ca_file: ${join(folder, 'ca.pem')}${more} }`
const tcp = (settings: string) =>
  `{ prober: tcp, timeout: 5s, tcp: { preferred_ip_protocol: ip4, ${settings} } }`
const own = `, cert_file: ${join(folder, 'cert.pem')}, key_file: ${join(folder, 'key.pem')}`
const MODULES = `
  plain: ${tcp(`tls: true, ${tlsOf()}`)}
  named: ${tcp(`tls: true, ${tlsOf(', server_name: other.test')}`)}
  lax: ${tcp(`tls: true, ${tlsOf(', insecure_skip_verify: true')}`)}
  client: ${tcp(`tls: true, ${tlsOf(own)}`)}
  smtp: ${tcp(`${tlsOf()}, query_response: [{ expect: "^220 " }, { send: "EHLO [127.0.0.1]" }, { expect: "^250 STARTTLS" }, { send: "STARTTLS" }, { expect: "^220" }, { starttls: true }]`)}
  imap: ${tcp(`${tlsOf()}, query_response: [{ expect: "OK" }, { send: "a1 STARTTLS" }, { expect: "OK" }, { starttls: true }]`)}
  pop3: ${tcp(`${tlsOf()}, query_response: [{ expect: "OK" }, { send: "STLS" }, { expect: "OK" }, { starttls: true }]`)}
`

let exporter: Exporter | undefined
if (lacking === undefined) exporter = await startExporter(MODULES)
afterAll(async () => {
  await exporter?.close()
  pki[Symbol.dispose]()
  rmSync(folder, { recursive: true })
})

const crlUrl = 'crlDistributionPoints=URI:http://127.0.0.1:9/never'

interface Case {
  pair: () => KeyPair
  server?: TlsOptions
  module?: string
  options?: SslOptions
  passes: boolean
  shakesHands?: boolean
  /** What the exporter says instead, and why. */
  otherwise?: { passes: boolean; why: string }
}

const CASES: Record<string, Case> = {
  'a good certificate': { pair: () => pki.issue(), passes: true },
  'a chain whose intermediate ends first': {
    pair: () => {
      const subject = '/CN=Short'
      const middle = pki.root.issue({ subject, ca: true, names: 'none', toDays: 30 })
      const { cert, key } = pki.root.as(middle).issue({ toDays: 90 })
      return { cert: cert + middle.cert, key }
    },
    passes: true,
  },
  'TLS 1.2': { pair: () => pki.issue(), server: { maxVersion: 'TLSv1.2' }, passes: true },
  'an RSA key': { pair: () => pki.issue({ key: 'rsa:2048' }), passes: true },
  'an Ed25519 key': { pair: () => pki.issue({ key: 'ed25519' }), passes: true },
  'a certificate that has expired': {
    pair: () => pki.issue({ fromDays: -9, toDays: -2 }),
    passes: false,
  },
  'a certificate that is not valid yet': { pair: () => pki.issue({ fromDays: 3 }), passes: false },
  'a certificate for another host': {
    pair: () => pki.issue({ names: 'DNS:elsewhere.test' }),
    passes: false,
  },
  'a common name and no alternative names': {
    pair: () => pki.issue({ subject: '/CN=localhost', names: 'none' }),
    passes: false,
  },
  'another name asked for': {
    pair: () => pki.issue({ names: 'DNS:other.test' }),
    module: 'named',
    options: { sslConfig: { serverName: 'other.test' } },
    passes: true,
  },
  'a certificate signed by itself': { pair: () => pki.stranger().pair, passes: false },
  'a root that is not trusted': { pair: () => pki.stranger().issue(), passes: false },
  'an incomplete chain': { pair: () => pki.intermediate.issue(), passes: false },
  'a certificate for clients': {
    pair: () => pki.issue({ extensions: ['extendedKeyUsage=clientAuth'] }),
    passes: false,
  },
  'a root that is not trusted, with the chain skipped': {
    pair: () => pki.stranger().issue(),
    module: 'lax',
    options: { sslConfig: { skipChainValidation: true } },
    passes: true,
  },
  'a client certificate that is asked for': {
    pair: () => pki.issue(),
    server: { requestCert: true, ca: pki.ca },
    module: 'client',
    options: { request: { tls: { ca: pki.ca, certificate: client.cert, privateKey: client.key } } },
    passes: true,
  },
  'a client certificate that is asked for and not there': {
    pair: () => pki.issue(),
    server: { requestCert: true, rejectUnauthorized: true, ca: pki.ca, maxVersion: 'TLSv1.2' },
    passes: false,
    shakesHands: false,
  },
  'TLS 1.0 only': {
    pair: () => pki.issue(),
    server: { maxVersion: 'TLSv1' },
    passes: false,
  },
  'a signature with SHA-1': { pair: () => pki.issue({ digest: 'sha1' }), passes: false },
  'a key of RSA 1024': {
    pair: () => pki.issue({ key: 'rsa:1024' }),
    passes: false,
    otherwise: { passes: true, why: 'it has no opinion on the size of keys' },
  },
  'a certificate whose revocation status is unknown': {
    pair: () => pki.issue({ extensions: [crlUrl] }),
    options: { sslConfig: { revocation: { hardFail: true } } },
    passes: false,
    otherwise: { passes: true, why: 'it never asks about revocation (blackbox_exporter#6)' },
  },
}

describe.skipIf(lacking !== undefined)(`compared with blackbox_exporter ${lacking ?? ''}`, () => {
  test.each(Object.entries(CASES))('%s', async (_, one) => {
    await using server = await startTlsServer(one.pair(), one.server)
    const theirs = await measure(one.module ?? 'plain', server.port)
    const observation = await runSsl(server.port, { ca: pki.ca, ...one.options })
    const passes = observation.failures.length === 0
    expect(passes).toBe(one.passes)
    expect(theirs.get('probe_success')).toBe((one.otherwise?.passes ?? passes) ? 1 : 0)
    const ours = ssl.samples(observation.observed)
    // It shows expiry only where the chain verifies (blackbox_exporter#1119); we always do.
    const expiry = valueOf(ours, 'probe_ssl_earliest_cert_expiry')
    expect(expiry !== undefined).toBe(one.shakesHands ?? true)
    for (const name of SECONDS) {
      // Without a chain that it verified it says the year 1.
      const second = theirs.get(name) ?? -1
      expect(second).toBeOneOf([valueOf(ours, name), second < 0 ? second : undefined])
    }
    for (const name of INFOS)
      expect(labelled(theirs, name)).toBeOneOf([undefined, textOf(ours, name)])
  })

  test.each([
    ['SMTP', 'smtp'],
    ['IMAP', 'imap'],
    ['POP3', 'pop3'],
  ] as const)('STARTTLS by %s', async (startTls, module) => {
    await using server = await startScripted(SCRIPTS[startTls], pki.issue())
    const theirs = await measure(module, server.port)
    const observation = await runSsl(server.port, { ca: pki.ca, sslConfig: { startTls } })
    expect(observation.failures).toEqual([])
    expect(theirs.get('probe_success')).toBe(1)
    const ours = ssl.samples(observation.observed)
    const name = 'probe_ssl_earliest_cert_expiry'
    expect(valueOf(ours, name)).toBe(theirs.get(name))
  })
})

const SECONDS = ['probe_ssl_earliest_cert_expiry', 'probe_ssl_last_chain_expiry_timestamp_seconds']
const INFOS = ['probe_tls_version_info', 'probe_ssl_last_chain_info']

async function measure(module: string, port: number): Promise<ReadonlyMap<string, number>> {
  return (exporter as Exporter).measure(module, `localhost:${port}`)
}

function valueOf(samples: readonly Sample[], name: string): number | undefined {
  return samples.find((one) => one.name === name)?.value
}

/** A sample with its labels in the order of the alphabet, as the exporter writes it. */
function textOf(samples: readonly Sample[], name: string): string | undefined {
  const labels = samples.find((one) => one.name === name)?.labels
  if (labels === undefined) return undefined
  const pairs = Object.entries(labels).toSorted(([one], [other]) => one.localeCompare(other))
  return `${name}{${pairs.map(([key, value]) => `${key}="${value}"`).join(',')}}`
}

function labelled(samples: ReadonlyMap<string, number>, name: string): string | undefined {
  return [...samples.keys()].find((key) => key.startsWith(`${name}{`))
}
