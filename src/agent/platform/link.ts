// The HTTP client of the agent for its platform: with the location's key, through a proxy where one is set.
// Connections are reused, every call has a deadline, every answer a bound. No network policy applies.
import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, gzip } from 'node:zlib'
import type { Dispatcher } from 'undici'
import { echoedSecrets, urlSecrets } from '../../contract/definition-secrets.ts'
import { VERSION } from '../../contract/versions.ts'
import { createScrubber, type Scrubber } from '../redaction/scrub.ts'
import { LinkError, linkErrorFrom, proxyErrorFrom, routeText, type Route } from './link-error.ts'
import {
  directConnector,
  proxyConnector,
  proxyFor,
  tunnelConnector,
  type PlatformProxy,
} from './proxy.ts'
import { Pool, request, type Connector } from './undici.ts'

/** How slowly an answer may come, from its first byte on. */
export interface AnswerPaceBounds {
  /** Idle timeout: time without a byte. */
  idleMs: number
  /** Time until its last byte. */
  wholeMs: number
}

/** A call to the platform. */
export interface LinkRequest {
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
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

/** Smaller bodies gain nothing. */
const GZIP_BYTES_MIN = 1024

const pack = promisify(gzip)

/** A call's text of JSON as its body, packed where it is long. */
export async function jsonBody(
  text: string,
): Promise<{ headers: Record<string, string>; body: Buffer }> {
  const headers = { 'content-type': 'application/json' }
  const body = Buffer.from(text)
  if (body.length < GZIP_BYTES_MIN) return { headers, body }
  return { headers: { ...headers, 'content-encoding': 'gzip' }, body: await pack(body) }
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
const IDLE_CONNECTION_MS = 60_000
/** What is read of an answer that refuses a call. */
const REFUSAL_BYTES_MAX = 65_536

/** Connects to nothing before its first request. */
export class PlatformLink {
  readonly #url: URL
  readonly #proxy: PlatformProxy | undefined
  readonly #route: Route
  readonly #pool: InstanceType<typeof Pool>
  readonly #connectMs: number
  readonly #headers: Record<string, string>
  /** For the credentials of the headers. */
  readonly #scrub: Scrubber
  /** Before the path of each request. */
  readonly #base: string
  /** Connections so far. */
  #opened = 0

  constructor(options: LinkOptions) {
    this.#url = new URL(options.platformUrl)
    this.#proxy = proxyFor(this.#url, options.proxyUrl, options.noProxy ?? [])
    const { protocol, host, origin, pathname } = this.#url
    this.#route = { platform: `${protocol}//${host}`, proxy: this.#proxy?.shown }
    this.#connectMs = options.connectMs ?? CONNECT_MS
    const connect = this.#connector(options.ca)
    this.#pool = new Pool(origin, {
      connections: CONNECTIONS_MAX,
      keepAliveTimeout: IDLE_CONNECTION_MS,
      connect: (target, callback) => {
        this.#opened++
        connect(target, callback)
      },
    })
    const authorization = this.#isForwarded ? this.#proxy?.authorization : undefined
    // A proxy that forwards plain HTTP receives the whole address (RFC 9112, 3.2.2).
    this.#base = `${this.#isForwarded ? origin : ''}${pathname.replace(/\/$/, '')}`
    this.#headers = {
      host,
      ...(options.apiKey !== undefined && { authorization: `Bearer ${options.apiKey}` }),
      ...(authorization !== undefined && { 'proxy-authorization': authorization }),
      'user-agent': `Vedette/${VERSION}`,
      'accept-encoding': 'gzip, br',
    }
    const sent = [this.#headers['authorization'] ?? '', authorization ?? ''].flatMap(echoedSecrets)
    this.#scrub = createScrubber({ secrets: [...sent, ...urlSecrets(options.proxyUrl ?? '')] })
  }

  /**
   * Sends one request. Rejects with LinkError when there is no usable answer; any status but a redirect is
   * an answer. A body that is a stream is read once and destroyed.
   */
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

  /** Cuts every connection. */
  close(): void {
    void this.#pool.destroy()
  }

  get #isForwarded(): boolean {
    return this.#proxy !== undefined && this.#url.protocol === 'http:'
  }

  #connector(ca: string | undefined): Connector {
    const options = { ca, connectMs: this.#connectMs }
    if (this.#proxy === undefined) return directConnector(options)
    if (this.#isForwarded) return proxyConnector(this.#proxy, options)
    return tunnelConnector(this.#proxy, this.#route, options)
  }

  /** One try; undefined when a reused connection was dead and a new one may work. */
  async #send(
    ask: LinkRequest,
    endsAtMs: number,
    isLast: boolean,
  ): Promise<LinkAnswer | undefined> {
    if (ask.signal.aborted) throw aborted()
    const { method, path, body, bytes, pace, deadlineMs } = ask
    const cut = new AbortController()
    const onAbort = () => cut.abort(aborted())
    const onLate = (ms: number) => cut.abort(this.#late(ms))
    let late = setTimeout(onLate, endsAtMs - performance.now(), deadlineMs)
    ask.signal.addEventListener('abort', onAbort)
    const openedBefore = this.#opened
    let response: Dispatcher.ResponseData | undefined
    try {
      let sentAtMs = performance.now()
      const onRequestSent = () => void (sentAtMs = performance.now())
      const dispatch: Dispatcher['dispatch'] = (options, handler) =>
        this.#pool.dispatch(options, Object.assign(handler, { onRequestSent }))
      response = await request.call(
        { dispatch },
        {
          method,
          path: `${this.#base}${path}`,
          headers: {
            ...this.#headers,
            ...ask.headers,
            ...(bytes !== undefined && { 'content-length': String(bytes) }),
          },
          body: body ?? null,
          headersTimeout: 0,
          bodyTimeout: pace?.idleMs ?? 0,
          signal: cut.signal,
        },
      )
      const answeredAtMs = performance.now()
      if (pace !== undefined) {
        clearTimeout(late)
        late = setTimeout(onLate, pace.wholeMs, pace.wholeMs)
      }
      const { statusCode: status, headers } = response
      return { status, headers, body: await this.#receive(response, ask), sentAtMs, answeredAtMs }
    } catch (error) {
      // A body that nobody reads to its end would occupy its connection for good; destroyed early, it errors.
      response?.body.on('error', () => undefined).destroy()
      if (error instanceof LinkError || response !== undefined) throw error
      if (!isLast && this.#opened === openedBefore && isStale(error)) return undefined
      throw this.#isForwarded
        ? proxyErrorFrom(error, this.#route)
        : linkErrorFrom(error, this.#route)
    } finally {
      clearTimeout(late)
      ask.signal.removeEventListener('abort', onAbort)
    }
  }

  async #receive(
    { statusCode, headers, body }: Dispatcher.ResponseData,
    { answerBytesMax: bytesMax = ANSWER_BYTES_MAX, consume, pace }: LinkRequest,
  ): Promise<Buffer> {
    const pieces = this.#pieces(body, bytesMax, pace)
    if (consume !== undefined && statusCode === 200) {
      await consume(pieces)
      body.on('error', () => undefined).destroy()
      return Buffer.alloc(0)
    }
    const chunks: Buffer[] = []
    for await (const chunk of pieces) chunks.push(chunk)
    // undici frees the connection only now, and the next call would open another.
    await nextTurn()
    return this.#unpacked(Buffer.concat(chunks), headers, bytesMax)
  }

  async *#pieces(
    body: Readable,
    bytesMax: number,
    pace: AnswerPaceBounds | undefined,
  ): AsyncGenerator<Buffer, void, undefined> {
    let bytes = 0
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        bytes += chunk.length
        if (bytes > bytesMax) throw this.#tooLarge(bytesMax)
        yield chunk
      }
    } catch (error) {
      if (error instanceof LinkError) throw error
      if (pace !== undefined && codeOf(error) === 'UND_ERR_BODY_TIMEOUT') {
        throw this.#late(pace.idleMs)
      }
      throw new LinkError('TRUNCATED', `the answer of ${this.#where()} is incomplete`, error)
    }
  }

  async #unpacked(body: Buffer, headers: IncomingHttpHeaders, bytesMax: number): Promise<Buffer> {
    const packing = (headers['content-encoding'] ?? 'identity').trim().toLowerCase()
    if (packing === 'identity' || body.length === 0) return body
    const unpack = UNPACKERS[packing]
    const text = `the answer of ${this.#where()} cannot be decompressed`
    if (unpack === undefined) throw new LinkError('NOT_UNDERSTOOD', `${text}: it is ${packing}`)
    try {
      return await unpack(body, { maxOutputLength: bytesMax })
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'ERR_BUFFER_TOO_LARGE') throw this.#tooLarge(bytesMax)
      if (code === 'Z_BUF_ERROR') throw new LinkError('TRUNCATED', `${text}: it is incomplete`)
      throw new LinkError('NOT_UNDERSTOOD', `${text}: ${message}`)
    }
  }

  /** The answer, unless it is no answer of the platform. */
  #evaluated(answer: LinkAnswer): LinkAnswer {
    const { status, headers } = answer
    if (status === 407 && this.#proxy !== undefined) {
      const text = 'rejected the credentials (407); check user and password in HTTP_PROXY'
      throw new LinkError('PROXY', `the proxy ${this.#proxy.shown} ${text}`)
    }
    if (status < 300) return answer
    if (status >= 400) {
      // A gateway may repeat the credentials that it refuses, and readiness shows what it says.
      const said = answer.body.toString('utf8', 0, REFUSAL_BYTES_MAX)
      return { ...answer, body: Buffer.from(this.#scrub.text(said)) }
    }
    const to = shownLocation(headers.location, this.#url)
    const text = `answers with a redirect (${status})${to === undefined ? '' : ` to ${to}`}`
    throw new LinkError('REDIRECTED', `${this.#where()} ${text}; set PLATFORM_URL to where it is`)
  }

  #where(): string {
    return `the platform ${routeText(this.#route)}`
  }

  #late(deadlineMs: number): LinkError {
    const text = `${this.#where()} gave no complete answer within ${Math.round(deadlineMs / 1000)} s`
    return new LinkError('TIMEOUT', text)
  }

  #tooLarge(bytesMax: number): LinkError {
    const text = `the answer of ${this.#where()} is larger than ${bytesMax} bytes`
    return new LinkError('TOO_LARGE', text)
  }
}

/** The other side had closed the connection while it was idle, which says nothing about the platform. */
function isStale(error: unknown): boolean {
  return ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(codeOf(error) ?? '')
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code
}

const UNPACKERS: Readonly<
  Record<string, (body: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>
> = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  br: promisify(brotliDecompress),
}

function aborted(): LinkError {
  return new LinkError('ABORTED', 'the call to the platform was aborted')
}

/** Where a redirect leads, without anything in it that could be a secret. */
function shownLocation(location: string | undefined, base: URL): string | undefined {
  const url = URL.parse(location ?? '', base.href)
  return location === undefined || url === null ? undefined : `${url.origin}${url.pathname}`
}
