// `vedette run` and `vedette cancel`: a monitor run now on a platform's agents, followed and shown.
import type { Failure } from '../contract/failure.ts'
import type { Result } from '../contract/result.ts'
import type { ArtifactView, Run, RunDetail, RunState } from '../contract/api/run.ts'
import type { ShownProgress } from '../contract/protocol/run-progress.ts'
import { EXIT_CONFIGURATION } from '../process/command-line.ts'
import { type Environment, problemText } from '../process/env.ts'
import { type ApplyTarget, readApplyTarget } from './config.ts'
import { PlatformRunError, PlatformRuns } from './platform-runs.ts'
import { tableOf } from './report-table.ts'
import { printable } from '../agent/run/result-text.ts'
import { awaitedOf, FILES_WITHIN_MS, withFiles } from './run-files.ts'

/** Exit code when the platform cannot be reached or fails. */
const EXIT_UNREACHABLE = 3
/** Exit code when a run says nothing about its target: errored, cancelled, missed. */
const EXIT_ABOUT_US = 4

/** The monitor to run, and the output. */
export interface RunOrder {
  /** Id or name. */
  monitor: string
  location: string | undefined
  wait: boolean
  json: boolean
}

/** The settings and the output of a command. */
export interface RunContext {
  env: Environment
  write(text: string): void
  complain: (text: string) => void
  colour: boolean
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
  return onPlatform('run', context, async (runs) => {
    const monitorId = await unlessStopped(runs.findMonitor(order.monitor), context)
    if (monitorId === undefined) return EXIT_ABOUT_US
    const locations = order.location === undefined ? undefined : [order.location]
    const asked = await runs.ask(monitorId, locations)
    if (!order.wait) {
      for (const run of asked)
        context.write(order.json ? `${JSON.stringify(run)}\n` : `${run.id}\n`)
      return 0
    }
    const ended = await followAll(runs, asked, order, context)
    if (!order.json) context.write(reportOf(ended, context.colour))
    return exitCodeOf(ended)
  })
}

/** Resolves with undefined when it is stopped before: then there is nothing to cancel yet. */
async function unlessStopped<T>(
  work: Promise<T>,
  { stop, complain }: RunContext,
): Promise<T | undefined> {
  const stopped = Promise.withResolvers<undefined>()
  const giveUp = () => {
    complain('vedette run: ended; nothing was asked for\n')
    stopped.resolve(undefined)
  }
  stop.addEventListener('abort', giveUp, { once: true })
  if (stop.aborted) giveUp()
  try {
    return await Promise.race([work, stopped.promise])
  } finally {
    stop.removeEventListener('abort', giveUp)
    work.catch(() => {})
  }
}

/** Cancels a run; 0 when that is done or asked for, else as `runNow`. */
export function cancelNow(runId: string, context: Omit<RunContext, 'stop'>): Promise<number> {
  return onPlatform('cancel', context, async (runs) => {
    const { state, verdict } = await runs.cancel(runId)
    const ended = `is finished: ${verdict}`
    const label = state === 'finished' ? ended : 'is being cancelled by its agent'
    context.write(`run ${runId} ${label}\n`)
    return 0
  })
}

async function onPlatform(
  command: string,
  context: Omit<RunContext, 'stop'>,
  work: (runs: PlatformRuns) => Promise<number>,
): Promise<number> {
  const { target, problems } = readApplyTarget(context.env)
  if (problems.length > 0) {
    context.complain(`vedette: ${problemText(problems)}`)
    return EXIT_CONFIGURATION
  }
  try {
    return await work(new PlatformRuns(target))
  } catch (error) {
    if (!(error instanceof PlatformRunError)) throw error
    context.complain(`vedette ${command}: ${withoutKey(error.message, target)}\n`)
    return error.code === 'refused' ? EXIT_CONFIGURATION : EXIT_UNREACHABLE
  }
}

function withoutKey(text: string, { apiKey }: ApplyTarget): string {
  return printable(text.replaceAll(apiKey, '***'))
}

async function followAll(
  runs: PlatformRuns,
  asked: readonly Run[],
  { json }: RunOrder,
  context: RunContext,
): Promise<RunDetail[]> {
  const { stop, complain } = context
  const open = new Set(asked.map(({ id }) => id))
  const cancel = () => {
    if (open.size === 0) return
    complain('vedette run: cancelling, and waiting for what its agents have recorded\n')
    for (const id of open) {
      runs.cancel(id).catch((error: unknown) => {
        const why = printable((error as Error).message)
        complain(`vedette run: ${why}; cancel it with: vedette cancel ${id}\n`)
      })
    }
  }
  stop.addEventListener('abort', cancel, { once: true })
  if (stop.aborted) cancel()
  try {
    return await Promise.all(
      asked.map(async (run) => {
        const ended = await followOne(runs, run, context)
        open.delete(run.id)
        complain(`${run.location}: ${endText(ended)}\n`)
        const whole = await bringFiles(runs, ended, context)
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
  runs: PlatformRuns,
  run: Run,
  { complain, waitingEveryMs }: RunContext,
): Promise<RunDetail> {
  const began = performance.now()
  let state = run.state
  complain(`${run.location}: ${state}, run ${run.id}\n`)
  const sayWaiting = () => {
    const label = WAITING[state]
    if (label === undefined) return
    const seconds = Math.round((performance.now() - began) / 1_000)
    complain(`${run.location}: ${state}, ${label} (${seconds} s)\n`)
  }
  const timer = waitingEveryMs === undefined ? undefined : setInterval(sayWaiting, waitingEveryMs)
  try {
    return await runs.follow(
      run,
      (now) => {
        state = now
        const label = WAITING[now]
        if (now !== 'finished')
          complain(`${run.location}: ${now}${label === undefined ? '' : `, ${label}`}\n`)
      },
      (progress) => complain(`${run.location}: ${progressText(progress)}\n`),
    )
  } finally {
    clearInterval(timer)
  }
}

/** What a run waits for, as far as the platform knows. */
const WAITING: Partial<Record<RunState, string>> = {
  queued: 'waits for an agent to take it',
  sent: 'waits for a place on its agent',
}

/** The run with its files, which come after the result; a stop ends the wait for them. */
async function bringFiles(
  runs: PlatformRuns,
  ended: RunDetail,
  { stop, complain, filesWithinMs = FILES_WITHIN_MS }: RunContext,
): Promise<RunDetail> {
  const count = awaitedOf(ended).length
  if (count === 0) return ended
  complain(`${ended.location}: waits for ${count} ${count === 1 ? 'file' : 'files'} of its agent\n`)
  // A run that was cancelled has files as well.
  const signal = stop.aborted ? new AbortController().signal : stop
  const whole = await withFiles(ended, { runs, withinMs: filesWithinMs, stop: signal })
  const late = awaitedOf(whole).map(({ name }) => printable(name))
  if (late.length > 0) {
    const where = `/v1/checks/${ended.checkId}/runs/${ended.id}`
    complain(`${ended.location}: ${NOT_IN_TIME}: ${late.join(', ')}; look again at ${where}\n`)
  }
  return whole
}

const NOT_IN_TIME = 'did not come in time'

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
  if (verdicts.has('failed')) return 1
  const good = [...verdicts].every((one) => one === 'passed' || one === 'degraded')
  return good ? 0 : EXIT_ABOUT_US
}
