// The HTTP client of the agent for its platform: with the location's key, through a proxy where one is set.
// Connections are reused, every call has a deadline, every answer a bound. No network policy applies.
import {
  Agent as HttpAgent,
  request as httpRequest,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP, type Socket } from 'node:net'
import { pipeline, type Readable } from 'node:stream'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip } from 'node:zlib'
import { VERSION } from '../../contract/versions.ts'
import { watchPace, type AnswerPace, type AnswerPaceBounds } from '../delivery/answer-pace.ts'
import { LinkError, linkErrorFrom, proxyErrorFrom, routeText, type Route } from './link-error.ts'
import { bareHost, portOf, proxyFor, TunnelAgent, type PlatformProxy } from './proxy.ts'

/** A call to the platform. */
export interface LinkRequest {
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH'
  /** Below the platform's address, with its query: `/agent/v1/sync`. */
  path: string
  headers?: Record<string, string>
  body?: Buffer | Readable
  /** Length of a body that is a stream, where it is known. */
  bytes?: number
  /** From now to the last byte of the answer, or to its first one where `pace` is given. */
  deadlineMs: number
  /** How slowly a long answer may come once it has begun. */
  pace?: AnswerPaceBounds
  /** Largest answer, as sent and unpacked; 1 MiB by default. */
  answerBytesMax?: number
  /**
   * Receives the body of a 200 piece by piece, not unpacked; the answer's own is empty then. `request` rejects
   * with the error that it throws.
   */
  consume?: (pieces: AsyncIterable<Buffer>) => Promise<void>
  signal: AbortSignal
}

/** What the platform answered, unpacked. */
export interface LinkAnswer {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
  /** When the request was sent and when the answer began, on `performance.now()`'s clock. */
  sentAtMs: number
  answeredAtMs: number
}

export interface PlatformLink {
  /**
   * Sends one request. Rejects with LinkError when there is no usable answer; any status but a redirect is
   * an answer. A body that is a stream is read once and destroyed.
   */
  request(ask: LinkRequest): Promise<LinkAnswer>
  /** Cuts every connection. */
  close(): void
}

/** Where the platform is and how to get there. */
export interface LinkOptions {
  platformUrl: string
  /** The location's key; none for a receiver that is no platform. */
  apiKey: string | undefined
  proxyUrl?: string | undefined
  noProxy?: readonly string[]
  /** Authorities to trust in place of those of Node.js, for tests. */
  ca?: string
  /** Time for a connection to stand, TLS and proxy included. */
  connectMs?: number
}

const CONNECT_MS = 10_000
const ANSWER_BYTES_MAX = 1024 * 1024
/** Sync, deliveries and artifacts go at the same time. */
const CONNECTIONS_MAX = 8

/** Creates the client; connects to nothing yet. */
export function createPlatformLink(options: LinkOptions): PlatformLink {
  return new Link(options)
}

class Link implements PlatformLink {
  readonly #url: URL
  readonly #proxy: PlatformProxy | undefined
  readonly #route: Route
  readonly #agent: HttpAgent
  readonly #connectMs: number
  readonly #headers: Record<string, string>

  constructor(options: LinkOptions) {
    this.#url = new URL(options.platformUrl)
    this.#proxy = proxyFor(this.#url, options.proxyUrl, options.noProxy ?? [])
    const { protocol, host } = this.#url
    this.#route = { platform: `${protocol}//${host}`, proxy: this.#proxy?.shown }
    this.#connectMs = options.connectMs ?? CONNECT_MS
    this.#agent = this.#makeAgent(options.ca)
    this.#headers = {
      host,
      ...(options.apiKey !== undefined && { authorization: `Bearer ${options.apiKey}` }),
      'user-agent': `Vedette/${VERSION}`,
      'accept-encoding': 'gzip, br',
    }
  }

  async request(ask: LinkRequest): Promise<LinkAnswer> {
    const endsAtMs = performance.now() + ask.deadlineMs
    const stream = Buffer.isBuffer(ask.body) ? undefined : ask.body
    const isOnce = stream !== undefined
    try {
      const answer =
        (await this.#send(ask, endsAtMs, isOnce)) ?? (await this.#send(ask, endsAtMs, true))
      if (answer === undefined) throw new Error('the last try answers or rejects')
      return this.#evaluated(answer)
    } finally {
      stream?.destroy()
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  #makeAgent(ca: string | undefined): HttpAgent {
    const trust = ca === undefined ? {} : { ca }
    const pool = { keepAlive: true, maxSockets: CONNECTIONS_MAX, scheduling: 'lifo' as const }
    const proxy = this.#proxy
    if (this.#url.protocol === 'https:') {
      if (proxy === undefined) return new HttpsAgent({ ...pool, ...trust })
      const { connectMs, route } = { connectMs: this.#connectMs, route: this.#route }
      return new TunnelAgent({ ...pool, ...trust, proxy, route, connectMs })
    }
    return proxy?.secure === true ? new HttpsAgent({ ...pool, ...trust }) : new HttpAgent(pool)
  }

  #open(ask: LinkRequest): ClientRequest {
    const { method, body, bytes } = ask
    const length = Buffer.isBuffer(body) ? body.length : bytes
    const path = `${this.#url.pathname.replace(/\/$/, '')}${ask.path}`
    const headers = {
      ...this.#headers,
      ...ask.headers,
      ...(length === undefined ? {} : { 'content-length': String(length) }),
    }
    const proxy = this.#proxy
    const shared = { method, agent: this.#agent }
    if (this.#url.protocol === 'https:') {
      const to = { host: bareHost(this.#url), port: portOf(this.#url), path }
      return httpsRequest({ ...shared, ...to, headers })
    }
    if (proxy === undefined) {
      const to = { host: bareHost(this.#url), port: portOf(this.#url), path }
      return httpRequest({ ...shared, ...to, headers })
    }
    // Plain HTTP is forwarded by a proxy, which receives the whole address (RFC 9112, 3.2.2).
    const credentials =
      proxy.authorization === undefined ? {} : { 'proxy-authorization': proxy.authorization }
    const to = { host: proxy.host, port: proxy.port, path: `http://${this.#url.host}${path}` }
    const forward = { ...shared, ...to, headers: { ...headers, ...credentials } }
    // Node.js takes the name for TLS from the Host header unless it is given; an address has none.
    return proxy.secure
      ? httpsRequest({ ...forward, servername: isIP(proxy.host) === 0 ? proxy.host : '' })
      : httpRequest(forward)
  }

  /** One try; undefined when a reused connection was dead and a new one may work. */
  async #send(
    ask: LinkRequest,
    endsAtMs: number,
    isLast: boolean,
  ): Promise<LinkAnswer | undefined> {
    if (ask.signal.aborted) throw aborted()
    const request = this.#open(ask)
    let cutBy: LinkError | undefined
    const cut = (error: LinkError) => {
      cutBy ??= error
      request.destroy(error)
    }
    const onAbort = () => cut(aborted())
    const onLate = (ms: number) => cut(this.#late(ms))
    const late = setTimeout(() => onLate(ask.deadlineMs), endsAtMs - performance.now())
    let pace: AnswerPace | undefined
    let hasBegun = false
    ask.signal.addEventListener('abort', onAbort)
    request.on('socket', (socket) => this.#watchConnecting(request, socket, cut))
    try {
      const { response, ...times } = await begun(request, ask.body)
      hasBegun = true
      if (ask.pace !== undefined) {
        clearTimeout(late)
        pace = watchPace(ask.pace, onLate)
      }
      const body = await this.#receive(response, ask, pace)
      return { status: response.statusCode ?? 0, headers: response.headers, body, ...times }
    } catch (error) {
      request.destroy()
      if (cutBy !== undefined) throw cutBy
      if (hasBegun) throw error
      if (!isLast && isStale(request, error)) return undefined
      throw this.#wayError(error)
    } finally {
      clearTimeout(late)
      pace?.end()
      ask.signal.removeEventListener('abort', onAbort)
      // The answer came before the whole body was sent: the rest is not needed.
      if (!request.writableFinished) request.destroy()
    }
  }

  #watchConnecting(request: ClientRequest, socket: Socket, cut: (error: LinkError) => void): void {
    if (request.reusedSocket || !socket.connecting) return
    const ready = 'encrypted' in socket ? 'secureConnect' : 'connect'
    const timer = setTimeout(() => {
      const text = `${this.#where()} makes no connection within ${this.#connectMs / 1000} s`
      cut(new LinkError('TIMEOUT', text))
    }, this.#connectMs)
    const settle = () => {
      clearTimeout(timer)
      socket.off(ready, settle)
      socket.off('close', settle)
    }
    socket.on(ready, settle)
    socket.on('close', settle)
  }

  async #receive(
    response: IncomingMessage,
    { answerBytesMax: bytesMax = ANSWER_BYTES_MAX, consume }: LinkRequest,
    pace: AnswerPace | undefined,
  ): Promise<Buffer> {
    const pieces = this.#pieces(response, bytesMax, pace)
    if (consume !== undefined && response.statusCode === 200) {
      await consume(pieces)
      if (!response.complete) response.destroy()
      return Buffer.alloc(0)
    }
    const chunks: Buffer[] = []
    for await (const chunk of pieces) chunks.push(chunk)
    return this.#unpacked(Buffer.concat(chunks), response, bytesMax)
  }

  async *#pieces(
    response: IncomingMessage,
    bytesMax: number,
    pace: AnswerPace | undefined,
  ): AsyncGenerator<Buffer, void, undefined> {
    let bytes = 0
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        bytes += chunk.length
        pace?.came()
        if (bytes > bytesMax) throw this.#tooLarge(bytesMax)
        yield chunk
      }
    } catch (error) {
      if (error instanceof LinkError) throw error
      throw new LinkError('TRUNCATED', `the answer of ${this.#where()} ended too early`, error)
    }
  }

  async #unpacked(body: Buffer, response: IncomingMessage, bytesMax: number): Promise<Buffer> {
    const packing = (response.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
    if (packing === 'identity' || body.length === 0) return body
    const unpack = UNPACKERS[packing]
    const text = `the answer of ${this.#where()} cannot be unpacked`
    if (unpack === undefined) throw new LinkError('NOT_UNDERSTOOD', `${text}: it is ${packing}`)
    try {
      return await unpack(body, { maxOutputLength: bytesMax })
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'ERR_BUFFER_TOO_LARGE') throw this.#tooLarge(bytesMax)
      if (code === 'Z_BUF_ERROR') throw new LinkError('TRUNCATED', `${text}: it ended too early`)
      throw new LinkError('NOT_UNDERSTOOD', `${text}: ${message}`)
    }
  }

  /** The answer, unless it is no answer of the platform. */
  #evaluated(answer: LinkAnswer): LinkAnswer {
    const { status, headers } = answer
    if (status === 407 && this.#proxy !== undefined) {
      const text = 'wants other credentials (407); check user and password in HTTP_PROXY'
      throw new LinkError('PROXY', `the proxy ${this.#proxy.shown} ${text}`)
    }
    if (status < 300 || status >= 400) return answer
    const to = shownLocation(headers.location, this.#url)
    const text = `answers with a redirect (${status})${to === undefined ? '' : ` to ${to}`}`
    throw new LinkError('REDIRECTED', `${this.#where()} ${text}; set PLATFORM_URL to where it is`)
  }

  #where(): string {
    return `the platform ${routeText(this.#route)}`
  }

  #late(deadlineMs: number): LinkError {
    const text = `${this.#where()} gave no whole answer within ${Math.round(deadlineMs / 1000)} s`
    return new LinkError('TIMEOUT', text)
  }

  #tooLarge(bytesMax: number): LinkError {
    const text = `the answer of ${this.#where()} is larger than ${bytesMax} bytes`
    return new LinkError('TOO_LARGE', text)
  }

  /** On a way where the socket leads to the proxy, its errors are the proxy's. */
  #wayError(error: unknown): LinkError {
    const forwarded = this.#proxy !== undefined && this.#url.protocol === 'http:'
    return forwarded ? proxyErrorFrom(error, this.#route) : linkErrorFrom(error, this.#route)
  }
}

interface Begun {
  response: IncomingMessage
  sentAtMs: number
  answeredAtMs: number
}

/** Sends the request; resolves when its answer begins. */
function begun(request: ClientRequest, body: Buffer | Readable | undefined): Promise<Begun> {
  return new Promise((resolve, reject) => {
    let sentAtMs = performance.now()
    request.on('finish', () => (sentAtMs = performance.now()))
    // Stays for good: an upload that is cut for its answer fails after the answer has begun.
    request.on('error', reject)
    request.on('response', (response) =>
      resolve({ response, sentAtMs, answeredAtMs: performance.now() }),
    )
    if (body === undefined || Buffer.isBuffer(body)) request.end(body)
    else pipeline(body, request, () => {})
  })
}

/** The other side had closed the connection while it was idle, which says nothing about the platform. */
function isStale(request: ClientRequest, error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return request.reusedSocket && (code === 'ECONNRESET' || code === 'EPIPE')
}

const UNPACKERS: Readonly<
  Record<string, (body: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>
> = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  br: promisify(brotliDecompress),
}

function aborted(): LinkError {
  return new LinkError('ABORTED', 'the call to the platform was given up')
}

/** Where a redirect leads, without anything in it that could be a secret. */
function shownLocation(location: string | undefined, base: URL): string | undefined {
  const url = URL.parse(location ?? '', base.href)
  return location === undefined || url === null ? undefined : `${url.origin}${url.pathname}`
}
