// Aim: on the same servers an SSL monitor comes to the verdict of blackbox_exporter's TCP prober with TLS, and to
// the same second of expiry; Debian's PostgreSQL speaks TLS with it as soon as it can.
import { chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { openDatabase } from '../../../src/database/database.ts'
import { ssl } from '../../../src/monitors/ssl/index.ts'
import { debianMajors, startServer } from '../../support/database/database-servers.ts'
import { type Exporter, startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { createPki, type KeyPair } from '../../support/network/certificates.ts'
import { missing } from '../../support/needs.ts'
import { codesOf } from '../../support/monitors/check-monitor.ts'
import { runSsl, startTlsServer } from '../../support/monitors/ssl/ssl-runs.ts'
import { SCRIPTS, startScripted } from '../../support/monitors/ssl/starttls-servers.ts'

const lacking = missing('prometheus-blackbox-exporter')
const pki = createPki()
const folder = mkdtempSync(join(tmpdir(), 'vedette-compared-'))
writeFileSync(join(folder, 'ca.pem'), pki.ca)

const tcp = (settings: string, more = '') =>
  `{ prober: tcp, timeout: 5s, tcp: { preferred_ip_protocol: ip4, tls_config: { ca_file: ${join(folder, 'ca.pem')}${more} }, ${settings} } }`
const MODULES = `
  plain: ${tcp('tls: true')}
  lax: ${tcp('tls: true', ', insecure_skip_verify: true')}
  imap: ${tcp('query_response: [{ expect: "OK" }, { send: "a1 STARTTLS" }, { expect: "OK" }, { starttls: true }]')}
`

let exporter: Exporter | undefined
if (lacking === undefined) exporter = await startExporter(MODULES)
afterAll(async () => {
  await exporter?.close()
  pki[Symbol.dispose]()
  rmSync(folder, { recursive: true })
})

const SECONDS = ['probe_ssl_earliest_cert_expiry', 'probe_ssl_last_chain_expiry_timestamp_seconds']

/** Measures with both; the seconds are the same where the exporter knows them. */
async function passes(port: number, module: string, sslConfig: object): Promise<boolean> {
  const theirs = await (exporter as Exporter).measure(module, `localhost:${port}`)
  const { failures, observed } = await runSsl(port, { ca: pki.ca, sslConfig: { ...sslConfig } })
  expect(theirs.get('probe_success')).toBe(failures.length === 0 ? 1 : 0)
  const ours = new Map(ssl.samples(observed).map(({ name, value }) => [name, value]))
  // It shows expiry only where the chain verifies (blackbox_exporter#1119); we always do.
  expect(ours.has('probe_ssl_earliest_cert_expiry')).toBe(true)
  // Without a chain that it verified it says the year 1.
  const known = SECONDS.filter((name) => (theirs.get(name) ?? 0) > 0)
  expect(known.map((name) => theirs.get(name))).toEqual(known.map((name) => ours.get(name)))
  return failures.length === 0
}

const intermediateEndsFirst = (): KeyPair => {
  const middle = pki.root.issue({ subject: '/CN=Short', ca: true, names: 'none', toDays: 30 })
  const { cert, key } = pki.root.as(middle).issue({ toDays: 90 })
  return { cert: cert + middle.cert, key }
}

describe.skipIf(lacking !== undefined)(`compared with blackbox_exporter ${lacking ?? ''}`, () => {
  test.each<[string, () => KeyPair, boolean, string?]>([
    ['a good certificate', () => pki.issue(), true],
    ['an RSA key', () => pki.issue({ key: 'rsa:2048' }), true],
    ['a chain whose intermediate ends first', intermediateEndsFirst, true],
    ['a certificate that has expired', () => pki.issue({ fromDays: -9, toDays: -2 }), false],
    ['one for another host', () => pki.issue({ names: 'DNS:elsewhere.test' }), false],
    ['no alternative names', () => pki.issue({ subject: '/CN=localhost', names: 'none' }), false],
    ['one for clients', () => pki.issue({ extensions: ['extendedKeyUsage=clientAuth'] }), false],
    ['a root that is not trusted', () => pki.stranger().issue(), false],
    ['that, with the chain skipped', () => pki.stranger().issue(), true, 'lax'],
    ['an incomplete chain', () => pki.intermediate.issue(), false],
  ])('%s', async (_, pair, expected, module = 'plain') => {
    await using server = await startTlsServer(pair())
    const sslConfig = { skipChainValidation: module === 'lax' }
    expect(await passes(server.port, module, sslConfig)).toBe(expected)
  })

  test('STARTTLS', async () => {
    await using server = await startScripted(SCRIPTS.IMAP, pki.issue())
    expect(await passes(server.port, 'imap', { startTls: 'IMAP' })).toBe(true)
  })
})

describe.skipIf(debianMajors().length === 0)('PostgreSQL', () => {
  test('of Debian speaks TLS as soon as it has a certificate', async () => {
    const server = await startServer('other')
    const database = openDatabase({
      address: { url: server.running.urlPattern.replace('{database}', 'postgres') },
      applicationName: 'vedette tests',
    })
    const { port } = new URL(server.running.urlPattern.replace('{database}', ''))
    const run = () => runSsl(Number(port), { ca: pki.ca, sslConfig: { startTls: 'POSTGRESQL' } })
    expect(await codesOf(run())).toEqual(['STARTTLS_REFUSED'])
    const [row] = await database.query<{ folder: string }>(
      `select current_setting('data_directory') as folder`,
    )
    const home = row?.folder as string
    const { uid, gid } = statSync(home)
    for (const [name, text] of Object.entries(pki.issue())) {
      writeFileSync(join(home, name), text, { mode: 0o600 })
      chownSync(join(home, name), uid, gid)
    }
    for (const [name, value] of [
      ['ssl_cert_file', 'cert'],
      ['ssl_key_file', 'key'],
      ['ssl', 'on'],
    ]) {
      await database.query(`alter system set ${name} = '${value}'`)
    }
    await database.query('select pg_reload_conf()')
    await expect.poll(() => codesOf(run())).toEqual([])
    await database.close()
    await server.stop()
  })
})
