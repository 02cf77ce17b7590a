// Sends files of results, one at a time, each after its result, by the same table as results.
import { Readable } from 'node:stream'
import type { LogRepeated } from '../../process/repeated-log.ts'
import { Backoff } from '../platform/backoff.ts'
import { Condition } from '../platform/condition.ts'
import type { ArtifactSpool, WaitingArtifact } from './artifact-spool.ts'
import { count, type DeliveryTally } from './metrics.ts'
import { outcomeOf, outcomeOfError, type Outcome } from './outcome.ts'
import type { DeliveryLink } from './result-sender.ts'

export interface ArtifactUploadOptions {
  spool: ArtifactSpool
  link: DeliveryLink
  tally: DeliveryTally
  /** Warns of what the platform refuses. */
  warn: LogRepeated
  /** When the oldest undelivered result came; files of later results wait. */
  oldestResultAt: () => number
  signal: AbortSignal
}

/** Running uploads. */
export interface ArtifactUpload {
  /** A file may be ready to send. */
  notify(): void
  /** Settles when the uploads have ended. */
  ended: Promise<void>
}

/** The slowest connection that works: 150 MiB at 64 KiB/s take 40 minutes. */
const BYTES_PER_MS_MIN = 64
const UPLOAD_MS_MIN = 60_000
/** Attempts for a result that the platform does not know. */
const UNKNOWN_MAX = 3
/** Older files are dropped. */
const AGE_MS_MAX = 7 * 24 * 3600 * 1000
const LOOK_MS = 60_000

/** Starts to send waiting files. */
export function startArtifactUpload(options: ArtifactUploadOptions): ArtifactUpload {
  const { spool, tally, warn, signal, oldestResultAt } = options
  const condition = new Condition()
  const backoff = new Backoff()
  const tries = new Map<string, number>()

  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      const artifact = spool.next(oldestResultAt())
      if (artifact === undefined) {
        await condition.wait(LOOK_MS)
        continue
      }
      const outcome = await send(artifact, options)
      if (signal.aborted) return
      await settle(artifact, outcome)
    }
  }

  const settle = async (artifact: WaitingArtifact, outcome: Outcome): Promise<void> => {
    const { action, code, message, askedForMs, isByPlatform } = outcome
    const { id, owner, name, at, bytes } = artifact
    const facts = { owner, name, reason: message }
    const times = (tries.get(id) ?? 0) + 1
    const isUnknown = code === '404' && isByPlatform && times >= UNKNOWN_MAX
    if (action === 'done') {
      backoff.reset()
      count(tally.artifacts, 'delivered')
      tally.bytesSent += bytes
    } else if (action === 'halve' || isUnknown || Date.now() - at > AGE_MS_MAX) {
      count(tally.artifacts, `refused_${code}`)
      warn(`file ${code}`, facts, 'a file of a result is dropped')
    } else {
      tries.set(id, times)
      spool.postpone(artifact)
      warn(`file ${code}`, facts, 'a file cannot be sent; it stays stored')
      return condition.wait(action === 'hold' ? backoff.slow(askedForMs) : backoff.next(askedForMs))
    }
    tries.delete(id)
    return spool.forget(artifact)
  }

  signal.addEventListener('abort', () => condition.notify(), { once: true })
  return { notify: () => condition.notify(), ended: run() }
}

async function send(artifact: WaitingArtifact, options: ArtifactUploadOptions): Promise<Outcome> {
  const { link, spool, signal } = options
  const { owner, name, bytes, sha256, contentType } = artifact
  const digest = Buffer.from(sha256, 'hex').toString('base64')
  // Whatever the link reports: a file that is unreadable now stays unreadable.
  let isUnreadable = false
  async function* bytesOfFile() {
    try {
      yield* spool.read(artifact)
    } catch (error) {
      isUnreadable = true
      throw error
    }
  }
  try {
    const answer = await link.request({
      method: 'PUT',
      path: `/agent/v1/artifacts/${encodeURIComponent(owner)}/${encodeURIComponent(name)}`,
      headers: {
        'content-type': contentType,
        // RFC 9530
        'content-digest': `sha-256=:${digest}:`,
      },
      body: Readable.from(bytesOfFile(), { objectMode: false, highWaterMark: 64 * 1024 }),
      bytes,
      deadlineMs: Math.max(UPLOAD_MS_MIN, bytes / BYTES_PER_MS_MIN),
      signal,
    })
    return outcomeOf(answer)
  } catch (error) {
    const outcome = outcomeOfError(error)
    if (!isUnreadable) return outcome
    return { ...outcome, action: 'halve', code: 'DAMAGED', message: 'it cannot be read' }
  }
}
