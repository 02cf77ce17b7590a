// DNS query over HTTPS (RFC 8484): one POST on an established TLS connection, over HTTP/2 if the server
// supports it, else HTTP/1.1.
import type { DnsCode } from './definition.ts'
import { connect, type IncomingHttpHeaders, type IncomingHttpStatusHeader } from 'node:http2'
import type { TLSSocket } from 'node:tls'
import { excerpt } from '../../contract/failure.ts'
import { connectionFailure } from '../../network/connect-errors.ts'
import type { Progress } from '../../network/dial.ts'
import { emptyBody, releaseBody } from '../../network/http/body.ts'
import { exchange, type Answer } from '../../network/http/exchange.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'

/** Application protocols to offer in the handshake. */
export const DOH_ALPN = ['h2', 'http/1.1']

/** The largest message of DNS. */
const MESSAGE_BYTES_MAX = 65_535
const MEDIA_TYPE = 'application/dns-message'

/** Query and server. */
export interface HttpsOrder {
  socket: TLSSocket
  /** The peer, for messages. */
  where: string
  /** Host and port of the request. */
  authority: string
  path: string
  /** With id 0, so that equal queries share a cache entry (RFC 8484, 4.1). */
  query: Buffer
}

interface HttpAnswer {
  status: number | undefined
  contentType: string | undefined
  /** More than the largest message where the body is larger. */
  body: Buffer
}

/**
 * Sends the query and resolves with the received message. Rejects with TargetFailure (DNS_HTTP, HTTP_…,
 * CONNECTION_…), or the signal's reason. The socket is destroyed in any case.
 */
export async function askOverHttps(
  order: HttpsOrder,
  progress: Progress,
  signal: AbortSignal,
): Promise<Buffer> {
  progress.phase = 'firstByte'
  const ask = order.socket.alpnProtocol === 'h2' ? askByHttp2 : askByHttp1
  const { status, contentType = '', body } = await ask(order, progress, signal)
  const { where } = order
  const refuse = (what: string, details: object) =>
    targetFailure<DnsCode>('DNS_HTTP', `${where} answered ${what}`, { where, ...details })
  if (status !== 200) {
    throw refuse(`the query with status ${status} instead of 200`, { statusCode: status })
  }
  if (contentType.split(';')[0]?.trim().toLowerCase() !== MEDIA_TYPE) {
    const shown = excerpt(contentType, 100)
    throw refuse(`with ${shown || 'no type'} instead of ${MEDIA_TYPE}`, { contentType: shown })
  }
  if (body.length > MESSAGE_BYTES_MAX) {
    throw refuse(`with more than ${MESSAGE_BYTES_MAX} bytes`, {})
  }
  return body
}

async function askByHttp1(
  { socket, where, authority, path, query }: HttpsOrder,
  progress: Progress,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const headers = ['Host', authority, 'Accept', MEDIA_TYPE, 'Content-Type', MEDIA_TYPE]
  headers.push('Content-Length', String(query.length), 'Connection', 'close')
  const answer: Answer = { body: emptyBody() }
  try {
    await exchange({
      socket,
      outgoing: { method: 'POST', path, headers, body: query },
      answer,
      options: { where, bufferBytes: MESSAGE_BYTES_MAX + 1, isEnough: () => false },
      progress,
      signal,
    })
    const { response, body } = answer
    const contentType = response?.headers['content-type']
    return { status: response?.statusCode, contentType, body: Buffer.concat(body.chunks) }
  } finally {
    releaseBody(answer.body)
  }
}

async function askByHttp2(
  { socket, where, authority, path, query }: HttpsOrder,
  progress: Progress,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const session = connect(`https://${authority}`, {
    createConnection: () => socket,
    settings: { enablePush: false },
    maxHeaderListPairs: 64,
  })
  // The stream fails with the same error.
  session.on('error', () => undefined)
  const heads: (IncomingHttpHeaders & IncomingHttpStatusHeader)[] = []
  let body = Buffer.alloc(0)
  try {
    const stream = session.request(
      {
        ':method': 'POST',
        ':path': path,
        accept: MEDIA_TYPE,
        'content-type': MEDIA_TYPE,
        'content-length': String(query.length),
      },
      { signal },
    )
    stream.on('response', (headers) => heads.push(headers))
    stream.end(query)
    for await (const chunk of stream) {
      progress.phase = 'download'
      body = Buffer.concat([body, chunk as Buffer])
      if (body.length > MESSAGE_BYTES_MAX) break
    }
  } catch (error) {
    signal.throwIfAborted()
    throw http2Failure(error as NodeJS.ErrnoException, where)
  } finally {
    session.destroy()
    socket.destroy()
  }
  const [head] = heads
  if (head === undefined) {
    throw targetFailure('CONNECTION_CLOSED', `${where} gave no answer`, { where })
  }
  return { status: head[':status'], contentType: head['content-type'], body }
}

/** Errors of HTTP/2 itself (a reset stream, a broken frame), and those of the connection under it. */
function http2Failure(error: NodeJS.ErrnoException, where: string): TargetFailure {
  if (error.code?.startsWith('ERR_HTTP2_') !== true) {
    return new TargetFailure(connectionFailure(error, where))
  }
  const message = `${where} broke off the exchange by HTTP/2: ${error.message}`
  return targetFailure<DnsCode>('DNS_HTTP', message, { where, reason: error.code })
}
