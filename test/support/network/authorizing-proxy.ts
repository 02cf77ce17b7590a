// Makes a run's proxy usable for programs without a command-line option for a proxy password.
import { createServer, request } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import type { RunProxy } from '../../../src/sandbox/egress/run-proxy.ts'

/** A proxy in front of the run's proxy that adds the password. */
export interface AuthorizingProxy {
  server: string
  close(): void
}

/** Starts it on loopback. */
export async function startAuthorizingProxy(proxy: RunProxy): Promise<AuthorizingProxy> {
  const authorization = `Basic ${btoa(`${proxy.username}:${proxy.password}`)}`
  const port = Number(new URL(proxy.server).port)
  const server = createServer((asked, response) => {
    const headers = { ...asked.headers, 'proxy-authorization': authorization }
    const onward = request({ port, method: asked.method, path: asked.url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    asked.pipe(onward)
  })
  server.on('connect', (asked, client: Socket) => {
    const onward = connect(port, '127.0.0.1')
    onward.write(`CONNECT ${asked.url} HTTP/1.1\r\nproxy-authorization: ${authorization}\r\n\r\n`)
    client.on('error', () => onward.destroy())
    onward.on('error', () => client.destroy())
    client.pipe(onward).pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}
