// Proxy of one run of user code, in the agent: resolves, checks the network policy and dials as the agent's own
// monitors do, the location's proxy included.
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, request as httpRequest } from 'node:http'
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Failure } from '../../contract/failure.ts'
import type { Connection, Dialler, Progress } from '../../network/dial.ts'
import { withDeadline } from '../../network/deadline.ts'
import { failureOf, isFailure, TargetFailure } from '../../network/target-failure.ts'

/** A connection that could not be made. */
export interface ProxyRefusal {
  host: string
  port: number
  failure: Failure
}

export interface RunProxy {
  /** `http://127.0.0.1:<port>`. */
  server: string
  username: string
  password: string
  /** What makes Node's fetch, npm, Bun and curl use it. Holds the credentials. */
  environment: Record<string, string>
  /** The first connections that could not be made, with the agent's failure for each. */
  refusals: readonly ProxyRefusal[]
  /** Ends it with all its connections. */
  close(): Promise<void>
}

const CONNECTIONS_MAX = 512
const CONNECT_MS_MAX = 30_000
const REFUSALS_MAX = 50
const USERNAME = 'run'

/** Starts a proxy on a free port of the loopback address, for who knows its password. */
export async function openRunProxy(dial: Dialler): Promise<RunProxy> {
  const password = randomBytes(24).toString('base64url')
  const tunnels = new Tunnels(dial, password)
  const server = createServer((request, response) => void tunnels.forward(request, response))
  server.maxConnections = CONNECTIONS_MAX
  server.on('connect', (request, client, head) => void tunnels.connect(request, client, head))
  server.on('upgrade', (request, client, head) => void tunnels.upgrade(request, client, head))
  server.on('clientError', (_, client) => client.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  const url = `http://${USERNAME}:${password}@127.0.0.1:${port}`
  return {
    server: `http://127.0.0.1:${port}`,
    username: USERNAME,
    password,
    environment: {
      ...Object.fromEntries(PROXY_VARIABLES.map((name) => [name, url])),
      // What a run starts for itself, such as its web server, is reached directly: the sandbox holds the network
      // policy there as well, and Playwright asks `webServer.url` without the proxy's password.
      ...Object.fromEntries(NO_PROXY_VARIABLES.map((name) => [name, LOOPBACK])),
      NODE_USE_ENV_PROXY: '1',
    },
    refusals: tunnels.refusals,
    close() {
      tunnels.close()
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

const PROXY_VARIABLES = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']
const NO_PROXY_VARIABLES = ['NO_PROXY', 'no_proxy']
const LOOPBACK = 'localhost,127.0.0.1,::1,[::1],0.0.0.0'
const CHALLENGE = 'Basic realm="run"'

class Tunnels {
  readonly refusals: ProxyRefusal[] = []
  readonly #dial: Dialler
  readonly #authorization: Buffer
  readonly #closing = new AbortController()
  readonly #sockets = new Set<Duplex>()

  constructor(dial: Dialler, password: string) {
    this.#dial = dial
    this.#authorization = Buffer.from(
      `Basic ${Buffer.from(`${USERNAME}:${password}`).toString('base64')}`,
    )
  }

  /** A tunnel to anywhere that the policy allows (RFC 9110, 9.3.6). */
  async connect(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    this.#track(client)
    if (!this.#knows(request)) {
      const status = 'HTTP/1.1 407 Proxy Authentication Required'
      client.end(`${status}\r\nproxy-authenticate: ${CHALLENGE}\r\ncontent-length: 0\r\n\r\n`)
      return
    }
    const target = URL.parse(`http://${request.url ?? ''}`)
    if (target === null || target.pathname !== '/') {
      client.end('HTTP/1.1 400 Bad Request\r\n\r\n')
      return
    }
    const reached = await this.#reach(target, client)
    if ('failure' in reached) {
      const { code, message } = reached.failure
      const { status, type } = meaningOf(reached.failure)
      const fields = `proxy-status: vedette; error=${type}\r\nconnection: close`
      client.end(`HTTP/1.1 ${status} ${code}\r\n${fields}\r\n\r\n${message}\n`)
      return
    }
    client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
    if (head.length > 0) reached.socket.write(head)
    this.#join(client, reached.socket)
  }

  /**
   * One request in absolute form (RFC 9112, 3.2.2). Some clients, axios among them, ask so for what is encrypted as well,
   * without a tunnel.
   */
  async forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!this.#knows(request)) {
      response.writeHead(407, { 'proxy-authenticate': CHALLENGE }).end()
      return
    }
    const target = targetOf(request, ['http:', 'https:'])
    if (target === undefined) {
      response.writeHead(400).end()
      return
    }
    const reached = await this.#reach(target, request.socket)
    if ('failure' in reached) {
      const { status, type } = meaningOf(reached.failure)
      response.writeHead(status, { 'proxy-status': `vedette; error=${type}` })
      response.end(`${reached.failure.message}\n`)
      return
    }
    this.#track(reached.socket)
    pass(request, response, target, reached.socket)
  }

  /** A plain request that becomes something else, such as a WebSocket. */
  async upgrade(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    this.#track(client)
    const target = this.#knows(request) ? targetOf(request, ['http:']) : undefined
    const reached = target && (await this.#reach(target, client))
    if (target === undefined || reached === undefined || 'failure' in reached) {
      client.destroy()
      return
    }
    const pairs = Object.entries(endToEnd(request)).flatMap(([name, value]) =>
      [value].flat().map((one) => `${name}: ${one}\r\n`),
    )
    const { method, headers } = request
    const line = `${method} ${target.pathname}${target.search} HTTP/1.1\r\n`
    const upgrade = `connection: upgrade\r\nupgrade: ${headers.upgrade}\r\n`
    reached.socket.write(`${line}${pairs.join('')}${upgrade}\r\n`)
    if (head.length > 0) reached.socket.write(head)
    this.#join(client, reached.socket)
  }

  close(): void {
    this.#closing.abort(new Error('the run has ended'))
    for (const one of this.#sockets) one.destroy()
  }

  #knows(request: IncomingMessage): boolean {
    const given = Buffer.from(request.headers['proxy-authorization'] ?? '')
    return (
      given.length === this.#authorization.length && timingSafeEqual(given, this.#authorization)
    )
  }

  /** Connects as a monitor would, for as long as the client is there. */
  async #reach(target: URL, client: Duplex): Promise<{ socket: Socket } | { failure: Failure }> {
    const { hostname: host, protocol } = target
    const isSecure = protocol === 'https:'
    // The scheme's own port is left out by the parser.
    const port = Number(target.port) || (isSecure ? 443 : 80)
    const progress: Progress = { phase: 'dns' }
    const gone = new AbortController()
    const forget = onLeaving(client, () => gone.abort(new Error('the client disconnected')))
    const outer = AbortSignal.any([this.#closing.signal, gone.signal])
    try {
      return await withDeadline(outer, CONNECT_MS_MAX, async (signal) => {
        const connection = await this.#connected({ host, port }, progress, signal)
        return isSecure ? await this.#secured(connection, host, progress, signal) : connection
      })
    } catch (error) {
      // The run has ended, or a fault of the agent: in both cases nothing more is reported.
      if (!isFailure(error)) {
        return { failure: { code: 'INTERNAL', message: (error as Error).message } }
      }
      const failure = failureOf(error, progress)
      if (this.refusals.length < REFUSALS_MAX) this.refusals.push({ host, port, failure })
      return { failure }
    } finally {
      forget()
    }
  }

  /** A name without IPv4 addresses is tried by its IPv6 ones. */
  async #connected(to: { host: string; port: number }, progress: Progress, signal: AbortSignal) {
    try {
      return await this.#dial.connect({ ...to, family: 'IPv4' }, progress, signal)
    } catch (error) {
      const hasNone = error instanceof TargetFailure && error.failure.code === 'DNS_NO_ADDRESS'
      if (!hasNone) throw error
      return this.#dial.connect({ ...to, family: 'IPv6' }, progress, signal)
    }
  }

  /** The certificate must be good: what the client would put up with is not known here. */
  async #secured(connection: Connection, host: string, progress: Progress, signal: AbortSignal) {
    progress.phase = 'tls'
    const handshake = { serverName: host.replace(/^\[|\]$/g, ''), alpn: ['http/1.1'] }
    const { socket, peer } = await this.#dial.secure(connection.socket, handshake, progress, signal)
    if (peer.failure === undefined) return { socket }
    socket.destroy()
    throw new TargetFailure(peer.failure)
  }

  #track(socket: Duplex): void {
    this.#sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.on('close', () => this.#sockets.delete(socket))
    if (this.#closing.signal.aborted) socket.destroy()
  }

  #join(client: Duplex, target: Socket): void {
    this.#track(target)
    client.on('close', () => target.destroy())
    if (client.destroyed) target.destroy()
    target.on('close', () => client.destroy())
    client.pipe(target).pipe(client)
  }
}

/** Calls back when the client disconnects. Reads nothing of the client's data until the returned function is called. */
function onLeaving(client: Duplex, onGone: () => void): () => void {
  // A tunnel has no other reader yet, and without reading its end is not noticed.
  const look = () => {
    if (client.readableLength === 0) client.read()
  }
  const isTunnel = client.listenerCount('data') === 0
  if (isTunnel) client.on('readable', look).once('end', onGone)
  client.once('close', onGone)
  if (client.destroyed) onGone()
  return () => {
    client.removeListener('close', onGone)
    if (isTunnel) client.removeListener('readable', look).removeListener('end', onGone)
  }
}

function targetOf(request: IncomingMessage, protocols: readonly string[]): URL | undefined {
  const target = URL.parse(request.url ?? '')
  return target !== null && protocols.includes(target.protocol) ? target : undefined
}

function pass(
  request: IncomingMessage,
  response: ServerResponse,
  target: URL,
  socket: Socket,
): void {
  const onward = httpRequest({
    method: request.method,
    path: `${target.pathname}${target.search}`,
    headers: { ...endToEnd(request), connection: 'close' },
    setHost: false,
    createConnection: () => socket,
  })
  onward.on('response', (answer) => {
    answer.on('error', () => response.destroy())
    if (begin(response, answer)) answer.pipe(response)
    else socket.destroy()
  })
  onward.on('error', () => response.destroy())
  // It became something else, which nobody had asked for.
  onward.on('upgrade', () => response.destroy())
  response.on('close', () => socket.destroy())
  request.pipe(onward)
}

function begin(response: ServerResponse, answer: IncomingMessage): boolean {
  const headers = { ...answer.headers }
  delete headers.connection
  delete headers.trailer
  try {
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, headers)
    return true
  } catch {
    const status = { 'proxy-status': 'vedette; error=http_protocol_error' }
    response.writeHead(502, 'Bad Gateway', status).end()
    return false
  }
}

/** Header fields that are meant for the target (RFC 9110, 7.6.1). */
function endToEnd({ headers }: IncomingMessage): OutgoingHttpHeaders {
  const named = (headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase())
  const dropped = new Set([...HOP_BY_HOP, ...named])
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !dropped.has(name)))
}

const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  // Named here, they would have to come; none are passed on.
  'trailer',
  'upgrade',
]

/** What a failure is called between proxies (RFC 9209, 2.3). */
function meaningOf({ code }: Failure): { status: number; type: string } {
  return MEANINGS[code] ?? { status: 502, type: 'destination_unavailable' }
}

const MEANINGS: Partial<Record<string, { status: number; type: string }>> = {
  ADDRESS_BLOCKED: { status: 403, type: 'destination_ip_prohibited' },
  DNS_NOT_FOUND: { status: 502, type: 'dns_error' },
  DNS_NO_ADDRESS: { status: 502, type: 'dns_error' },
  DNS_SERVER_FAILED: { status: 502, type: 'dns_error' },
  RESOLVER_UNREACHABLE: { status: 502, type: 'dns_error' },
  TIMEOUT_DNS: { status: 504, type: 'dns_timeout' },
  CONNECT_REFUSED: { status: 502, type: 'connection_refused' },
  CONNECT_UNREACHABLE: { status: 502, type: 'destination_ip_unroutable' },
  NETWORK_UNREACHABLE: { status: 502, type: 'destination_ip_unroutable' },
  TIMEOUT_CONNECT: { status: 504, type: 'connection_timeout' },
}
