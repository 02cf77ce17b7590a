// Fetches OCSP responses and revocation lists over plain HTTP. Their addresses come from certificates, so they go
// through the dialler and its policy like all others.
import { DeadlineReached, withDeadline } from '../deadline.ts'
import { placeOf } from '../connect-errors.ts'
import type { Connection, Dialler, Family, Progress } from '../dial.ts'
import { emptyBody, releaseBody } from './body.ts'
import { type Answer, exchange } from './exchange.ts'
import { type HttpTarget, outgoingOf, targetFor } from './target.ts'
import { TargetFailure, targetFailure } from '../target-failure.ts'

export interface Fetch {
  url: string
  /** Sent by POST, with this type of content; a GET without. */
  body?: { bytes: Buffer; type: string }
  bytesMax: number
  timeoutMs: number
  /** The family to try first. */
  family: Family
}

const REDIRECTS_MAX = 3

/**
 * The body of the answer. Rejects with TargetFailure (the codes of a URL check, HTTP_STATUS unless 200,
 * HTTP_BODY_TOO_LARGE, TIMEOUT_DOWNLOAD), or with the signal's reason.
 */
export async function plainFetch(
  wanted: Fetch,
  dial: Dialler,
  signal: AbortSignal,
): Promise<Buffer> {
  signal.throwIfAborted()
  const { timeoutMs } = wanted
  try {
    return await withDeadline(signal, timeoutMs, (limit) => follow(wanted, dial, limit))
  } catch (error) {
    if (!(error instanceof DeadlineReached) || error === signal.reason) throw error
    throw targetFailure('TIMEOUT_DOWNLOAD', `no answer within ${timeoutMs} ms`, { timeoutMs })
  }
}

async function follow(wanted: Fetch, dial: Dialler, signal: AbortSignal): Promise<Buffer> {
  let url = urlOf(wanted.url)
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
    const answer = await ask(url, wanted, dial, signal)
    if (typeof answer !== 'string') return answer
    url = urlOf(answer, url)
  }
  throw targetFailure('HTTP_REDIRECT_LIMIT', `more than ${REDIRECTS_MAX} redirects`)
}

function urlOf(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href)
  if (url?.protocol === 'http:') return url
  throw targetFailure('HTTP_REDIRECT_INVALID', 'not an http:// address')
}

/** The body, or the location of a redirect. */
async function ask(
  url: URL,
  { body, bytesMax, family }: Fetch,
  dial: Dialler,
  signal: AbortSignal,
): Promise<Buffer | string> {
  const headers = body === undefined ? [] : ['Content-Type', body.type]
  const target = targetFor(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: [...headers, 'Accept-Encoding', 'identity', 'Connection', 'close'],
    body: body?.bytes,
  })
  const progress: Progress = { phase: 'dns' }
  const connection = await reach(target, family, dial, progress, signal)
  const answer: Answer = { body: emptyBody() }
  try {
    await exchange({
      socket: connection.socket,
      outgoing: outgoingOf(target, connection.forward),
      answer,
      options: {
        where: placeOf(target.host, target.port),
        bufferBytes: bytesMax + 1,
        isEnough: ({ statusCode, headers: sent }) =>
          statusCode !== 200 || Number(sent['content-length'] ?? 0) > bytesMax,
      },
      progress,
      signal,
    })
    return contentOf(answer, bytesMax)
  } finally {
    releaseBody(answer.body)
  }
}

async function reach(
  { host, port }: HttpTarget,
  family: Family,
  dial: Dialler,
  progress: Progress,
  signal: AbortSignal,
): Promise<Connection> {
  const endpoint = { host, port, family, forward: true }
  try {
    return await dial.connect(endpoint, progress, signal)
  } catch (error) {
    const isWithoutAddress =
      error instanceof TargetFailure && error.failure.code === 'DNS_NO_ADDRESS'
    if (!isWithoutAddress) throw error
    const other = family === 'IPv4' ? 'IPv6' : 'IPv4'
    return dial.connect({ ...endpoint, family: other }, progress, signal)
  }
}

function contentOf({ response, body }: Answer, bytesMax: number): Buffer | string {
  const status = response?.statusCode ?? 0
  const location = response?.headers.location
  if (status >= 300 && status < 400 && location !== undefined) return location
  if (status !== 200) throw targetFailure('HTTP_STATUS', `it answers with status ${status}`)
  const announced = Number(response?.headers['content-length'] ?? 0)
  if (body.bufferedBytes > bytesMax || announced > bytesMax) {
    throw targetFailure('HTTP_BODY_TOO_LARGE', `more than ${bytesMax} bytes`, { bytesMax })
  }
  return Buffer.concat(body.chunks)
}
