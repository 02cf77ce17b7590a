// Aim: STARTTLS of every protocol leads to a handshake, with scripted servers; a server that
// refuses, lies or falls silent gets the code for it.
import { afterAll, describe, expect, test } from 'vitest'
import type { StartTlsProtocol } from '../../../src/monitors/ssl/definition.ts'
import { ssl } from '../../../src/monitors/ssl/index.ts'
import { createPki } from '../../support/network/certificates.ts'
import { runSsl } from '../../support/monitors/ssl/ssl-runs.ts'
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

describe('an honest server', () => {
  test.each(scripts)('%s, at once and byte by byte', async (startTls, script) => {
    for (const apart of [false, true]) {
      await using server = await startScripted(script, pair, apart)
      const { codes, observed } = await runSsl(server.port, { ca: pki.ca, sslConfig: { startTls } })
      expect(codes).toEqual([])
      expect(observed).toMatchObject({
        startTls,
        phases: { startTlsMs: expect.any(Number), tlsMs: expect.any(Number) },
        connection: { hostnameVerified: true, chainTrusted: true },
      })
    }
  })

  test('is asked for each version, too', async () => {
    await using server = await startScripted(SCRIPTS.SMTP, { ...pair, maxVersion: 'TLSv1.2' })
    const sslConfig = { startTls: 'SMTP', probeVersions: true }
    const { observed } = await runSsl(server.port, { ca: pki.ca, sslConfig })
    expect(observed['connection']).toMatchObject({ versions: ['TLS1.2'] })
  })
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
    const isLate = code.startsWith('TIMEOUT')
    const settings = { maxResponseTime: isLate ? 300 : 10_000 }
    const { codes, observed } = await runSsl(server.port, { sslConfig: { startTls }, settings })
    const category = isLate ? 'timeout' : 'handshake'
    expect([codes, observed['errorCategory']]).toEqual([[code], category])
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
