// The calls of `vedette apply` for code bundles: finds the missing ones, and uploads them.
import { createReadStream } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FileBundle } from './apply-bundles.ts'
import { ApplyError, refusal } from './apply-call.ts'
import type { ApplyTarget } from './config.ts'
import { LinkError } from '../agent/platform/link-error.ts'
import { callPublicApi, type PublicAnswer, type PublicCall } from './public-call.ts'

const PATH = '/v1/code-bundles'
const ASK_MS = 30_000
const TRIES_MAX = 3
const AGAIN_MS = 1_000
/** The slowest connection that works. */
const BYTES_PER_MS_MIN = 64
const UPLOAD_MS_MIN = 60_000

/** Those of the bundles that the account does not have. Throws ApplyError. */
export async function missingBundles(
  target: ApplyTarget,
  bundles: readonly FileBundle[],
  signal: AbortSignal,
): Promise<FileBundle[]> {
  const missing: FileBundle[] = []
  for (const one of bundles) {
    const path = `${PATH}/${one.sha256}`
    const answer = await call(target, signal, () => ({ method: 'HEAD', path, deadlineMs: ASK_MS }))
    if (answer.status === 404) missing.push(one)
    else if (answer.status !== 200) throw refusal(answer, target, PATH)
  }
  return missing
}

/** Uploads a bundle. Throws ApplyError. */
export async function bringBundle(
  target: ApplyTarget,
  { sha256, path: file, bytes }: FileBundle,
  signal: AbortSignal,
): Promise<void> {
  const answer = await call(target, signal, () => ({
    method: 'PUT',
    path: `${PATH}/${sha256}`,
    body: createReadStream(file),
    bytes,
    contentType: 'application/gzip',
    deadlineMs: Math.max(UPLOAD_MS_MIN, bytes / BYTES_PER_MS_MIN),
  }))
  if (answer.status !== 200) throw refusal(answer, target, PATH)
}

/** Calls with retries: the upload of a bundle is idempotent. */
async function call(
  target: ApplyTarget,
  signal: AbortSignal,
  ask: () => Omit<PublicCall, 'signal'>,
): Promise<PublicAnswer> {
  for (let tries = 1; ; tries++) {
    try {
      const answer = await callPublicApi(target, { ...ask(), signal })
      const isBusy = answer.status >= 500 || answer.status === 429 || answer.status === 408
      if (!isBusy || tries === TRIES_MAX) return answer
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      if (error.code === 'ABORTED') {
        throw new ApplyError('unreachable', 'interrupted; nothing was applied')
      }
      if (tries === TRIES_MAX) throw new ApplyError('unreachable', error.message)
    }
    await sleep(AGAIN_MS * tries, undefined, { signal }).catch(() => undefined)
  }
}
