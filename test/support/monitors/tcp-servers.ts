// Behaviours of TCP servers in tests: unresponsive, closing, flooding, echoing, SMTP-like…
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { createServer as createTlsServer, TLSSocket, type TlsOptions } from 'node:tls'
import { listening, type TestServer } from '../test-server.ts'

export type Behaviour = (socket: Socket) => void

/** Starts a server that speaks TLS from the first byte. */
export function startTls(options: TlsOptions, behave: Behaviour): Promise<TestServer> {
  const server = createTlsServer(options, (socket) => {
    socket.on('error', () => {})
    behave(socket)
  })
  return listening(server.on('tlsClientError', () => {}))
}

/** Accepts and never sends anything. */
export const unresponsive: Behaviour = (socket) => void socket.resume()

/** Ends the connection at once. */
export const closing: Behaviour = (socket) => void socket.end()

/** Sends one text and keeps the connection open. */
export const saying =
  (text: string | Buffer): Behaviour =>
  (socket) =>
    void socket.write(text)

/** Echoes received data. */
export const echoing: Behaviour = (socket) => void socket.pipe(socket)

/** Resets the connection at the first data. */
export const resetting: Behaviour = (socket) => {
  socket.once('data', () => socket.resetAndDestroy())
}

/** Writes without end, as fast as it is read. */
export function pour(sink: Writable): void {
  const chunk = Buffer.alloc(65_536, 'x')
  const more = () => {
    while (!sink.destroyed && sink.write(chunk));
  }
  sink.on('drain', more).on('error', () => {})
  more()
}

/** Sends without end. */
export const flooding: Behaviour = (socket) => pour(socket)

/** Sends it one byte in each turn of the event loop. */
export const trickling =
  (text: string | Buffer): Behaviour =>
  (socket) => {
    const bytes = Buffer.from(text as string)
    let at = 0
    const next = () => {
      if (socket.destroyed || at >= bytes.length) return
      socket.setNoDelay(true).write(bytes.subarray(at, ++at), () => setImmediate(next))
    }
    next()
  }

/** A mail server that knows EHLO, STARTTLS and QUIT. */
export const smtp =
  (tls: TlsOptions): Behaviour =>
  (socket) => {
    socket.write('220 mail.test ESMTP\r\n')
    serve(socket, (secured) => new TLSSocket(secured, { ...tls, isServer: true }))
  }

function serve(socket: Socket, upgrade: ((socket: Socket) => TLSSocket) | undefined): void {
  const onData = (chunk: Buffer) => {
    const line = chunk.toString().trim()
    if (line.startsWith('EHLO')) {
      socket.write(
        upgrade === undefined ? '250 mail.test\r\n' : '250-mail.test\r\n250 STARTTLS\r\n',
      )
    } else if (line === 'STARTTLS' && upgrade !== undefined) {
      socket.off('data', onData)
      socket.write('220 go ahead\r\n', () => {
        const secured = upgrade(socket)
        secured.on('error', () => {})
        serve(secured, undefined)
      })
    } else if (line === 'QUIT') socket.end('221 bye\r\n')
    else socket.write('502 what?\r\n')
  }
  socket.on('data', onData)
}
