// An HTTP server for a Hono application that starts with a clear error or not at all, and that closes
// within a deadline.
import type { Server } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'

export interface ServeOptions {
  /** A Hono application, or anything that answers requests. */
  app: { fetch(request: Request, env: never): Response | Promise<Response> }
  /** 0: any free port. */
  port: number
  /** All interfaces by default. */
  hostname?: string | undefined
  /** The environment variables that set port and hostname; errors name them. */
  variable: string
  hostVariable?: string
}

export interface Served {
  port: number
  /** For clients on this machine, `http://127.0.0.1:8081`. */
  url: string
  /** Accepts no new connection, lets answers finish, and cuts the remaining ones at the deadline. */
  close(deadlineMs: number): Promise<void>
}

/** The port or address cannot be listened on; the message names the variable and the fix. */
export class ListenError extends Error {
  readonly code: string

  constructor(message: string, cause: NodeJS.ErrnoException) {
    super(message, { cause })
    this.name = 'ListenError'
    this.code = cause.code ?? 'UNKNOWN'
  }
}

const IDLE_SWEEP_MS = 100
/** Time for a client to send its headers, and a whole request. */
const HEADERS_MS = 10_000
const REQUEST_MS = 30_000

/** The host of requests by HTTP/1.0 without a Host header, as simple probes send them. */
export const DEFAULT_HOST = 'localhost'

/** Makes a server and starts to listen. Rejects with ListenError. */
export function serve(options: ServeOptions): Promise<Served> {
  const server = createAdaptorServer({
    fetch: (request, env) => options.app.fetch(request, env as never),
    // Of requests by HTTP/1.0, which need no Host; node:http refuses others without.
    hostname: DEFAULT_HOST,
  }) as Server
  server.headersTimeout = HEADERS_MS
  server.requestTimeout = REQUEST_MS
  return listenWith(server, options)
}

/** Starts to listen with a server made elsewhere. Rejects with ListenError. */
export async function listenWith(
  server: Server,
  options: Omit<ServeOptions, 'app'>,
): Promise<Served> {
  await listening(server, options)
  const { port } = server.address() as AddressInfo
  const host = urlHost(options.hostname)
  return { port, url: `http://${host}:${port}`, close: (deadlineMs) => closed(server, deadlineMs) }
}

/**
 * Listens for a moment, by default on all interfaces; resolves with the code of the error, or undefined where the
 * port is free.
 */
export function portProblem(port: number, host?: string): Promise<string | undefined> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    const address = { port, exclusive: true, ...(host !== undefined && { host }) }
    server.listen(address, () => server.close(() => resolve(undefined)))
  })
}

function listening(server: Server, options: Omit<ServeOptions, 'app'>): Promise<void> {
  const { port, hostname } = options
  return new Promise((resolve, reject) => {
    const refused = (error: NodeJS.ErrnoException) =>
      reject(new ListenError(listenProblem(error, options), error))
    server.once('error', refused)
    server.listen({ port, ...(hostname === undefined ? {} : { host: hostname }) }, () => {
      server.off('error', refused)
      resolve()
    })
  })
}

const NO_ADDRESS = new Set(['EADDRNOTAVAIL', 'ENOTFOUND', 'EINVAL'])

/** Whether the code of an error says that this machine does not have the address to listen on. */
export function isNoAddress(code: string | undefined): boolean {
  return code !== undefined && NO_ADDRESS.has(code)
}

function listenProblem(
  error: NodeJS.ErrnoException,
  { port, hostname, variable, hostVariable = 'the address' }: Omit<ServeOptions, 'app'>,
): string {
  if (hostname !== undefined && isNoAddress(error.code)) {
    return `this machine has no address ${hostname}; set ${hostVariable} to one that it has`
  }
  if (error.code === 'EADDRINUSE') {
    return `port ${port} is in use by another process; set ${variable} to a free port`
  }
  if (error.code === 'EACCES') {
    return `not permitted to listen on port ${port}; set ${variable} to a port above 1023`
  }
  return `cannot listen on port ${port} (${variable}): ${error.message}`
}

/** The host of a URL for clients on this machine, of a server that listens on `hostname`. */
export function urlHost(hostname: string | undefined): string {
  if (hostname === undefined || hostname === '0.0.0.0' || hostname === '::') return '127.0.0.1'
  return hostname.includes(':') ? `[${hostname}]` : hostname
}

// A keep-alive connection that is busy when close() is called holds the server open until its client
// disconnects, so idle ones are closed repeatedly, and at the deadline all are cut.
function closed(server: Server, deadlineMs: number): Promise<void> {
  return new Promise((resolve) => {
    const sweep = setInterval(() => server.closeIdleConnections(), IDLE_SWEEP_MS)
    const cut = setTimeout(() => server.closeAllConnections(), deadlineMs)
    server.close(() => {
      clearInterval(sweep)
      clearTimeout(cut)
      resolve()
    })
    server.closeIdleConnections()
  })
}
