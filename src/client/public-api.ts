// Calls of a platform's public API, as commands make them: for an account, with its key, each on a connection of its
// own. Every failure is a PlatformError.
import type { Readable } from 'node:stream'
import type * as z from 'zod'
import { LinkError } from '../agent/platform/link-error.ts'
import { type LinkRequest, PlatformLink } from '../agent/platform/link.ts'
import { createScrubber } from '../agent/redaction/scrub.ts'
import { printable } from '../agent/run/result-text.ts'
import { jsonOf } from '../contract/exact-json.ts'
import { urlSecrets } from '../contract/definition-secrets.ts'
import { PlatformError } from './command.ts'
import type { ApplyTarget } from './config.ts'

export interface PublicCall extends Pick<LinkRequest, 'method' | 'path' | 'bytes'> {
  /** Sent as JSON; with `headers`, a Buffer or a stream that is sent as it is. */
  body?: object
  headers?: Record<string, string>
  /** From now to the last byte of the answer; 30 s by default. */
  deadlineMs?: number
  /** Without it, the call is not aborted. */
  signal?: AbortSignal
  /** The message when it is aborted. */
  ifAborted?: string
}

export interface PublicAnswer {
  status: number
  /** The body; undefined when it is not JSON. */
  json: unknown
}

const CALL_MS = 30_000
const ANSWER_BYTES_MAX = 64 * 1024 * 1024

/** Sends one request; any status is an answer. */
export async function callPublicApi(
  target: ApplyTarget,
  { method, path, body, bytes, headers, deadlineMs = CALL_MS, signal, ifAborted }: PublicCall,
): Promise<PublicAnswer> {
  // Made for this call alone: on a reused connection a request may be sent twice, and a run must not be.
  const link = new PlatformLink(target)
  const isJson = body !== undefined && headers === undefined
  try {
    const answer = await link.request({
      method,
      path,
      headers: {
        'x-service-account': target.accountId,
        ...(isJson ? { 'content-type': 'application/json' } : headers),
      },
      ...(body && { body: isJson ? Buffer.from(JSON.stringify(body)) : (body as Readable) }),
      ...(bytes !== undefined && { bytes }),
      answerBytesMax: ANSWER_BYTES_MAX,
      deadlineMs,
      signal: signal ?? new AbortController().signal,
    })
    return { status: answer.status, json: jsonOf(answer.body.toString()) }
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    const message = error.code === 'ABORTED' ? (ifAborted ?? error.message) : error.message
    throw errorOf(target, 'unreachable', message)
  } finally {
    link.close()
  }
}

/** Sends one request and reads its answer by the schema. */
export async function askPublicApi<T extends z.ZodType>(
  target: ApplyTarget,
  call: PublicCall,
  schema: T,
): Promise<z.output<T>> {
  const answer = await callPublicApi(target, call)
  const isGood = answer.status >= 200 && answer.status < 300
  const parsed = isGood ? schema.safeParse(answer.json) : undefined
  if (parsed?.success === true) return parsed.data
  throw refusal(target, call.path, answer)
}

/** Whether a request that got this status may work later. */
export function isBusy(status: number): boolean {
  return status >= 500 || status === 429 || status === 408
}

const FIXES: Readonly<Record<number, string>> = {
  401: 'check VEDETTE_API_KEY and ACCOUNT_ID',
  403: 'use a key whose role allows it',
}

/** The error for an unexpected answer to a request of `path`. */
export function refusal(
  target: ApplyTarget,
  path: string,
  { status, json }: PublicAnswer,
): PlatformError {
  if (status < 300) {
    const message = `the server at ${target.platformUrl} is not a Vedette platform`
    return errorOf(target, 'unreachable', message)
  }
  const { message } = (json ?? {}) as { message?: unknown }
  const where = status === 404 ? `${status} for ${path}` : `${status}`
  const said =
    typeof message === 'string' ? `${message} (${where})` : `the platform answered ${where}`
  const fix = (status === 401 ? target.keyFix : undefined) ?? FIXES[status]
  const whole = fix === undefined ? said : `${said}; ${fix}`
  return errorOf(target, isBusy(status) ? 'unreachable' : 'refused', whole)
}

/** Scrubs key and password: a server or a proxy may repeat them. */
function errorOf(
  { apiKey, proxyUrl }: ApplyTarget,
  code: PlatformError['code'],
  message: string,
): PlatformError {
  const scrubber = createScrubber({ secrets: [apiKey, ...urlSecrets(proxyUrl ?? '')] })
  return new PlatformError(code, printable(scrubber.text(message)))
}
