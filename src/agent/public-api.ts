// The platform's public API as commands call it, through a proxy where one is set.
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { VERSION } from '../contract/versions.ts'

const ANSWER_BYTES_MAX = 64 * 1024 * 1024

/** Which platform, which account, with which key. */
export interface PublicApiTarget {
  platformUrl: string
  accountId: string
  apiKey: string
  proxyUrl: string | undefined
  noProxy: readonly string[]
}

/** What is asked of it. */
export interface PublicApiCall {
  method: 'GET' | 'POST'
  /** With its query. */
  path: string
  /** JSON, as it is sent. */
  body?: Buffer
  /** How `body` is packed. */
  coding?: 'gzip'
  signal: AbortSignal
}

/** An answer, read to its end. */
export interface PublicApiAnswer {
  status: number
  text: string
}

/** Sends one request. Rejects with what node:http has to say when there is no answer. */
export function callPublicApi(
  target: PublicApiTarget,
  { method, path, body, coding, signal }: PublicApiCall,
): Promise<PublicApiAnswer> {
  const url = new URL(`${target.platformUrl.replace(/\/+$/, '')}${path}`)
  const isSecure = url.protocol === 'https:'
  const proxyEnv = proxyEnvOf(target)
  const agent = isSecure ? new HttpsAgent({ proxyEnv }) : new HttpAgent({ proxyEnv })
  const headers = {
    Authorization: `Bearer ${target.apiKey}`,
    'X-Service-Account': target.accountId,
    ...(body && { 'Content-Type': 'application/json', 'Content-Length': body.byteLength }),
    ...(coding && { 'Content-Encoding': coding }),
    'User-Agent': `vedette/${VERSION}`,
    Accept: 'application/json',
  }
  return new Promise<PublicApiAnswer>((resolve, reject) => {
    const call = isSecure ? httpsRequest : httpRequest
    const outgoing = call(url, { method, headers, agent, signal }, (incoming) => {
      readAnswer(incoming).then(resolve, reject)
    })
    // After an answer that came early, the rest of the body has nobody to read it.
    outgoing.on('error', reject)
    outgoing.end(body)
  }).finally(() => agent.destroy())
}

/** In the words of Node's own reading of the environment. */
function proxyEnvOf({ proxyUrl, noProxy }: PublicApiTarget): Record<string, string> {
  if (proxyUrl === undefined) return {}
  return { HTTP_PROXY: proxyUrl, HTTPS_PROXY: proxyUrl, NO_PROXY: noProxy.join(',') }
}

async function readAnswer(incoming: IncomingMessage): Promise<PublicApiAnswer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength
    if (bytes > ANSWER_BYTES_MAX)
      throw new Error(`the answer has more than ${ANSWER_BYTES_MAX} bytes`)
    chunks.push(chunk)
  }
  return { status: incoming.statusCode ?? 0, text: Buffer.concat(chunks).toString() }
}

/** Why no answer came, in words for people. */
export function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  const first = error instanceof AggregateError ? (error.errors[0] as Error).message : message
  return code === 'ECONNREFUSED' ? 'nothing listens there; is the platform running?' : first
}

/** The `message` of an error's body; empty where it has none. */
export function messageOf(text: string): string {
  try {
    const { message } = (JSON.parse(text) ?? {}) as { message?: unknown }
    return typeof message === 'string' ? message : ''
  } catch {
    return ''
  }
}
