// A proxy that makes tunnels and forwards plain HTTP, optionally with credentials.
import { request as httpRequest, createServer, type IncomingMessage } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { connect, type Socket } from 'node:net'
import type { KeyPair } from './certificates.ts'
import { listening, type TestServer } from '../test-server.ts'

export interface ProxyOptions {
  /** `user:password`. */
  credentials?: string
  /** Speak TLS to clients. */
  tls?: KeyPair
  /** Answer every CONNECT with this head instead of making a tunnel. */
  answer?: string
  /** Never answer CONNECT. */
  unresponsive?: boolean
  /** Called at each CONNECT. */
  onConnect?: () => void
  /** Addresses of names that no resolver knows. */
  names?: Record<string, string>
  /** The address of this machine that it listens on; loopback by default. */
  host?: string
}

/** A running proxy; `requestLines` has the request line of every request. */
export type ConnectProxy = TestServer & { requestLines: string[] }

/** Starts the proxy. */
export async function startConnectProxy(options: ProxyOptions = {}): Promise<ConnectProxy> {
  const requestLines: string[] = []
  const server = options.tls === undefined ? createServer() : createHttpsServer(options.tls)
  const denied = (request: IncomingMessage) =>
    options.credentials !== undefined &&
    request.headers['proxy-authorization'] !==
      `Basic ${Buffer.from(options.credentials).toString('base64')}`
  server.on('connect', (request: IncomingMessage, client: Socket) => {
    requestLines.push(`CONNECT ${request.url}`)
    client.on('error', () => {})
    options.onConnect?.()
    if (options.unresponsive === true) return
    if (options.answer !== undefined) client.end(options.answer)
    else if (denied(request)) client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
    else tunnel(request.url as string, client, options.names ?? {})
  })
  server.on('request', (request, response) => {
    requestLines.push(`${request.method} ${request.url}`)
    if (denied(request)) {
      response.writeHead(407).end()
      return
    }
    const { 'proxy-authorization': _, ...headers } = request.headers
    const onward = httpRequest(request.url as string, { method: request.method, headers })
    onward.on('response', (answer) => {
      response.writeHead(answer.statusCode as number, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.writeHead(502).end())
    request.pipe(onward)
  })
  return Object.assign(await listening(server, options.host), { requestLines })
}

function tunnel(target: string, client: Socket, names: Record<string, string>): void {
  const { hostname, port } = new URL(`http://${target}`)
  const host = hostname.replace(/^\[|\]$/g, '')
  const onward = connect(Number(port || 80), names[host] ?? host)
  onward.once('connect', () => {
    client.write('HTTP/1.1 200 Connection established\r\n\r\n')
    onward.pipe(client).pipe(onward)
  })
  onward.on('error', () => client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'))
  client.on('close', () => onward.destroy())
}
