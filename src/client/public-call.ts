// One call of the platform's public API, as commands make them: for an account, with its key, on a
// connection of its own.
import type { Readable } from 'node:stream'
import type { ApplyTarget } from './config.ts'
import { createPlatformLink } from '../agent/platform/link.ts'

/** A request. */
export interface PublicCall {
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH'
  /** With its query. */
  path: string
  /** As it is sent; a stream is read once. */
  body?: Buffer | Readable
  /** Length of a body that is a stream. */
  bytes?: number
  /** Of the body; application/json by default. */
  contentType?: string
  /** How `body` is packed. */
  coding?: 'gzip'
  /** From now to the last byte of the answer. */
  deadlineMs: number
  signal: AbortSignal
}

/** Its answer. */
export interface PublicAnswer {
  status: number
  /** The body; undefined when it is not JSON. */
  json: unknown
  /** The `message` of an error's body; empty where it has none. */
  said: string
}

const ANSWER_BYTES_MAX = 64 * 1024 * 1024

/** Sends one request. Rejects with LinkError when there is no usable answer. */
export async function callPublicApi(
  target: ApplyTarget,
  { body, coding, contentType = 'application/json', ...call }: PublicCall,
): Promise<PublicAnswer> {
  // Made for this call alone: on a reused connection a request may be sent twice, and a run must not be.
  const link = createPlatformLink(target)
  try {
    const answer = await link.request({
      ...call,
      headers: {
        'x-service-account': target.accountId,
        ...(body && { 'content-type': contentType }),
        ...(coding && { 'content-encoding': coding }),
      },
      ...(body && { body }),
      answerBytesMax: ANSWER_BYTES_MAX,
    })
    const json = jsonOf(answer.body.toString())
    const { message } = (json ?? {}) as { message?: unknown }
    return { status: answer.status, json, said: typeof message === 'string' ? message : '' }
  } finally {
    link.close()
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
