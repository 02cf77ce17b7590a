// DNS query over HTTPS (RFC 8484): one POST on an established TLS connection, over HTTP/2 if the server
// supports it, else HTTP/1.1.
import type { DnsCode } from './definition.ts'
import type { TLSSocket } from 'node:tls'
import { excerpt } from '../../contract/failure.ts'
import type { Progress } from '../../network/dial.ts'
import { emptyBody, releaseBody } from '../../network/http/body.ts'
import type { Answer } from '../../network/http/exchange.ts'
import { exchangeBy } from '../../network/http/http2-exchange.ts'
import { targetFailure } from '../../network/target-failure.ts'

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

/**
 * Sends the query and resolves with the received message. Rejects with TargetFailure (DNS_HTTP, HTTP_…, HTTP2_…,
 * CONNECTION_…), or the signal's reason. The socket is destroyed in any case.
 */
export async function askOverHttps(
  { socket, where, authority, path, query }: HttpsOrder,
  progress: Progress,
  signal: AbortSignal,
): Promise<Buffer> {
  progress.phase = 'firstByte'
  const headers = ['Host', authority, 'Accept', MEDIA_TYPE, 'Content-Type', MEDIA_TYPE]
  headers.push('Content-Length', String(query.length), 'Connection', 'close')
  const answer: Answer = { body: emptyBody() }
  try {
    await exchangeBy(socket.alpnProtocol)({
      socket,
      outgoing: { method: 'POST', path, headers, body: query },
      answer,
      options: { where, bufferBytes: MESSAGE_BYTES_MAX + 1, isEnough: () => false },
      progress,
      signal,
    })
    return messageOf(answer, where)
  } finally {
    releaseBody(answer.body)
  }
}

function messageOf({ response, body }: Answer, where: string): Buffer {
  const refuse = (what: string, details: object) =>
    targetFailure<DnsCode>('DNS_HTTP', `${where} answered ${what}`, { where, ...details })
  const { statusCode, headers } = response ?? {}
  if (statusCode !== 200) {
    throw refuse(`the query with status ${statusCode} instead of 200`, { statusCode })
  }
  const contentType = headers?.['content-type'] ?? ''
  if (contentType.split(';')[0]?.trim().toLowerCase() !== MEDIA_TYPE) {
    const shown = excerpt(contentType, 100)
    throw refuse(`with ${shown || 'no type'} instead of ${MEDIA_TYPE}`, { contentType: shown })
  }
  const message = Buffer.concat(body.chunks)
  if (message.length > MESSAGE_BYTES_MAX) {
    throw refuse(`with more than ${MESSAGE_BYTES_MAX} bytes`, {})
  }
  return message
}
