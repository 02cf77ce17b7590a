// The calls of `vedette run` and `vedette cancel`: find a monitor, start a run, follow it to its end and to its files,
// cancel it. All of them reject with PlatformError.
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'
import {
  type ArtifactView,
  type Run,
  RUN_BOUNDS,
  RunDetail,
  RunsAsked,
  type RunState,
} from '../contract/api/run.ts'
import type { ShownProgress } from '../contract/protocol/run-progress.ts'
import { nameFix } from '../process/nearest.ts'
import type { ApplyTarget } from './config.ts'
import { PlatformError } from './command.ts'
import { askPublicApi } from './public-api.ts'

const AGAIN_MS = 1_000
/** How long a platform may be unreachable while a run is followed. */
const AWAY_MS_MAX = 120_000

/** Monitors of one name that a message lists. */
const ALIKE_MAX = 20
/** Monitors among which the nearest name is looked for. */
const NEAR_MAX = 100

const Found = z.array(z.object({ id: z.guid(), name: z.string() }))

/** Finds the id of a monitor by its id or exact name. */
export async function findMonitor(
  target: ApplyTarget,
  named: string,
  signal: AbortSignal,
): Promise<string> {
  if (z.guid().safeParse(named).success) return named.toLowerCase()
  const list = (query: Record<string, string>) => {
    const path = `/v1/checks?${new URLSearchParams(query).toString()}`
    const ifAborted = 'ended; no run was requested'
    return askPublicApi(target, { method: 'GET', path, signal, ifAborted }, Found)
  }
  const listed = await list({ name: named, limit: String(ALIKE_MAX) })
  // A platform that ignores the filter returns other monitors.
  const alike = listed.filter(({ name }) => name === named)
  const [one, other] = alike
  if (one === undefined) {
    const limit = String(NEAR_MAX)
    const near = await list({ search: named, limit })
    const others = near.length > 0 ? near : await list({ limit })
    const names = others.map(({ name }) => `“${name}”`)
    const fix = nameFix(`“${named}”`, [...new Set(names)])
    const needed = 'it must be the exact name, or the id on the platform (a UUID)'
    throw new PlatformError('refused', `unknown monitor “${named}”: ${needed}; ${fix}`)
  }
  if (other === undefined) return one.id
  const ids = alike.map(({ id }) => id).join(', ')
  const message = `several monitors have the name “${named}”; use an id: ${ids}`
  throw new PlatformError('refused', message)
}

/** Starts a run in each of the locations, or in all of the monitor's. It is not abandoned: a stop cancels it. */
export async function startRuns(
  target: ApplyTarget,
  monitorId: string,
  locations: readonly string[] | undefined,
): Promise<Run[]> {
  const path = `/v1/checks/${monitorId}/runs`
  const body = locations === undefined ? {} : { locations }
  return (await askPublicApi(target, { method: 'POST', path, body }, RunsAsked)).runs
}

/** Cancels a run; resolves with its state. */
export function cancelRun(target: ApplyTarget, runId: string): Promise<RunDetail> {
  const path = `/v1/runs/${encodeURIComponent(runId)}/cancel`
  return askPublicApi(target, { method: 'POST', path }, RunDetail)
}

/** Follows a run to its end; reports states and progress. Tolerates an unreachable platform for a while. */
export async function followRun(
  target: ApplyTarget,
  run: Run,
  onState: (state: RunState) => void,
  onProgress: (progress: ShownProgress) => void,
): Promise<RunDetail> {
  let state = run.state
  let progressAt = 'none'
  let away: number | undefined
  for (;;) {
    const known = `knownState=${state}&knownProgress=${encodeURIComponent(progressAt)}`
    const path = `${pathOf(run)}?waitMs=${RUN_BOUNDS.waitMsMax - 5_000}&${known}`
    const begin = performance.now()
    try {
      const now = await askPublicApi(target, { method: 'GET', path }, RunDetail)
      away = undefined
      const saidAt = now.progress?.at ?? 'none'
      const isNews = now.state !== state || saidAt !== progressAt
      if (now.state !== state) onState(now.state)
      if (now.progress !== null && saidAt !== progressAt) onProgress(now.progress)
      state = now.state
      progressAt = saidAt
      if (state === 'finished') return now
      // A platform that is stopping answers at once; the next request must wait.
      if (!isNews && performance.now() - begin < AGAIN_MS) await sleep(AGAIN_MS)
    } catch (error) {
      if (!(error instanceof PlatformError) || error.code === 'refused') throw error
      away ??= performance.now()
      if (performance.now() - away > AWAY_MS_MAX) throw error
      await sleep(AGAIN_MS)
    }
  }
}

const pathOf = ({ id, checkId }: Pick<Run, 'id' | 'checkId'>) => `/v1/checks/${checkId}/runs/${id}`

/** The files that the result names and that have not come yet. */
export function awaitedOf({ artifacts }: Pick<RunDetail, 'artifacts'>): ArtifactView[] {
  return artifacts.filter(({ state }) => state === 'awaited')
}

const FIRST_MS = 250
const APART_MS_MAX = 3_000

/**
 * The finished run once all of its files have come: agents upload them after the result. After `withinMs`, or when
 * `stop` is aborted, its last state. An error of the platform never rejects: the result is known already.
 */
export async function withFiles(
  target: ApplyTarget,
  ended: RunDetail,
  withinMs: number,
  stop: AbortSignal,
): Promise<RunDetail> {
  const until = performance.now() + withinMs
  let run = ended
  let apartMs = FIRST_MS
  while (awaitedOf(run).length > 0) {
    const leftMs = until - performance.now()
    if (leftMs <= 0) break
    await sleep(Math.min(apartMs, leftMs), undefined, { signal: stop }).catch(() => {})
    if (stop.aborted) break
    apartMs = Math.min(APART_MS_MAX, apartMs * 2)
    try {
      run = await askPublicApi(target, { method: 'GET', path: pathOf(run) }, RunDetail)
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error
      if (error.code === 'refused') break
    }
  }
  return run
}
