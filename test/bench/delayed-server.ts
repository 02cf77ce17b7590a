// An HTTP(S) server with known delays before the handshake, the first byte and the end of its answer, so that every
// phase is long enough to compare. It runs in a separate process: otherwise its work would count in the phases.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, connect, createServer } from 'node:net'
import { createAuthority } from '../support/network/certificates.ts'

/** The delay of each phase. Milliseconds. */
export interface Delays {
  tlsMs: number
  firstByteMs: number
  downloadMs: number
}

/** A running server. */
export interface DelayedServer {
  url: string
  /** Its self-signed certificate for 127.0.0.1, in PEM form. */
  certificate: string
  close(): void
}

/** Starts an HTTPS server on loopback, in a child process, with a certificate of its own. */
export async function startDelayedServer(delays: Delays): Promise<DelayedServer> {
  const child = fork(import.meta.filename, [JSON.stringify(delays)])
  const [ready] = (await once(child, 'message')) as [{ port: number; certificate: string }]
  return {
    url: `https://127.0.0.1:${ready.port}/`,
    certificate: ready.certificate,
    close: () => void child.kill(),
  }
}

async function serve(delays: Delays): Promise<void> {
  const pair = createAuthority().selfSigned()
  const web = createHttpsServer(pair, (_, response) => {
    setTimeout(() => {
      response.writeHead(200, { 'content-type': 'text/plain' })
      response.write('first')
      setTimeout(() => response.end('last'), delays.downloadMs)
    }, delays.firstByteMs)
  }).listen(0, '127.0.0.1')
  await once(web, 'listening')
  const inner = (web.address() as AddressInfo).port
  // The handshake is delayed outside the server: its first bytes reach the client late.
  const front = createServer({ noDelay: true }, (client) => {
    const server = connect({ port: inner, host: '127.0.0.1', noDelay: true })
    client.on('error', () => server.destroy()).pipe(server)
    server.on('error', () => client.destroy())
    server.once('data', (first) => {
      server.pause()
      setTimeout(() => {
        client.write(first)
        server.pipe(client)
      }, delays.tlsMs)
    })
  }).listen(0, '127.0.0.1')
  await once(front, 'listening')
  process.send?.({ port: (front.address() as AddressInfo).port, certificate: pair.cert })
}

const [asChild] = process.argv.slice(2)
if (process.argv[1] === import.meta.filename && asChild !== undefined) {
  // No server may outlive a failed bench.
  process.once('disconnect', () => process.exit())
  await serve(JSON.parse(asChild) as Delays)
}
