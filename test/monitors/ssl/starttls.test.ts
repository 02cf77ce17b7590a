// Aim: STARTTLS of every protocol leads to a handshake, with scripted servers and with real ones; a server that
// refuses, lies or falls silent gets the code for it.
import { chownSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { StartTlsProtocol } from '../../../src/monitors/ssl/definition.ts'
import { ssl } from '../../../src/monitors/ssl/index.ts'
import { openDatabase } from '../../../src/database/database.ts'
import { debianMajors, startServer } from '../../support/database/database-servers.ts'
import { missing } from '../../support/needs.ts'
import { createPki } from '../../support/network/certificates.ts'
import { codesOf, runSsl } from '../../support/monitors/ssl/ssl-runs.ts'
import { type Script, SCRIPTS, startScripted } from '../../support/monitors/ssl/starttls-servers.ts'
import {
  closing,
  flooding,
  saying,
  unresponsive,
  type Behaviour,
} from '../../support/monitors/tcp-servers.ts'
import { startRawServer } from '../../support/test-server.ts'

const pki = createPki()
const pair = pki.issue()
afterAll(() => pki[Symbol.dispose]())

const scripts = Object.entries(SCRIPTS) as [StartTlsProtocol, Script][]

describe.skipIf(missing('openssl') !== undefined)('an honest server', () => {
  test.each(scripts)('%s', async (startTls, script) => {
    await using server = await startScripted(script, pair)
    const observation = await runSsl(server.port, { ca: pki.ca, sslConfig: { startTls } })
    expect(codesOf(observation)).toEqual([])
    expect(observation.observed).toMatchObject({
      startTls,
      phases: { startTlsMs: expect.any(Number), tlsMs: expect.any(Number) },
      connection: { hostnameVerified: true, chainTrusted: true },
    })
  })

  test.each(scripts)(
    '%s, byte by byte, whose certificate has expired',
    async (startTls, script) => {
      const expired = pki.issue({ fromDays: -9, toDays: -2 })
      await using server = await startScripted(script, expired, true)
      const observation = await runSsl(server.port, { ca: pki.ca, sslConfig: { startTls } })
      expect(codesOf(observation)).toEqual(['TLS_EXPIRED'])
    },
  )

  test('is asked for each version, too', async () => {
    await using server = await startScripted(SCRIPTS.SMTP, { ...pair, maxVersion: 'TLSv1.2' })
    const sslConfig = { startTls: 'SMTP', probeVersions: true }
    const { observed } = await runSsl(server.port, { ca: pki.ca, sslConfig })
    expect(observed['connection']).toMatchObject({ versions: ['TLS1.2'] })
  })
})

describe.skipIf(debianMajors().length === 0 || missing('openssl') !== undefined)(
  'PostgreSQL',
  () => {
    test('of Debian speaks TLS as soon as it has a certificate', async () => {
      const server = await startServer('other')
      const database = openDatabase({
        address: { url: server.running.urlPattern.replace('{database}', 'postgres') },
        applicationName: 'vedette tests',
      })
      const { port } = new URL(server.running.urlPattern.replace('{database}', ''))
      const run = () => runSsl(Number(port), { ca: pki.ca, sslConfig: { startTls: 'POSTGRESQL' } })
      expect(codesOf(await run())).toEqual(['STARTTLS_REFUSED'])
      const [row] = await database.query<{ folder: string }>(
        `select current_setting('data_directory') as folder`,
      )
      const folder = row?.folder as string
      const { uid, gid } = statSync(folder)
      for (const [name, text] of Object.entries(pair)) {
        writeFileSync(join(folder, name), text, { mode: 0o600 })
        chownSync(join(folder, name), uid, gid)
      }
      for (const [name, value] of [
        ['ssl_cert_file', 'cert'],
        ['ssl_key_file', 'key'],
        ['ssl', 'on'],
      ]) {
        await database.query(`alter system set ${name} = '${value}'`)
      }
      await database.query('select pg_reload_conf()')
      await expect.poll(async () => codesOf(await run())).toEqual([])
      await database.close()
      await server.stop()
    })
  },
)

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
const ldapNo: Behaviour = (socket) => {
  socket.on('data', () => socket.write(Buffer.from('300c02010178070a013404000400', 'hex')))
}

describe('a server that does not', () => {
  test.each<[string, StartTlsProtocol, Behaviour, string?]>([
    ['SMTP without STARTTLS', 'SMTP', answering('220 hi\r\n', '250 mail.test\r\n')],
    ['SMTP that is busy', 'SMTP', saying('421 later\r\n')],
    ['something that is no SMTP', 'SMTP', saying('SSH-2.0-OpenSSH\r\n')],
    ['IMAP that says BAD', 'IMAP', answering('* OK\r\n', 'a1 BAD\r\n')],
    ['IMAP that knows us already', 'IMAP', saying('* PREAUTH\r\n')],
    ['POP3 that says no', 'POP3', answering('+OK\r\n', '-ERR no\r\n')],
    ['FTP that says no', 'FTP', answering('220 hi\r\n', '502 no\r\n')],
    ['PostgreSQL without TLS', 'POSTGRESQL', answering('', 'N')],
    ['PostgreSQL that says more', 'POSTGRESQL', answering('', 'SX')],
    ['LDAP that says no', 'LDAP', ldapNo],
    ['LDAP that is none', 'LDAP', answering('', 'HTTP/1.1 400\r\n')],
    ['one that sends ahead what should come under TLS', 'SMTP', injecting],
    ['one that never ends', 'SMTP', endless],
    ['one that ends at once', 'IMAP', closing, 'CONNECTION_CLOSED'],
    ['one that is silent', 'IMAP', unresponsive, 'TIMEOUT_STARTTLS'],
    ['one that stops in a line', 'POP3', saying('+OK without an end'), 'TIMEOUT_STARTTLS'],
    ['one that stops after its greeting', 'FTP', saying('220 hi\r\n'), 'TIMEOUT_STARTTLS'],
    ['one that goes on in the clear', 'POP3', answering('+OK\r\n', '+OK\r\n'), 'TLS_NOT_SPOKEN'],
  ])('%s', async (_, startTls, behaviour, code = 'STARTTLS_REFUSED') => {
    await using server = await startRawServer((socket) => behaviour(socket.resume()))
    const settings = { maxResponseTime: 400 }
    const observation = await runSsl(server.port, { sslConfig: { startTls }, settings })
    expect(codesOf(observation)).toEqual([code])
    const category = code.startsWith('TIMEOUT') ? 'timeout' : 'handshake'
    expect(observation.observed['errorCategory']).toBe(category)
    await expect.poll(() => server.open()).toBe(0)
  })
})

test('what a server said is shown with its line ends escaped once', async () => {
  await using server = await startRawServer(saying('421 "later"\r\n'))
  const { failures } = await runSsl(server.port, { sslConfig: { startTls: 'SMTP' } })
  expect(failures[0]?.details).toMatchObject({ actual: String.raw`421 "later"\r\n` })
})

test('its port is the default', () => {
  const parse = (sslConfig: object) =>
    ssl.schema.parse({
      id: 'm',
      name: 'm',
      checkType: 'SSL',
      request: { sslConfig: { hostname: 'a.test', ...sslConfig } },
    }) as { request: { sslConfig: { port: number } } }
  expect(parse({ startTls: 'LDAP' }).request.sslConfig.port).toBe(389)
  expect(parse({ startTls: 'SMTP', port: 25 }).request.sslConfig.port).toBe(25)
  expect(parse({}).request.sslConfig.port).toBe(443)
})
