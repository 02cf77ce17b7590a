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
import {
  startAttempt,
  type AttemptOutcome,
  type RunningAttempt,
  startUndelayed,
  ownFault,
} from './attempt.ts'
import type { Clock } from '../schedule/clock.ts'
import { NamedTexts, undisclosedSecrets } from './named-texts.ts'
import type { ProgressBoard, ProgressReporter } from './progress-board.ts'
import {
  createPlanner,
  isProgram,
  queueClassOf,
  type LocationContext,
  type RunPlan,
} from './run-plan.ts'
import { ALL_SCRUBBED, type Scrubber, scrubsAll } from '../redaction/scrub.ts'
import { scrubFiles } from '../redaction/scrub-files.ts'
import type { FileStaging } from '../sink.ts'
import type { FileCare } from './work-folder.ts'

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
  /** Called when a run of user code begins, with the scrubber of its texts. */
  onNamed?: ((named: NamedTexts) => void) | undefined
  /** A monitor did not end after its abort, which is a fault in it. */
  onAbandoned?: (checkType: string) => void
  /** Receives faults of the agent itself, unscrubbed. */
  onFault?: ((fault: Fault) => void) | undefined
}

/** Creates a runner. It makes the plan of a monitor once, while its location context stays the same. */
export function createRunner(settings: RunnerSettings): Runner {
  const planFor = createPlanner(settings.types, settings.scrubHeaders)
  const begin = (job: Job, locationContext: LocationContext) =>
    new JobRun(job, locationContext, planFor(job.monitor, locationContext), settings)
  return {
    begin,
    run: (job, locationContext, signal, turn = (attempt) => attempt()) =>
      runToEnd(() => begin(job, locationContext), signal, turn),
  }
}

class JobRun implements Run {
  readonly #job: Job
  readonly #place: LocationContext
  readonly #plan: RunPlan
  readonly #settings: RunnerSettings
  readonly #startedAt: number
  readonly #startedMs: number
  readonly #clockUncertaintyMs: number | undefined
  /** For user code, whose output may contain any secret. */
  readonly #named: NamedTexts | undefined
  readonly #reporter: ProgressReporter | undefined
  readonly #attempts: Attempt[] = []
  /** Values that attempts used beyond the definition. */
  readonly #undisclosed: Record<string, unknown>[] = []
  /** Values of headers of earlier attempts, whose failures the result has, too. */
  readonly #earlier: string[] = []
  #last = withFailures([])
  #running: RunningAttempt | undefined
  #cancelled: Failure | undefined

  constructor(job: Job, place: LocationContext, plan: RunPlan, settings: RunnerSettings) {
    const { clock, progress } = settings
    this.#job = job
    this.#place = place
    this.#plan = plan
    this.#settings = settings
    this.#startedAt = Math.round(clock.now())
    this.#startedMs = clock.monotonicMs()
    const uncertaintyMs = clock.uncertaintyMs()
    // Rounding is part of it.
    this.#clockUncertaintyMs = uncertaintyMs && Math.ceil(uncertaintyMs + 0.5)
    const isScripted = queueClassOf(job.monitor) === 'scripted'
    this.#named = isScripted ? new NamedTexts(plan.scrub) : undefined
    if (this.#named !== undefined) settings.onNamed?.(this.#named)
    this.#reporter = progress && this.#reporterOn(progress)
  }

  async attempt(): Promise<number | undefined> {
    if (this.#isCancelled()) return undefined
    const { clock, onAbandoned, onRetry } = this.#settings
    const { monitor } = this.#job
    const began = { at: Math.round(clock.now()), ms: clock.monotonicMs() }
    if ('problems' in this.#plan) {
      this.#add(began, withFailures(this.#plan.problems))
      return undefined
    }
    // Programs measure time in their own processes, and are too long to repeat.
    const start = isProgram(monitor) ? startAttempt : startUndelayed
    const { workRoot, workFolders } = this.#settings
    const context = this.#contextOf(this.#plan)
    this.#running = start({ ...this.#plan, workRoot, workFolders, care: this.#care(), context })
    const outcome = await this.#running.outcome
    this.#running = undefined
    if (outcome.abandoned) onAbandoned?.(monitor.checkType)
    const verdict = this.#add(began, outcome)
    const { failures } = outcome.observation
    if (this.#isCancelled() || !isWorthRetrying(verdict, failures)) return undefined
    const attempts = this.#attempts.length
    const elapsedMs = clock.monotonicMs() - this.#startedMs
    const waitMs = retryWaitMs(monitor.retryStrategy, { attempts, elapsedMs, failures })
    if (waitMs !== undefined) onRetry?.(monitor.checkType)
    return waitMs
  }

  #isCancelled(): boolean {
    return this.#cancelled !== undefined
  }

  cancel(reason: string): void {
    this.#cancelled ??= failure('CANCELLED', reason)
    this.#running?.cancel(reason)
  }

  result(): Result {
    this.#reporter?.over()
    const { monitor, slot, onDemand } = this.#job
    const { observation, artifacts } = this.#last
    const { responseTimeMs, degraded = false } = observation
    const ranMs = this.#settings.clock.monotonicMs() - this.#startedMs
    const uncertaintyMs = this.#clockUncertaintyMs
    const clean = this.#scrubbed()
    return {
      monitorId: monitor.id,
      monitorName: monitor.name,
      checkType: monitor.checkType,
      location: this.#place.location,
      slot,
      ...(onDemand === undefined ? {} : { onDemand }),
      verdict: verdictOf(clean.failures, degraded),
      startedAt: this.#startedAt,
      ...(uncertaintyMs === undefined ? {} : { clockUncertaintyMs: uncertaintyMs }),
      durationMs: toMicroseconds(ranMs),
      ...(responseTimeMs === undefined ? {} : { responseTimeMs: toMicroseconds(responseTimeMs) }),
      ...clean,
      artifacts,
    }
  }

  /** Records the outcome of an attempt. */
  #add(began: { at: number; ms: number }, outcome: AttemptOutcome): Verdict {
    const { clock, onFault } = this.#settings
    const { observation, discarded } = outcome
    for (const one of [this.#last.observation, discarded])
      if (one !== undefined) this.#earlier.push(...this.#plan.scrub.namedIn(one.observed))
    for (const one of [discarded, observation])
      if (one?.undisclosed !== undefined) this.#undisclosed.push(one.undisclosed)
    this.#last = outcome
    const { failures, degraded = false } = observation
    const verdict = verdictOf(failures, degraded)
    const durationMs = toMicroseconds(clock.monotonicMs() - began.ms)
    this.#attempts.push({ startedAt: began.at, durationMs, verdict, failures })
    for (const one of failures) {
      const fault = ownFault(one, this.#job.monitor.checkType)
      if (fault !== undefined) onFault?.(fault)
    }
    return verdict
  }

  #contextOf({ variables, written }: Exclude<RunPlan, { problems: Failure[] }>) {
    const { scripts, source, scrubHeaders } = this.#settings
    const { dial, location, accountId } = this.#place
    const reporter = this.#reporter
    const headers = this.#named && this.#headersFor(this.#named, scrubHeaders)
    return {
      dial,
      location,
      scripts,
      variables,
      source: source ?? (this.#job.onDemand === undefined ? 'SCHEDULER' : 'TRIGGER_API'),
      ...(accountId !== undefined && { accountId }),
      ...(written && { written }),
      ...(headers && { headers }),
      ...(reporter && { progress: (at: RunProgress) => reporter.report(at) }),
    }
  }

  /** Collects the values of sensitive headers in a program's own requests, and new values of its variables. */
  #headersFor(named: NamedTexts, scrubHeaders: readonly string[]) {
    const hidden = this.#variables().filter((one) => one.secret || one.locked)
    const names = new Set(hidden.map(({ key }) => key))
    return {
      sensitive: sensitiveNames(scrubHeaders),
      saw: (name: string, value: string) => {
        if (name === '') named.giveUp()
        else if (names.has(name)) named.addValues([value])
        else named.addHeader(name, value)
      },
    }
  }

  /** Reports the progress of the run; uptime checks are too short to need it. */
  #reporterOn(board: ProgressBoard): ProgressReporter | undefined {
    const { monitor, slot, onDemand } = this.#job
    const named = this.#named
    const scrub = named ?? this.#plan.scrub
    if (onDemand !== undefined) return board.begin({ run: onDemand }, scrub)
    if (named === undefined) return undefined
    return board.begin({ monitorId: monitor.id, slot, startedAt: this.#startedAt }, scrub)
  }

  /** For the known secrets and those that the run observed. */
  #scrubber(): Scrubber {
    return this.#named?.scrubber() ?? this.#plan.scrub
  }

  #care(): FileCare {
    const named = this.#named
    return {
      files: this.#settings.files,
      scrub: (paths, cut) => {
        const scrubber = this.#scrubber()
        return scrubFiles(paths, scrubber, cut, undefined, (found) => named?.addValues(found))
      },
      clean: (text) => this.#scrubber().text(text),
    }
  }

  // Names, ids, codes and verdicts are not scrubbed: a secret equal to one of them must not make the result
  // unattributable.
  #scrubbed() {
    const { observation, leftOut = [] } = this.#last
    const { failures } = observation
    const observed =
      leftOut.length === 0
        ? observation.observed
        : { ...observation.observed, artifactsLeftOut: leftOut }
    const perAttempt = this.#attempts.map((one) => one.failures)
    const { scrub } = this.#plan
    const undisclosed = undisclosedSecrets(this.#undisclosed, scrub, this.#variables())
    const more = [...undisclosed, ...this.#earlier]
    const raw = { observed, failures, perAttempt }
    const clean = this.#named?.value(raw, more) ?? scrub.and(more).value(raw)
    const coded = withCodes(clean.failures, failures)
    // Cancelled between two attempts: the observation stays visible, but is no verdict.
    const cancelled = this.#attempts.at(-1)?.verdict === 'cancelled' ? undefined : this.#cancelled
    return {
      observed:
        this.#named !== undefined && scrubsAll(this.#named.scrubber().and(more))
          ? { ...clean.observed, artifactsLeftOut: [ALL_SCRUBBED] }
          : clean.observed,
      failures: cancelled === undefined ? coded : [cancelled, ...coded],
      attempts: this.#attempts.map((one, at) => ({
        ...one,
        failures: withCodes(clean.perAttempt[at] ?? [], one.failures),
      })),
    }
  }

  #variables() {
    return [...this.#place.variables, ...this.#job.monitor.environmentVariables]
  }
}

/** Scrubbed failures with the codes that they had. */
function withCodes(clean: readonly Failure[], failures: readonly Failure[]): Failure[] {
  return clean.map((one, at) => ({ ...one, code: failures[at]?.code ?? one.code }))
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
