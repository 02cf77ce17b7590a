// `vedette run` and `vedette cancel`: a monitor run now on a platform's agents, followed and shown.
import type { Failure } from '../contract/failure.ts'
import type { Result } from '../contract/result.ts'
import type { Run, RunDetail } from '../contract/run.ts'
import type { ShownProgress } from '../contract/run-progress.ts'
import { EXIT_CONFIGURATION } from '../host/command-line.ts'
import { type Environment, problemText } from '../host/env.ts'
import { type ApplyTarget, readApplyTarget } from './apply-config.ts'
import { PlatformRunError, PlatformRuns } from './platform-runs.ts'
import { tableOf } from './report-table.ts'
import { printable } from './result-words.ts'

/** Exit code when the platform cannot be reached or fails. */
const EXIT_UNREACHABLE = 3
/** Exit code when a run says nothing about its target: errored, cancelled, missed. */
const EXIT_ABOUT_US = 4

/** What is to be run, and how it is shown. */
export interface RunOrder {
  /** Id or name. */
  monitor: string
  location: string | undefined
  wait: boolean
  json: boolean
}

/** Where a command finds its settings and says what it has to say. */
export interface RunSurroundings {
  env: Environment
  write(text: string): void
  complain: (text: string) => void
  colour: boolean
  /** Cancels what is followed, once. */
  stop: AbortSignal
}

/**
 * Runs a monitor; resolves with the exit code: 0 passed or degraded (or asked for, where nobody waits),
 * 1 failed, 2 the settings are bad or the platform refuses, 3 no platform, 4 nothing can be said about
 * the target.
 */
export function runNow(order: RunOrder, around: RunSurroundings): Promise<number> {
  return onPlatform('run', around, async (runs) => {
    const monitorId = await unlessStopped(runs.findMonitor(order.monitor), around)
    if (monitorId === undefined) return EXIT_ABOUT_US
    const locations = order.location === undefined ? undefined : [order.location]
    const asked = await runs.ask(monitorId, locations)
    if (!order.wait) {
      for (const run of asked) around.write(order.json ? `${JSON.stringify(run)}\n` : `${run.id}\n`)
      return 0
    }
    const ended = await followAll(runs, asked, order, around)
    if (!order.json) around.write(reportOf(ended, around.colour))
    return exitCodeOf(ended)
  })
}

/** Resolves with undefined when it is stopped before: then there is nothing yet that had to be cancelled. */
async function unlessStopped<T>(
  work: Promise<T>,
  { stop, complain }: RunSurroundings,
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
export function cancelNow(runId: string, around: Omit<RunSurroundings, 'stop'>): Promise<number> {
  return onPlatform('cancel', around, async (runs) => {
    const { state, verdict } = await runs.cancel(runId)
    const ended = `is finished: ${verdict}`
    const words = state === 'finished' ? ended : 'is being cancelled by its agent'
    around.write(`run ${runId} ${words}\n`)
    return 0
  })
}

async function onPlatform(
  command: string,
  around: Omit<RunSurroundings, 'stop'>,
  work: (runs: PlatformRuns) => Promise<number>,
): Promise<number> {
  const { target, problems } = readApplyTarget(around.env)
  if (problems.length > 0) {
    around.complain(`vedette: ${problemText(problems)}`)
    return EXIT_CONFIGURATION
  }
  try {
    return await work(new PlatformRuns(target))
  } catch (error) {
    if (!(error instanceof PlatformRunError)) throw error
    around.complain(`vedette ${command}: ${withoutKey(error.message, target)}\n`)
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
  around: RunSurroundings,
): Promise<RunDetail[]> {
  const { stop, complain } = around
  const open = new Set(asked.map(({ id }) => id))
  const cancel = () => {
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
        complain(`${run.location}: ${run.state}, run ${run.id}\n`)
        const ended = await runs.follow(
          run,
          (state) => {
            if (state !== 'finished') complain(`${run.location}: ${state}\n`)
          },
          (progress) => complain(`${run.location}: ${progressWords(progress)}\n`),
        )
        open.delete(run.id)
        complain(`${run.location}: ${endWords(ended)}\n`)
        if (json) around.write(`${JSON.stringify(ended)}\n`)
        return ended
      }),
    )
  } finally {
    stop.removeEventListener('abort', cancel)
  }
}

/** Like `test 3/10: shop.spec.ts`. */
function progressWords({ phase, done, total, line }: ShownProgress): string {
  const counts = total === null ? (done ?? '') : `${done ?? 0}/${total}`
  const where = `${phase} ${counts}`.trim()
  return printable(line === null || line === '' ? where : `${where}: ${line}`)
}

function endWords({ verdict, missedReason, needed }: RunDetail): string {
  const why = [missedReason, needed].filter((one) => one !== null).join(', ')
  return why === '' ? `${verdict}` : `${verdict} (${printable(why)})`
}

/** The table of `vedette check`, then the files that came with the results. */
function reportOf(ended: readonly RunDetail[], colour: boolean): string {
  const results = ended.map((one) => resultOf(one, ended.length > 1))
  const files = ended.flatMap(({ artifacts }) =>
    artifacts.map(({ name, id, state, refusal }) => {
      const where = state === 'stored' ? `/v1/artifacts/${id}` : (refusal ?? state)
      return `${printable(name)}: ${where}\n`
    }),
  )
  return `${tableOf(results, { colour })}${files.length === 0 ? '' : '\n'}${files.join('')}`
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
