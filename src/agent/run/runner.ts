// Runner: turns a job into its result, with deadline, retries, verdict and scrubbing.
import { setTimeout as sleep } from 'node:timers/promises'
import { toMicroseconds } from '../../contract/schema/duration.ts'
import { type Failure, failure } from '../../contract/failure.ts'
import type { Job } from '../../contract/job.ts'
import { sensitiveNames } from '../../contract/protocol/sensitive-name.ts'
import type { Attempt, Result, Verdict } from '../../contract/result.ts'
import { verdictOf } from './verdict.ts'
import { retryWaitMs } from '../../contract/retry.ts'
import type { Fault } from '../../process/faults/fault.ts'
import type { AnyMonitorType } from '../../monitors/monitor.ts'
import type { RunSource } from '../../scripts/context.ts'
import type { RunProgress, ScriptHost } from '../../scripts/host.ts'
import type { HeaderListener } from '../../scripts/playwright/observed-headers.ts'
import {
  startAttempt,
  type AttemptOrder,
  type AttemptOutcome,
  type RunningAttempt,
  startUndelayed,
  ownFault,
} from './attempt.ts'
import type { Clock } from '../schedule/clock.ts'
import { NamedTexts, undisclosedScrubber } from './named-texts.ts'
import type { ProgressBoard, ProgressReporter } from './progress-board.ts'
import {
  createPlanner,
  isProgram,
  queueClassOf,
  type LocationContext,
  type RunPlan,
} from './run-plan.ts'
import type { Scrubber } from '../redaction/scrub.ts'
import { scrubFiles } from '../redaction/scrub-files.ts'
import type { FileStaging } from '../sink.ts'
import type { FileCare } from './work-folder.ts'

/** A job under way. */
export interface Run {
  /**
   * Makes the next attempt. Resolves with the milliseconds to wait before the one after it, or with
   * undefined when `result()` is ready. Never rejects. The caller waits, and need not occupy a queue meanwhile.
   */
  attempt(): Promise<number | undefined>
  /** Ends the attempt under way, and lets no other begin. */
  cancel(reason: string): void
  /** The scrubbed result; call it once, after the last attempt. */
  result(): Result
}

export interface Runner {
  begin(job: Job, locationContext: LocationContext): Run
  /**
   * Runs the job with its retries. Each attempt runs in its own turn, or at once without `turn`; waits between
   * attempts need no turn. Never rejects.
   */
  run(
    job: Job,
    locationContext: LocationContext,
    signal: AbortSignal,
    turn?: AttemptTurn,
  ): Promise<Result>
}

/** Calls `attempt` when its turn has come; resolves as it does. */
export type AttemptTurn = (
  attempt: () => Promise<number | undefined>,
) => Promise<number | undefined>

/** What a runner needs. */
export interface RunnerSettings {
  types: ReadonlyMap<string, AnyMonitorType>
  clock: Clock
  /** Where work folders are made. */
  workRoot: string
  /** The work folders that exist now. */
  workFolders?: Set<string>
  scrubHeaders: readonly string[]
  /** Stores the files of runs. */
  files?: FileStaging | undefined
  /** Runs user code; without it user code is refused. */
  scripts?: ScriptHost | undefined
  /** Receives the progress of runs. */
  progress?: ProgressBoard | undefined
  /** Source of the runs where it is neither the timetable nor a request. */
  source?: RunSource
  onRetry?: (checkType: string) => void
  /** Receives the scrubber of the secrets that a program's run observed. */
  onRunScrubber?: ((scrubber: Scrubber) => void) | undefined
  /** A monitor did not end after its abort, which is a fault in it. */
  onAbandoned?: (checkType: string) => void
  /** Receives faults of the agent itself, unscrubbed. */
  onFault?: ((fault: Fault) => void) | undefined
}

/** Makes a runner. */
export function createRunner(settings: RunnerSettings): Runner {
  const planFor = createPlanner(settings.types, settings.scrubHeaders)
  const begin = (job: Job, locationContext: LocationContext) =>
    createRun(job, locationContext, planFor(job.monitor, locationContext), settings)
  return {
    begin,
    run: (job, locationContext, signal, turn = (attempt) => attempt()) =>
      runToEnd(() => begin(job, locationContext), signal, turn),
  }
}

function createRun(
  job: Job,
  locationContext: LocationContext,
  plan: RunPlan,
  settings: RunnerSettings,
): Run {
  const { clock } = settings
  const { checkType, retryStrategy } = job.monitor
  // Programs measure time in their own processes, and are too long to repeat.
  const start = isProgram(job.monitor) ? startAttempt : startUndelayed
  const startedMs = clock.monotonicMs()
  const record = recordOf(job, plan, settings)
  const { named } = record
  let running: RunningAttempt | undefined
  const reporter = settings.progress && reporterFor(job, record, plan.scrub, settings.progress)

  const add = (startedAt: number, beganMs: number, outcome: AttemptOutcome): Verdict => {
    record.last = outcome
    const { failures, degraded = false, undisclosed } = outcome.observation
    if (undisclosed !== undefined) (record.undisclosed ??= []).push(undisclosed)
    const verdict = verdictOf(failures, degraded)
    const durationMs = toMicroseconds(clock.monotonicMs() - beganMs)
    record.attempts.push({ startedAt, durationMs, verdict, failures })
    for (const one of failures) {
      const fault = ownFault(one, checkType)
      if (fault !== undefined) settings.onFault?.(fault)
    }
    return verdict
  }

  return {
    async attempt() {
      if (record.cancelled !== undefined) return undefined
      const beganAt = Math.round(clock.now())
      const beganMs = clock.monotonicMs()
      if ('problems' in plan) {
        add(beganAt, beganMs, withFailures(plan.problems))
        return undefined
      }
      const { workRoot, workFolders, files } = settings
      const care = careOf(plan.scrub, named, files)
      const context = {
        ...contextOf(job, locationContext, plan, settings),
        ...(named && { headers: headerListenerOf(named, settings.scrubHeaders) }),
        ...(reporter && { progress: (at: RunProgress) => reporter.report(at) }),
      }
      running = start({ ...plan, workRoot, workFolders, care, context })
      const outcome = await running.outcome
      running = undefined
      if (outcome.abandoned) settings.onAbandoned?.(checkType)
      const verdict = add(beganAt, beganMs, outcome)
      const { failures } = outcome.observation
      if (record.cancelled !== undefined || !isWorthRetrying(verdict, failures)) return undefined
      const attempts = record.attempts.length
      const elapsedMs = clock.monotonicMs() - startedMs
      const waitMs = retryWaitMs(retryStrategy, { attempts, elapsedMs, failures })
      if (waitMs !== undefined) settings.onRetry?.(checkType)
      return waitMs
    },
    cancel(reason) {
      record.cancelled ??= failure('CANCELLED', reason)
      running?.cancel(reason)
    },
    result() {
      reporter?.over()
      return resultOf(job, locationContext, plan, record, clock.monotonicMs() - startedMs)
    },
  }
}

/** What a run gets besides what it reports to. */
function contextOf(
  { onDemand }: Job,
  { dial, location, accountId }: LocationContext,
  { variables, written }: Exclude<RunPlan, { problems: Failure[] }>,
  { scripts, source }: RunnerSettings,
): AttemptOrder['context'] {
  return {
    dial,
    location,
    scripts,
    variables,
    source: source ?? (onDemand === undefined ? 'SCHEDULER' : 'TRIGGER_API'),
    ...(accountId !== undefined && { accountId }),
    ...(written && { written }),
  }
}

/** Reports the progress of the run; uptime checks are too short to need it. */
function reporterFor(
  { monitor, slot, onDemand }: Job,
  { startedAt, named }: RunRecord,
  known: Scrubber,
  board: ProgressBoard,
): ProgressReporter | undefined {
  const scrub = {
    text: (text: string) => known.text(named?.withoutObserved(named.text(text)) ?? text),
  }
  if (onDemand !== undefined) return board.begin(onDemand, scrub)
  if (queueClassOf(monitor) === 'uptime') return undefined
  return board.beginSlot({ monitorId: monitor.id, slot, startedAt }, scrub)
}

/** Collects the values of sensitive headers in the program's own requests. */
function headerListenerOf(named: NamedTexts, scrubHeaders: readonly string[]): HeaderListener {
  return {
    sensitive: sensitiveNames(scrubHeaders),
    saw: (name, value) => named.addHeader(name, value),
  }
}

/** Scrubs the known secrets and those that the run observed out of its files. */
function careOf(
  known: Scrubber,
  named: NamedTexts | undefined,
  files: FileStaging | undefined,
): FileCare {
  return {
    files,
    scrub(paths, cut) {
      const { secrets, headers } = known.settings
      const settings = { headers, secrets: [...secrets, ...(named?.secrets() ?? [])] }
      return scrubFiles(paths, { settings }, cut, undefined, (found) => named?.addValues(found))
    },
    clean: (text) => known.text(named?.withoutObserved(text) ?? text),
  }
}

interface RunRecord {
  startedAt: number
  clockUncertaintyMs: number | undefined
  attempts: Attempt[]
  /** Values that attempts used beyond the definition. */
  undisclosed?: Record<string, unknown>[]
  /** For user code, whose output may contain any secret. */
  named?: NamedTexts
  onRunScrubber: RunnerSettings['onRunScrubber']
  last: AttemptOutcome
  cancelled?: Failure
}

function recordOf(
  job: Job,
  { scrub }: RunPlan,
  { clock, onRunScrubber }: RunnerSettings,
): RunRecord {
  const uncertaintyMs = clock.uncertaintyMs()
  const record: RunRecord = {
    startedAt: Math.round(clock.now()),
    // Rounding is part of it.
    clockUncertaintyMs: uncertaintyMs && Math.ceil(uncertaintyMs + 0.5),
    attempts: [],
    last: withFailures([]),
    onRunScrubber,
  }
  if (queueClassOf(job.monitor) === 'scripted') record.named = new NamedTexts(scrub)
  return record
}

function resultOf(
  job: Job,
  { location, variables }: LocationContext,
  plan: RunPlan,
  record: RunRecord,
  ranMs: number,
): Result {
  const { monitor, slot, onDemand } = job
  const { observation, artifacts } = record.last
  const { responseTimeMs, degraded = false } = observation
  const { undisclosed, clockUncertaintyMs } = record
  const known = undisclosed && [...variables, ...monitor.environmentVariables]
  const further = known && undisclosedScrubber(undisclosed, plan.scrub, known)
  const clean = scrubbed(plan, record, further)
  return {
    monitorId: monitor.id,
    monitorName: monitor.name,
    checkType: monitor.checkType,
    location,
    slot,
    ...(onDemand === undefined ? {} : { onDemand }),
    verdict: verdictOf(clean.failures, degraded),
    startedAt: record.startedAt,
    ...(clockUncertaintyMs === undefined ? {} : { clockUncertaintyMs }),
    durationMs: toMicroseconds(ranMs),
    ...(responseTimeMs === undefined ? {} : { responseTimeMs: toMicroseconds(responseTimeMs) }),
    ...clean,
    artifacts,
  }
}

// Names, ids and verdicts are not scrubbed: a secret equal to one of them must not make the result
// unattributable.
function scrubbed(plan: RunPlan, record: RunRecord, further: Scrubber | undefined) {
  const { attempts, last, cancelled } = record
  const { failures } = last.observation
  const { leftOut = [] } = last
  const { observed: raw } = last.observation
  const observed = leftOut.length === 0 ? raw : { ...raw, artifactsLeftOut: leftOut }
  const perAttempt = attempts.map((one) => one.failures)
  const known = plan.scrub.value({ observed, failures, perAttempt })
  const disclosed = further === undefined ? known : further.value(known)
  const clean = record.named === undefined ? disclosed : withoutObserved(disclosed, record)
  // Cancelled between two attempts: the observation stays visible, but is no verdict.
  const between = cancelled !== undefined && attempts.at(-1)?.verdict !== 'cancelled'
  return {
    observed: clean.observed,
    failures: between ? [cancelled, ...clean.failures] : clean.failures,
    attempts: attempts.map((one, at) => ({ ...one, failures: clean.perAttempt[at] ?? [] })),
  }
}

function withoutObserved<T>(value: T, { named, onRunScrubber }: RunRecord): T {
  const clean = named?.value(value) ?? value
  const scrubber = named?.observedScrubber()
  if (scrubber === undefined) return clean
  onRunScrubber?.(scrubber)
  return scrubber.value(clean)
}

function withFailures(failures: Failure[]): AttemptOutcome {
  return { observation: { observed: {}, failures }, artifacts: [], abandoned: false }
}

/** Transient faults of the agent or its host. */
const PASSING = new Set([
  'AGENT_OVERLOADED',
  'RESOLVER_UNREACHABLE',
  'NETWORK_UNREACHABLE',
  'PROXY_UNREACHABLE',
  'PROXY_REFUSED',
  'POLICY_UNDECIDED',
  'RESOURCES_EXHAUSTED',
  'DATA_DIR_UNWRITABLE',
])

/**
 * Failed attempts and transient faults are retried. Degraded ones are not, since the target answered; neither are
 * invalid settings.
 */
function isWorthRetrying(verdict: Verdict, failures: readonly Failure[]): boolean {
  if (verdict === 'failed') return true
  return verdict === 'errored' && failures.every(({ code }) => PASSING.has(code))
}

async function runToEnd(begin: () => Run, signal: AbortSignal, turn: AttemptTurn): Promise<Result> {
  let begun: Run | undefined
  const onAbort = () => begun?.cancel('the run was interrupted')
  // Begins with its first turn, whose wait does not count as duration.
  const run = () => {
    begun ??= begin()
    if (signal.aborted) onAbort()
    return begun
  }
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    for (;;) {
      const waitMs = await turn(() => run().attempt())
      if (waitMs === undefined) return run().result()
      await sleep(waitMs, undefined, { signal }).catch(() => undefined)
    }
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
