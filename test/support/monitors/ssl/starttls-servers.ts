// Servers that begin in plain text and switch to TLS by the STARTTLS of their protocol.
import type { Socket } from 'node:net'
import { TLSSocket, type TlsOptions } from 'node:tls'
import type { StartTlsProtocol } from '../../../../src/monitors/ssl/definition.ts'
import { startRawServer, type TestServer } from '../../test-server.ts'

/** The answers of a server to each message; the last one starts TLS. */
export interface Script {
  greeting?: string
  exchanges: [expect: Buffer | RegExp, answer: string | Buffer][]
}

const LDAP_OK = Buffer.from('300c02010178070a010004000400', 'hex')

/** The dialogue of correct servers of each protocol. They accept a bare line feed, as some clients send it. */
export const SCRIPTS: Record<StartTlsProtocol, Script> = {
  SMTP: {
    greeting: '220-mail.test\r\n220 ready\r\n',
    exchanges: [
      [/^EHLO \[127\.0\.0\.1\]\r?\n$/, '250-mail.test\r\n250-SIZE 1000\r\n250 STARTTLS\r\n'],
      [/^STARTTLS\r?\n$/, '220 go ahead\r\n'],
    ],
  },
  IMAP: {
    greeting: '* OK [CAPABILITY IMAP4rev1 STARTTLS] ready\r\n',
    exchanges: [[/^a1 STARTTLS\r?\n$/, '* some news\r\na1 OK begin\r\n']],
  },
  POP3: { greeting: '+OK ready\r\n', exchanges: [[/^STLS\r?\n$/, '+OK begin\r\n']] },
  FTP: { greeting: '220 ready\r\n', exchanges: [[/^AUTH TLS\r?\n$/, '234 begin\r\n']] },
  POSTGRESQL: { exchanges: [[Buffer.from('0000000804d2162f', 'hex'), 'S']] },
  LDAP: {
    exchanges: [
      [
        Buffer.from('301d02010177188016312e332e362e312e342e312e313436362e3230303337', 'hex'),
        LDAP_OK,
      ],
    ],
  },
}

/** Follows the script, then speaks TLS; answers nothing to an unexpected message. */
export function startScripted(script: Script, tls: TlsOptions, apart = false): Promise<TestServer> {
  return startRawServer((socket) => {
    const left = [...script.exchanges]
    let received = Buffer.alloc(0)
    const onData = (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      const [expected, answer] = left[0] as [Buffer | RegExp, string | Buffer]
      const fits = Buffer.isBuffer(expected)
        ? expected.equals(received)
        : expected.test(received.toString('latin1'))
      if (!fits) return
      received = Buffer.alloc(0)
      left.shift()
      if (left.length === 0) socket.off('data', onData)
      say(socket, answer, apart, () => {
        if (left.length > 0) return
        const secured = new TLSSocket(socket, { isServer: true, ...tls })
        secured.on('error', () => {}).resume()
      })
    }
    socket.on('data', onData)
    if (script.greeting !== undefined) say(socket, script.greeting, apart, () => {})
  })
}

/** Writes all at once, or byte by byte in separate packets. */
function say(socket: Socket, text: string | Buffer, apart: boolean, done: () => void): void {
  const bytes = Buffer.from(text as string)
  if (!apart) {
    socket.write(bytes, done)
    return
  }
  let at = 0
  const next = () => {
    if (socket.destroyed) return
    if (at === bytes.length) done()
    else socket.write(bytes.subarray(at, ++at), () => setImmediate(next))
  }
  next()
}
