// The files of a run on demand: agents upload them after the result, so the command waits a little.
import { setTimeout as sleep } from 'node:timers/promises'
import type { ArtifactView, RunDetail } from '../contract/api/run.ts'
import { PlatformRunError, type PlatformRuns } from './platform-runs.ts'

/** Time to wait for the files of a result. */
export const FILES_WITHIN_MS = 15_000
const FIRST_MS = 250
const APART_MS_MAX = 3_000

/** Options of the wait for files. */
export interface FilesWait {
  runs: Pick<PlatformRuns, 'read'>
  withinMs: number
  /** Ends the waiting, not the run. */
  stop: AbortSignal
}

/** The files that the result names and that have not come yet. */
export function awaitedOf({ artifacts }: Pick<RunDetail, 'artifacts'>): ArtifactView[] {
  return artifacts.filter(({ state }) => state === 'awaited')
}

/**
 * The finished run once all of its files have come, or its last state at the deadline. An error of the platform
 * never rejects: the result is known already.
 */
export async function withFiles(
  ended: RunDetail,
  { runs, withinMs, stop }: FilesWait,
): Promise<RunDetail> {
  const until = performance.now() + withinMs
  let run = ended
  let apartMs = FIRST_MS
  while (awaitedOf(run).length > 0) {
    const leftMs = until - performance.now()
    if (leftMs <= 0 || !(await waited(Math.min(apartMs, leftMs), stop))) break
    apartMs = Math.min(APART_MS_MAX, apartMs * 2)
    try {
      run = await runs.read(run)
    } catch (error) {
      if (!(error instanceof PlatformRunError)) throw error
      if (error.code === 'refused') break
    }
  }
  return run
}

/** False when it was stopped. */
async function waited(ms: number, signal: AbortSignal): Promise<boolean> {
  await sleep(ms, undefined, { signal }).catch(() => {})
  return !signal.aborted
}
