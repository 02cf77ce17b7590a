// Posts one webhook: a bounded request to an address that is allowed, whose answer is its status alone. The
// body of an answer is never read, so that a webhook gives no access to hosts that its owner cannot reach.
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { ALERT_BOUNDS } from './channel-schema.ts'
import { BlockedAddressError, isBlockedAddress, lookupAllowed } from './webhook-address.ts'

export interface WebhookPost {
  url: URL
  method: string
  headers: Record<string, string>
  body: string
}

/** What came of it: an answer, or why there was none. */
export type WebhookAnswer = { status: number; retryAfter: string | undefined } | { problem: string }

/**
 * Posts it within `answerMs`, redirects counted in. Redirects that keep the method (307, 308) are followed within
 * the same origin. Never rejects.
 */
export async function postWebhook(
  post: WebhookPost,
  signal: AbortSignal,
  answerMs: number = ALERT_BOUNDS.answerMs,
): Promise<WebhookAnswer> {
  const deadline = AbortSignal.timeout(answerMs)
  const either = AbortSignal.any([signal, deadline])
  let { url } = post
  try {
    for (let redirects = 0; ; redirects++) {
      const { status, headers } = await exchange({ ...post, url }, either)
      const retryAfter = headers['retry-after']
      if (status !== 307 && status !== 308) return { status, retryAfter }
      const target = URL.parse(headers.location ?? '', url.href)
      if (target === null || target.origin !== url.origin) {
        return { problem: 'redirect to another origin, which is not followed' }
      }
      if (redirects >= ALERT_BOUNDS.redirectsMax) return { problem: 'too many redirects' }
      url = target
    }
  } catch (error) {
    return { problem: deadline.aborted ? 'no answer in time' : textOf(error) }
  }
}

function exchange(
  { url, method, headers, body }: WebhookPost,
  signal: AbortSignal,
): Promise<{ status: number; headers: IncomingMessage['headers'] }> {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0 && isBlockedAddress(host)) {
    return Promise.reject(new BlockedAddressError(host))
  }
  const hasBody = method !== 'GET' && method !== 'HEAD'
  const length = hasBody ? { 'content-length': String(Buffer.byteLength(body)) } : {}
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    const request = send(url, {
      method,
      headers: { ...headers, ...length },
      agent: false,
      lookup: lookupAllowed,
      maxHeaderSize: ALERT_BOUNDS.answerHeadBytesMax,
      signal,
    })
    request.once('response', (response) => {
      resolve({ status: response.statusCode ?? 0, headers: response.headers })
      response.on('error', () => undefined)
      request.destroy()
    })
    // Errors that come after the answer, such as that of destroy(), have no receiver.
    request.on('error', reject)
    request.end(hasBody ? body : undefined)
  })
}

/** Our messages for error codes of Node: messages of TLS and parsers may quote the request. */
function textOf(error: unknown): string {
  if (error instanceof BlockedAddressError) return error.message
  const { code } = error as { code?: unknown }
  if (typeof code !== 'string') return 'the request failed'
  return code.startsWith('HPE_') ? `the answer is not valid HTTP (${code})` : `failed with ${code}`
}
