// Servers on port 0, on loopback by default, that close with all their connections in any state.
import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import {
  createSecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type SecureServerOptions,
} from 'node:http2'
import { createServer as createHttpsServer, type ServerOptions } from 'node:https'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** A running server. */
export interface TestServer extends AsyncDisposable {
  port: number
  /** `host:port`. */
  authority: string
  /** Number of open connections. */
  open(): number
  /** Resolves at the next connection. */
  connection(): Promise<Socket>
  close(): Promise<void>
}

/** A TCP server that calls `behave` for each connection. */
export function startRawServer(onConnection: (socket: Socket) => void): Promise<TestServer> {
  return listening(createServer({ noDelay: true }, onConnection))
}

/** An HTTP server. */
export function startHttpServer(onRequest: RequestListener, host?: string): Promise<TestServer> {
  return listening(createHttpServer(onRequest), host)
}

/** An HTTPS server. */
export function startHttpsServer(
  options: ServerOptions,
  onRequest: RequestListener,
  host?: string,
): Promise<TestServer> {
  return listening(createHttpsServer(options, onRequest), host)
}

/** A server of HTTP/2 alone, over TLS; with `allowHTTP1` of HTTP/1.1 as well. */
export function startHttp2Server(
  options: SecureServerOptions,
  onRequest: (request: Http2ServerRequest, response: Http2ServerResponse) => void,
): Promise<TestServer> {
  return listening(createSecureServer(options, onRequest).on('sessionError', () => {}))
}

/** Starts a server and tracks its connections. */
export async function listening(server: Server, host = '127.0.0.1'): Promise<TestServer> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    // A disconnected client is no fault of a test's server.
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async () => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of sockets) socket.destroy()
    await closed
  }
  return {
    port,
    authority: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
    open: () => sockets.size,
    connection: async () => (await once(server, 'connection'))[0] as Socket,
    close,
    [Symbol.asyncDispose]: close,
  }
}
