// One HTTP request and its answer on an open TLS connection, over HTTP/2 (RFC 9113): the same parts and outcome as over
// HTTP/1.1.
import type { ClientHttp2Stream, IncomingHttpHeaders, IncomingHttpStatusHeader } from 'node:http2'
import { PassThrough } from 'node:stream'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import {
  Exchange,
  exchange,
  type ExchangeParts,
  headersTooLarge,
  type Outgoing,
} from './exchange.ts'
import { Http2Connection } from './http2-connection.ts'

/** Bytes that each header counts in addition to its own (RFC 9113, 6.5.2). */
const HEADER_OVERHEAD_BYTES = 32

/** Far more than our own limit allows: for more the library resets the stream, and does not say that it did so itself. */
const HEADERS_MAX = 16_384

/**
 * Sends the request over HTTP/2 and reads the answer into `answer`. Rejects with TargetFailure (HTTP2_…, HTTP_…,
 * CONNECTION_…, late TLS alerts, SETTINGS_INVALID), or the signal's reason. The socket is destroyed in any case.
 */
function exchangeHttp2(parts: ExchangeParts): Promise<void> {
  return new Promise((resolve, reject) => new Http2Exchange(parts, resolve, reject).start())
}

/** The exchange in the protocol that the server selected by ALPN; without one, HTTP/1.1. */
export const exchangeBy = (alpn: string | false | null | undefined): typeof exchange =>
  alpn === 'h2' ? exchangeHttp2 : exchange

class Http2Exchange extends Exchange {
  #connection: Http2Connection | undefined
  #streamError: Error | undefined
  /** Whether the body ended as it should; undefined before its end. */
  #isWhole: boolean | undefined

  protected send(): void {
    const { socket, outgoing, options } = this.parts
    const connection = new Http2Connection(socket, options.where, HEADERS_MAX)
    this.#connection = connection
    const { body = Buffer.alloc(0) } = outgoing
    const endStream = body.length === 0
    const stream = connection.session.request(headerList(outgoing), { endStream })
    stream.on('finish', () => this.sent())
    stream.on('response', (head, _, rawHeaders) => this.#onResponse(stream, head, rawHeaders))
    stream.on('error', (error) => (this.#streamError = error))
    // The reason why the connection ended is reported after its streams have ended.
    stream.on('close', () => setImmediate(() => this.#onClose(connection, stream)))
    if (!endStream) stream.end(body)
  }

  protected close(): void {
    this.#connection?.close()
    this.parts.socket.destroy()
  }

  #onResponse(
    stream: ClientHttp2Stream,
    head: IncomingHttpHeaders & IncomingHttpStatusHeader,
    rawHeaders: readonly string[],
  ): void {
    if (this.settled) return
    if (listBytes(rawHeaders) > LIMITS.headerBytesMax) {
      this.fail(headersTooLarge())
      return
    }
    // A stream that is reset, or whose connection breaks, ends as well.
    stream.on('end', () => {
      this.#isWhole = stream.rstCode === 0 && this.#connection?.session.destroyed === false
    })
    const { ':status': statusCode, ...headers } = head
    // The library drops what an answer has not been read of when the server closes the connection, so all is taken at once.
    const taken = stream.pipe(new PassThrough({ highWaterMark: LIMITS.bodyBytesMax }))
    // Without the status, which comes first.
    this.answered({ statusCode, httpVersion: '2', headers, rawHeaders: rawHeaders.slice(2) }, taken)
  }

  protected override bodyEnded(failed?: Failure): void {
    if (this.#isWhole !== false) super.bodyEnded(failed ?? this.#missingBytes())
  }

  /** The library compares the length of the body as well, but not that of a stream which NO_ERROR resets. */
  #missingBytes(): Failure | undefined {
    const { answer, outgoing, options } = this.parts
    const { response, body } = answer
    const { statusCode, headers } = response ?? {}
    const announced = Number(headers?.['content-length'] ?? 0)
    if (body.bytes >= announced || outgoing.method === 'HEAD' || statusCode === 304)
      return undefined
    return incomplete(`${options.where} sent ${body.bytes} bytes instead of ${announced}`)
  }

  #onClose(connection: Http2Connection, stream: ClientHttp2Stream): void {
    if (this.settled || this.#isWhole === true) return
    const failed = connection.failureOf(stream, this.#streamError)
    const isWithinBody = this.parts.answer.response !== undefined && CUT_OFF.has(failed.code)
    this.fail(isWithinBody ? incomplete(failed.message, failed.details) : failed)
  }
}

/** Codes for an answer that was cut off, rather than wrong. */
const CUT_OFF: ReadonlySet<string> = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_RESET',
  'HTTP2_GOAWAY',
  'HTTP2_STREAM_RESET',
])

function incomplete(why: string, details?: Record<string, unknown>): Failure {
  return failure('HTTP_BODY_INCOMPLETE', `the body is incomplete: ${why}`, details)
}

function listBytes(rawHeaders: readonly string[]): number {
  const overheadBytes = (rawHeaders.length / 2) * HEADER_OVERHEAD_BYTES
  return rawHeaders.reduce((sum, text) => sum + text.length, overheadBytes)
}

/** Headers that speak of a connection of HTTP/1.1 (RFC 9113, 8.2.2), and Host, which is `:authority`. */
const OF_HTTP1: ReadonlySet<string> = new Set([
  'connection',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
])

/** The request as headers, names and values in turn. */
function headerList({ method, path, headers }: Outgoing): string[] {
  const own: string[] = []
  let authority = ''
  for (let at = 0; at < headers.length; at += 2) {
    const name = (headers[at] as string).toLowerCase()
    const value = headers[at + 1] as string
    if (name === 'host') authority = value
    else if (!OF_HTTP1.has(name)) own.push(name, value)
  }
  const pseudo = [':method', method, ':authority', authority, ':scheme', 'https', ':path', path]
  return [...pseudo, ...own]
}
