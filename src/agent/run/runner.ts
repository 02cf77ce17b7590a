// From a job to its result, the only place that knows how: deadline, retries, verdict, scrubbing.
import { toMicroseconds } from '../../contract/schema/duration.ts'
import type { Failure } from '../../contract/failure.ts'
import { failure } from '../../contract/failure.ts'
import type { Job } from '../../contract/job.ts'
import { sensitiveNames } from '../../contract/protocol/sensitive-name.ts'
import { verdictOf, type Attempt, type Result, type Verdict } from '../../contract/result.ts'
import { retryWaitMs } from '../../contract/retry.ts'
import type { Fault } from '../../process/faults/fault.ts'
import type { AnyMonitorType } from '../../monitors/monitor.ts'
import type { RunSource } from '../../scripts/context.ts'
import type { RunProgress, ScriptHost } from '../../scripts/host.ts'
import type { HeaderHearing } from '../../scripts/playwright/seen-headers.ts'
import { startAttempt, type AttemptOutcome, type RunningAttempt } from './attempt.ts'
import type { Clock } from '../schedule/clock.ts'
import { ownFault } from './own-fault.ts'
import { isProgram, laneOf } from '../schedule/lane.ts'
import { NamedTexts } from './named-texts.ts'
import type { ProgressBoard, ProgressPlace } from './progress-board.ts'
import { createPlanner, type RunPlan, type Surroundings } from './run-plan.ts'
import type { Scrubber } from '../redaction/scrub.ts'
import { scrubFiles } from '../redaction/scrub-files.ts'
import { wakeScrubThread } from '../redaction/scrub-thread.ts'
import type { FileKeep } from '../sink.ts'
import { startUndelayed } from './undelayed-attempt.ts'
import { undisclosedScrubber } from './undisclosed-secrets.ts'
import type { FileCare } from './work-folder.ts'

/** A job under way. */
export interface Run {
  /**
   * Makes the next attempt. Resolves with the milliseconds to wait before the one after it, or with
   * undefined when `result()` is ready. Never rejects. The wait is the caller's, who need not keep a
   * place in a queue for it.
   */
  attempt(): Promise<number | undefined>
  /** Ends the attempt under way, and lets no other begin. */
  cancel(reason: string): void
  /** The scrubbed result; call it once, after the last attempt. */
  result(): Result
}

export interface Runner {
  begin(job: Job, surroundings: Surroundings): Run
  /**
   * The whole job with its retries. Each attempt, but no wait between two, takes place in a turn of its
   * own; without `turn` at once. Never rejects.
   */
  run(
    job: Job,
    surroundings: Surroundings,
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
  /** Has the folders in it that there are right now. */
  workFolders?: Set<string>
  scrubHeaders: readonly string[]
  /** Takes the files of runs. */
  files?: FileKeep | undefined
  /** Where user code runs; without it, it does not. */
  scripts?: ScriptHost | undefined
  /** Hears how far runs are; without it nobody does. */
  progress?: ProgressBoard | undefined
  /** Why runs run, where it is neither the timetable nor somebody's asking; as `RunSource`. */
  source?: RunSource
  onRetry?: (checkType: string) => void
  /** Hears what takes out of texts what the run of a program has seen. */
  onSeen?: ((seen: Scrubber) => void) | undefined
  /** A monitor did not end when told; a fault in it. */
  onAbandoned?: (checkType: string) => void
  /** Hears of faults of the program itself, unscrubbed. */
  onFault?: ((fault: Fault) => void) | undefined
}

/** Makes a runner. */
export function createRunner(settings: RunnerSettings): Runner {
  const planFor = createPlanner(settings.types, settings.scrubHeaders)
  const begin = (job: Job, surroundings: Surroundings) =>
    createRun(job, surroundings, planFor(job.monitor, surroundings), settings)
  return {
    begin,
    run: (job, surroundings, signal, turn = (attempt) => attempt()) =>
      runToEnd(() => begin(job, surroundings), signal, turn),
  }
}

function createRun(
  job: Job,
  surroundings: Surroundings,
  plan: RunPlan,
  settings: RunnerSettings,
): Run {
  const { clock } = settings
  const { checkType, retryStrategy } = job.monitor
  // Programs measure their times in processes of their own, and are too long to repeat.
  const start = isProgram(job.monitor) ? startAttempt : startUndelayed
  const startedMs = clock.monotonicMs()
  const record = recordOf(job, plan, settings)
  const { named } = record
  let running: RunningAttempt | undefined
  const place = settings.progress && placeFor(job, record, plan.scrub, settings.progress)
  const progress = place && ((at: RunProgress) => place.tell(at))

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
      const { dial, location, accountId } = surroundings
      const { scripts } = settings
      const source = settings.source ?? (job.onDemand === undefined ? 'SCHEDULER' : 'TRIGGER_API')
      const around = { dial, location, accountId, source, workRoot, workFolders, care, scripts }
      const headers = named && hearingOf(named, settings.scrubHeaders)
      running = start({ ...plan, ...around, headers, progress })
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
      place?.over()
      return resultOf(job, surroundings, plan, record, clock.monotonicMs() - startedMs)
    },
  }
}

/** Where the run says how far it is; checks of uptime are over before anybody could ask. */
function placeFor(
  { monitor, slot, onDemand }: Job,
  { startedAt, named }: RunRecord,
  known: Scrubber,
  board: ProgressBoard,
): ProgressPlace | undefined {
  const scrub = {
    text: (text: string) => known.text(named?.withoutSeen(named.text(text)) ?? text),
  }
  if (onDemand !== undefined) return board.begin(onDemand, scrub)
  if (laneOf(monitor) === 'uptime') return undefined
  return board.beginSlot({ monitorId: monitor.id, slot, startedAt }, scrub)
}

/** The program's own requests are watched for what else of them must not be told. */
function hearingOf(named: NamedTexts, scrubHeaders: readonly string[]): HeaderHearing {
  return {
    sensitive: sensitiveNames(scrubHeaders),
    saw: (name, value) => named.sawHeader(name, value),
  }
}

/** Files lose the known secrets, and what was seen while they came to be. */
function careOf(
  known: Scrubber,
  named: NamedTexts | undefined,
  files: FileKeep | undefined,
): FileCare {
  return {
    files,
    onFiles: wakeScrubThread,
    scrub(paths, cut) {
      const { secrets, headers } = known.settings
      const settings = { headers, secrets: [...secrets, ...(named?.secrets() ?? [])] }
      return scrubFiles(paths, { settings }, cut, undefined, (found) => named?.saw(found))
    },
    clean: (text) => known.text(named?.withoutSeen(text) ?? text),
  }
}

interface RunRecord {
  startedAt: number
  clockUncertaintyMs: number | undefined
  attempts: Attempt[]
  /** What attempts used beyond the definition. */
  undisclosed?: Record<string, unknown>[]
  /** Of user code, whose texts may hold anything. */
  named?: NamedTexts
  onSeen: RunnerSettings['onSeen']
  last: AttemptOutcome
  cancelled?: Failure
}

function recordOf(job: Job, { scrub }: RunPlan, { clock, onSeen }: RunnerSettings): RunRecord {
  const uncertaintyMs = clock.uncertaintyMs()
  const record: RunRecord = {
    startedAt: Math.round(clock.now()),
    // Rounding is part of it.
    clockUncertaintyMs: uncertaintyMs && Math.ceil(uncertaintyMs + 0.5),
    attempts: [],
    last: EMPTY_OBSERVATION,
    onSeen,
  }
  if (laneOf(job.monitor) === 'scripted') record.named = new NamedTexts(scrub)
  return record
}

function resultOf(
  job: Job,
  { location, variables }: Surroundings,
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
  const seen = scrubbed(plan, record, further)
  return {
    monitorId: monitor.id,
    monitorName: monitor.name,
    checkType: monitor.checkType,
    location,
    slot,
    ...(onDemand === undefined ? {} : { onDemand }),
    verdict: verdictOf(seen.failures, degraded),
    startedAt: record.startedAt,
    ...(clockUncertaintyMs === undefined ? {} : { clockUncertaintyMs }),
    durationMs: toMicroseconds(ranMs),
    ...(responseTimeMs === undefined ? {} : { responseTimeMs: toMicroseconds(responseTimeMs) }),
    ...seen,
    artifacts,
  }
}

// Names, ids and verdicts stay out of it: a secret that happens to be one of these words must not
// make a result that nobody can attribute.
function scrubbed(plan: RunPlan, record: RunRecord, further: Scrubber | undefined) {
  const { attempts, last, cancelled } = record
  const { failures } = last.observation
  const { leftOut = [] } = last
  const seen = last.observation.observed
  const observed = leftOut.length === 0 ? seen : { ...seen, artifactsLeftOut: leftOut }
  const perAttempt = attempts.map((one) => one.failures)
  const known = plan.scrub.value({ observed, failures, perAttempt })
  const disclosed = further === undefined ? known : further.value(known)
  const clean = record.named === undefined ? disclosed : withoutSeen(disclosed, record)
  // Cancelled between two attempts: what was seen stays visible, but is no verdict.
  const between = cancelled !== undefined && attempts.at(-1)?.verdict !== 'cancelled'
  return {
    observed: clean.observed,
    failures: between ? [cancelled, ...clean.failures] : clean.failures,
    attempts: attempts.map((one, at) => ({ ...one, failures: clean.perAttempt[at] ?? [] })),
  }
}

function withoutSeen<T>(value: T, { named, onSeen }: RunRecord): T {
  const clean = named?.value(value) ?? value
  const seen = named?.seen()
  if (seen === undefined) return clean
  onSeen?.(seen)
  return seen.value(clean)
}

const EMPTY_OBSERVATION: AttemptOutcome = {
  observation: { observed: {}, failures: [] },
  artifacts: [],
  abandoned: false,
}

function withFailures(failures: Failure[]): AttemptOutcome {
  return { observation: { observed: {}, failures }, artifacts: [], abandoned: false }
}

/** Faults of ours that may be gone a moment later. */
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
 * A failed attempt is tried again, and one that failed by a passing fault of ours. A degraded one is
 * not: the target answered; nor are bad settings, which stay bad.
 */
function isWorthRetrying(verdict: Verdict, failures: readonly Failure[]): boolean {
  if (verdict === 'failed') return true
  return verdict === 'errored' && failures.every(({ code }) => PASSING.has(code))
}

async function runToEnd(begin: () => Run, signal: AbortSignal, turn: AttemptTurn): Promise<Result> {
  let begun: Run | undefined
  const onAbort = () => begun?.cancel('the run was interrupted')
  // Begins with its first turn: the wait for that is no part of its duration.
  const beginNow = () => {
    begun = begin()
    if (signal.aborted) onAbort()
    return begun
  }
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    for (;;) {
      const waitMs = await turn(() => (begun ?? beginNow()).attempt())
      if (waitMs === undefined) return (begun ?? beginNow()).result()
      await pause(waitMs, signal)
    }
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Resolves after the time, or at once when the signal is aborted. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
    if (signal.aborted) done()
  })
}
