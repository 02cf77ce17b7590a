// DNS query over HTTPS (RFC 8484): one POST on an established TLS connection, over HTTP/2 if the server
// supports it, else HTTP/1.1.
import type { DnsCode } from './definition.ts'
import {
  connect,
  constants,
  type ClientHttp2Session,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
} from 'node:http2'
import type { TLSSocket } from 'node:tls'
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
  status: number
  contentType: string
  /** At most one byte more than the largest message. */
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
  const { status, contentType, body } = await ask(order, progress, signal)
  const { where } = order
  if (status !== 200) {
    const message = `${where} answered the query with status ${status} instead of 200`
    throw targetFailure<DnsCode>('DNS_HTTP', message, { where, statusCode: status })
  }
  if (contentType.split(';')[0]?.trim().toLowerCase() !== MEDIA_TYPE) {
    const shown = contentType.slice(0, 100)
    const message = `${where} answered with ${shown || 'no type'} instead of ${MEDIA_TYPE}`
    throw targetFailure<DnsCode>('DNS_HTTP', message, { where, contentType: shown })
  }
  if (body.length > MESSAGE_BYTES_MAX) {
    const message = `${where} answered with more than ${MESSAGE_BYTES_MAX} bytes`
    throw targetFailure<DnsCode>('DNS_HTTP', message, { where })
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
    return {
      status: response?.statusCode ?? 0,
      contentType: response?.headers['content-type'] ?? '',
      body: Buffer.concat(body.chunks),
    }
  } finally {
    releaseBody(answer.body)
  }
}

function askByHttp2(
  order: HttpsOrder,
  progress: Progress,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const { socket, where, authority } = order
    if (signal.aborted) {
      socket.destroy()
      reject(signal.reason as Error)
      return
    }
    const session = connect(`https://${authority}`, {
      createConnection: () => socket,
      settings: { enablePush: false },
      maxHeaderListPairs: 64,
    })
    const settle = (error: unknown, answer?: HttpAnswer) => {
      signal.removeEventListener('abort', onAbort)
      session.destroy()
      socket.destroy()
      if (answer === undefined) reject(error)
      else resolve(answer)
    }
    const onAbort = () => settle(signal.reason)
    signal.addEventListener('abort', onAbort)
    session.on('error', (error: NodeJS.ErrnoException) => settle(http2Failure(error, where)))
    session.on('close', () => {
      settle(targetFailure('CONNECTION_CLOSED', `${where} closed the connection`, { where }))
    })
    exchangeByHttp2(session, order, progress, settle)
  })
}

function exchangeByHttp2(
  session: ClientHttp2Session,
  { authority, path, query, where }: HttpsOrder,
  progress: Progress,
  settle: (error: unknown, answer?: HttpAnswer) => void,
): void {
  const stream = session.request({
    [constants.HTTP2_HEADER_METHOD]: 'POST',
    [constants.HTTP2_HEADER_SCHEME]: 'https',
    [constants.HTTP2_HEADER_AUTHORITY]: authority,
    [constants.HTTP2_HEADER_PATH]: path,
    accept: MEDIA_TYPE,
    'content-type': MEDIA_TYPE,
    'content-length': String(query.length),
  })
  let head: (IncomingHttpHeaders & IncomingHttpStatusHeader) | undefined
  const chunks: Buffer[] = []
  let bytes = 0
  const finish = () => {
    if (head === undefined) {
      settle(targetFailure('CONNECTION_CLOSED', `${where} gave no answer`, { where }))
      return
    }
    const body = Buffer.concat(chunks).subarray(0, MESSAGE_BYTES_MAX + 1)
    settle(undefined, {
      status: head[':status'] ?? 0,
      contentType: head['content-type'] ?? '',
      body,
    })
  }
  stream.on('response', (headers) => (head = headers))
  stream.on('data', (chunk: Buffer) => {
    progress.phase = 'download'
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > MESSAGE_BYTES_MAX) finish()
  })
  stream.on('end', finish)
  stream.on('error', (error: NodeJS.ErrnoException) => settle(http2Failure(error, where)))
  stream.end(query)
}

/** Errors of HTTP/2 itself (a reset stream, a broken frame), and those of the connection under it. */
function http2Failure(error: NodeJS.ErrnoException, where: string): TargetFailure {
  if (error.code?.startsWith('ERR_HTTP2_') !== true) {
    return new TargetFailure(connectionFailure(error, where))
  }
  const message = `${where} broke off the exchange by HTTP/2: ${error.message}`
  return targetFailure<DnsCode>('DNS_HTTP', message, { where, reason: error.code })
}
