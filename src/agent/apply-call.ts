// The one call with which a file is applied: the platform's public API, through a proxy where one is set.
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { APPLY_BOUNDS, ApplyAnswer, type ApplyRequest } from '../contract/apply.ts'
import { VERSION } from '../contract/versions.ts'
import type { ApplyTarget } from './apply-config.ts'

const ANSWER_BYTES_MAX = 64 * 1024 * 1024

/** Why there is no answer, in a sentence for people. */
export class ApplyError extends Error {
  /** `refused`: sending the same again is no use. */
  readonly code: 'refused' | 'unreachable'

  constructor(code: 'refused' | 'unreachable', message: string) {
    super(message)
    this.name = 'ApplyError'
    this.code = code
  }
}

/** Sends the request; throws ApplyError for every answer but a good one, and when none comes in time. */
export async function callApply(
  target: ApplyTarget,
  request: ApplyRequest,
  { signal, deadlineMs }: { signal: AbortSignal; deadlineMs: number },
): Promise<ApplyAnswer> {
  const plain = Buffer.from(JSON.stringify(request))
  if (plain.byteLength > APPLY_BOUNDS.bodyBytesMax) {
    const message = `the file is too large to be applied at once: ${plain.byteLength} bytes as JSON, at most ${APPLY_BOUNDS.bodyBytesMax}; divide it`
    throw new ApplyError('refused', message)
  }
  const body = await promisify(gzip)(plain)
  const deadline = AbortSignal.timeout(deadlineMs)
  const either = AbortSignal.any([signal, deadline])
  let answer: Answer
  try {
    answer = await send(target, body, either)
  } catch (error) {
    if (signal.aborted) throw new ApplyError('unreachable', 'interrupted; what was sent may hold')
    const why = deadline.aborted ? `no answer within ${deadlineMs / 1000} s` : reasonOf(error)
    throw new ApplyError('unreachable', `${target.platformUrl}: ${why}`)
  }
  return read(answer, target)
}

interface Answer {
  status: number
  text: string
}

function send(target: ApplyTarget, body: Buffer, signal: AbortSignal): Promise<Answer> {
  const url = new URL(`${target.platformUrl.replace(/\/+$/, '')}/v1/apply`)
  const isSecure = url.protocol === 'https:'
  const proxyEnv = proxyEnvOf(target)
  const agent = isSecure ? new HttpsAgent({ proxyEnv }) : new HttpAgent({ proxyEnv })
  const headers = {
    Authorization: `Bearer ${target.apiKey}`,
    'X-Service-Account': target.accountId,
    'Content-Type': 'application/json',
    'Content-Encoding': 'gzip',
    'Content-Length': body.byteLength,
    'User-Agent': `vedette/${VERSION}`,
    Accept: 'application/json',
  }
  return new Promise<Answer>((resolve, reject) => {
    const call = isSecure ? httpsRequest : httpRequest
    const outgoing = call(url, { method: 'POST', headers, agent, signal }, (incoming) => {
      readAnswer(incoming).then(resolve, reject)
    })
    // After an answer that came early, the rest of the body has nobody to read it.
    outgoing.on('error', reject)
    outgoing.end(body)
  }).finally(() => agent.destroy())
}

/** In the words of Node's own reading of the environment. */
function proxyEnvOf({ proxyUrl, noProxy }: ApplyTarget): Record<string, string> {
  if (proxyUrl === undefined) return {}
  return { HTTP_PROXY: proxyUrl, HTTPS_PROXY: proxyUrl, NO_PROXY: noProxy.join(',') }
}

async function readAnswer(incoming: IncomingMessage): Promise<Answer> {
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

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  const first = error instanceof AggregateError ? (error.errors[0] as Error).message : message
  return code === 'ECONNREFUSED' ? 'nothing listens there; is the platform running?' : first
}

function read({ status, text }: Answer, target: ApplyTarget): ApplyAnswer {
  const json = jsonOf(text)
  const parsed = status === 200 ? ApplyAnswer.safeParse(json) : undefined
  if (parsed?.success === true) return parsed.data
  const { message } = (json ?? {}) as { message?: unknown }
  const said = typeof message === 'string' ? message : ''
  const where = target.platformUrl
  switch (status) {
    case 200:
      throw new ApplyError('unreachable', `${where} answers, but not as a platform does`)
    case 401:
      throw new ApplyError(
        'refused',
        `the platform refuses the key or the account (${said}); check VEDETTE_API_KEY and ACCOUNT_ID`,
      )
    case 403:
      throw new ApplyError('refused', `the key may not do that (${said}); use one that may write`)
    case 404:
      throw new ApplyError(
        'refused',
        `${where} knows no /v1/apply; is it a platform, and not older?`,
      )
    default: {
      const code = status >= 400 && status < 500 && status !== 408 && status !== 429
      const sentence = said === '' ? `the platform answered ${status}` : `${said} (${status})`
      throw new ApplyError(code ? 'refused' : 'unreachable', sentence)
    }
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
