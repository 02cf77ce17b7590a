// The call that applies a file, and the meaning of its answers.
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { APPLY_BOUNDS, ApplyAnswer, type ApplyRequest } from '../contract/api/apply.ts'
import type { ApplyTarget } from './config.ts'
import { LinkError } from '../agent/platform/link-error.ts'
import { callPublicApi, type PublicAnswer } from './public-call.ts'

/** Why there is no answer, in a sentence for people. */
export class ApplyError extends Error {
  /** `refused`: a retry of the same request cannot work. */
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
  try {
    const call = { method: 'POST', path: '/v1/apply', body, coding: 'gzip' } as const
    return read(await callPublicApi(target, { ...call, deadlineMs, signal }), target)
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    const isStopped = error.code === 'ABORTED'
    throw new ApplyError(
      'unreachable',
      isStopped ? 'interrupted; it may be applied' : error.message,
    )
  }
}

function read(answer: PublicAnswer, target: ApplyTarget): ApplyAnswer {
  const { status, json } = answer
  const parsed = status === 200 ? ApplyAnswer.safeParse(json) : undefined
  if (parsed?.success === true) return parsed.data
  throw refusal(answer, target, '/v1/apply')
}

/** The error for an unexpected answer. `path` is the path of the request. */
export function refusal(
  { status, said }: Pick<PublicAnswer, 'status' | 'said'>,
  { platformUrl: where }: ApplyTarget,
  path: string,
): ApplyError {
  // Answers to HEAD have no message.
  const text = said === '' ? '' : ` (${said})`
  switch (status) {
    case 200:
      return new ApplyError('unreachable', `${where} answers, but not as a platform does`)
    case 401:
      return new ApplyError(
        'refused',
        `the platform refuses the key or the account${text}; check VEDETTE_API_KEY and ACCOUNT_ID`,
      )
    case 403:
      return new ApplyError('refused', `the key may not do that${text}; use one that may write`)
    case 404:
      return new ApplyError(
        'refused',
        `${where} knows no ${path}; is it a platform, and not older?`,
      )
    default: {
      const code = status >= 400 && status < 500 && status !== 408 && status !== 429
      const sentence = said === '' ? `the platform answered ${status}` : `${said} (${status})`
      return new ApplyError(code ? 'refused' : 'unreachable', sentence)
    }
  }
}
