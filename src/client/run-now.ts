// `vedette run` and `vedette cancel`: a monitor run now on a platform's agents, followed and shown.
import type { Failure } from '../contract/failure.ts'
import type { Result } from '../contract/result.ts'
import type { ArtifactView, Run, RunDetail, RunState } from '../contract/api/run.ts'
import type { ShownProgress } from '../contract/protocol/run-progress.ts'
import type { ApplyTarget } from './config.ts'
import { type CommandContext, onPlatform } from './command.ts'
import {
  awaitedOf,
  cancelRun,
  findMonitor,
  followRun,
  startRuns,
  withFiles,
} from './platform-runs.ts'
import { tableOf } from './report-table.ts'
import { counted } from '../contract/schema/amounts.ts'
import { printable } from '../agent/run/result-text.ts'
import { EXIT } from '../process/exit-codes.ts'

/** Time to wait for the files of a result. */
const FILES_WITHIN_MS = 15_000

/** The monitor to run, and the output. */
export interface RunOrder {
  /** Id or name. */
  monitor: string
  location: string | undefined
  wait: boolean
  json: boolean
}

/** The settings and the output of the command. */
export interface RunContext extends CommandContext {
  /** Cancels what is followed, once. */
  stop: AbortSignal
  /** How often a waiting run is reported; without it, once. */
  waitingEveryMs?: number | undefined
  /** Time to wait for files; 15 s by default. */
  filesWithinMs?: number | undefined
}

/**
 * Runs a monitor; resolves with the exit code: 0 passed or degraded (or asked for, where nobody waits),
 * 1 failed, 2 the settings are bad or the platform refuses, 3 no platform, 4 nothing can be said about
 * the target.
 */
export function runNow(order: RunOrder, context: RunContext): Promise<number> {
  const { write, colour } = context
  return onPlatform('run', context, async (target) => {
    const monitorId = await findMonitor(target, order.monitor, context.stop)
    const locations = order.location === undefined ? undefined : [order.location]
    const asked = await startRuns(target, monitorId, locations)
    if (!order.wait) {
      for (const run of asked) write(order.json ? `${JSON.stringify(run)}\n` : `${run.id}\n`)
      return 0
    }
    const ended = await followAll(target, asked, order, context)
    if (!order.json) write(reportOf(ended, colour))
    return exitCodeOf(ended)
  })
}

/** Cancels a run; 0 when that is done or asked for, else as `runNow`. */
export function cancelNow(runId: string, context: CommandContext): Promise<number> {
  return onPlatform('cancel', context, async (target) => {
    const { state, verdict } = await cancelRun(target, runId)
    const ended = `is finished: ${verdict}`
    const label = state === 'finished' ? ended : 'is being cancelled by its agent'
    context.write(`run ${runId} ${label}\n`)
    return 0
  })
}

async function followAll(
  target: ApplyTarget,
  asked: readonly Run[],
  { json }: RunOrder,
  context: RunContext,
): Promise<RunDetail[]> {
  const { stop, complain } = context
  const open = new Set(asked.map(({ id }) => id))
  const cancel = () => {
    if (open.size === 0) return
    complain('vedette run: cancelling; waiting for the results of its agents\n')
    for (const id of open) {
      cancelRun(target, id).catch(({ message }: Error) => {
        complain(`vedette run: ${message}; cancel it with: vedette cancel ${id}\n`)
      })
    }
  }
  stop.addEventListener('abort', cancel, { once: true })
  if (stop.aborted) cancel()
  try {
    return await Promise.all(
      asked.map(async (run) => {
        const ended = await followOne(target, run, context)
        open.delete(run.id)
        complain(`${run.location}: ${endText(ended)}\n`)
        const whole = await bringFiles(target, ended, context)
        if (json) context.write(`${JSON.stringify(notedFiles(whole))}\n`)
        return whole
      }),
    )
  } finally {
    stop.removeEventListener('abort', cancel)
  }
}

/** Follows a run to its end, and reports its state. */
async function followOne(
  target: ApplyTarget,
  run: Run,
  { complain, waitingEveryMs }: RunContext,
): Promise<RunDetail> {
  const began = performance.now()
  let state = run.state
  complain(`${run.location}: ${state}, run ${run.id}\n`)
  const sayState = (more = '') => {
    const label = WAITING[state]
    complain(`${run.location}: ${state}${label === undefined ? '' : `, ${label}`}${more}\n`)
  }
  const sayWaiting = () => {
    const seconds = Math.round((performance.now() - began) / 1_000)
    if (WAITING[state] !== undefined) sayState(` (${seconds} s)`)
  }
  const timer = waitingEveryMs === undefined ? undefined : setInterval(sayWaiting, waitingEveryMs)
  try {
    return await followRun(
      target,
      run,
      (now) => {
        state = now
        if (now !== 'finished') sayState()
      },
      (progress) => complain(`${run.location}: ${progressText(progress)}\n`),
    )
  } finally {
    clearInterval(timer)
  }
}

/** What a run waits for, as far as the platform knows. */
const WAITING: Partial<Record<RunState, string>> = {
  queued: 'waiting for an agent',
  sent: 'waiting for a free slot of its agent',
}

/** The run with its files, which come after the result; a stop ends the wait for them. */
async function bringFiles(
  target: ApplyTarget,
  ended: RunDetail,
  { stop, complain, filesWithinMs = FILES_WITHIN_MS }: RunContext,
): Promise<RunDetail> {
  const count = awaitedOf(ended).length
  if (count === 0) return ended
  complain(`${ended.location}: waits for ${counted(count, 'file')} of its agent\n`)
  // A run that was cancelled has files as well.
  const signal = stop.aborted ? new AbortController().signal : stop
  const whole = await withFiles(target, ended, filesWithinMs, signal)
  const late = awaitedOf(whole).map(({ name }) => printable(name))
  if (late.length > 0) {
    const where = `/v1/checks/${ended.checkId}/runs/${ended.id}`
    complain(`${ended.location}: ${NOT_IN_TIME}: ${late.join(', ')}; look again at ${where}\n`)
  }
  return whole
}

const NOT_IN_TIME = 'did not arrive in time'

/** The run with a note at each file that has not come. */
function notedFiles(run: RunDetail): RunDetail {
  const artifacts = run.artifacts.map((one) =>
    one.state === 'awaited' ? { ...one, note: NOT_IN_TIME } : one,
  )
  return { ...run, artifacts }
}

/** Like `test 3/10: shop.spec.ts`. */
function progressText({ phase, done, total, line }: ShownProgress): string {
  const counts = total === null ? (done ?? '') : `${done ?? 0}/${total}`
  const where = `${phase} ${counts}`.trim()
  return printable(line === null || line === '' ? where : `${where}: ${line}`)
}

function endText({ verdict, missedReason, needed }: RunDetail): string {
  const why = [missedReason, needed].filter((one) => one !== null).join(', ')
  return why === '' ? `${verdict}` : `${verdict} (${printable(why)})`
}

/** The table of `vedette check`, then the files that came with the results. */
function reportOf(ended: readonly RunDetail[], colour: boolean): string {
  const results = ended.map((one) => resultOf(one, ended.length > 1))
  const files = ended.flatMap(({ artifacts }) =>
    artifacts.map((one) => `${printable(one.name)}: ${whereOf(one)}\n`),
  )
  return `${tableOf(results, { colour })}${files.length === 0 ? '' : '\n'}${files.join('')}`
}

function whereOf({ id, state, refusal }: ArtifactView): string {
  if (state === 'stored') return `/v1/artifacts/${id}`
  return state === 'awaited' ? NOT_IN_TIME : (refusal ?? state)
}

/** A run as a result of the agent, as far as the table looks into it. */
function resultOf(run: RunDetail, several: boolean): Result {
  const { result } = run
  const startedAt = Date.parse(result?.startedAt ?? run.createdAt)
  const durationMs = result?.durationMs ?? 0
  const verdict = run.verdict ?? 'missed'
  const attempt = { startedAt, durationMs, verdict, failures: [] }
  return {
    monitorId: run.checkId,
    monitorName: several ? `${run.checkName} (${run.location})` : run.checkName,
    checkType: run.checkType,
    location: run.location,
    slot: startedAt,
    onDemand: run.id,
    verdict,
    startedAt,
    durationMs,
    ...(result !== null && result.responseTimeMs !== null
      ? { responseTimeMs: result.responseTimeMs }
      : {}),
    attempts: Array.from({ length: result?.attempts ?? 0 }, () => attempt),
    observed: result?.observed ?? {},
    // Newer agents may have codes that this version does not know.
    failures: (result?.failures ?? []) as Failure[],
    artifacts: [],
  }
}

function exitCodeOf(ended: readonly RunDetail[]): number {
  const verdicts = new Set(ended.map(({ verdict }) => verdict))
  if (verdicts.has('failed')) return EXIT.failed
  const good = [...verdicts].every((one) => one === 'passed' || one === 'degraded')
  return good ? EXIT.ok : EXIT.noVerdict
}
