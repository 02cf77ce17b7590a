// The platform as a source of monitors: one long poll after the other, in which the agent says how it is
// and hears what is its own. While the platform is away the agent goes on with what it has.
import type { Registry } from 'prom-client'
import type { AgentFacts, SyncRequest } from '../../contract/protocol/agent-protocol.ts'
import type { Log } from '../../process/log.ts'
import { createAssignedMonitors, type AssignedMonitors } from './sync/assigned-monitors.ts'
import type { Clock } from '../schedule/clock.ts'
import { clockProblem, storedTime } from '../schedule/stored-clock.ts'
import { createKeptMonitors, type KeptMonitors, type Keeping } from './sync/stored-monitors.ts'
import type { PlatformLink } from './link.ts'
import { startProgressReporting } from '../run/progress-reporting.ts'
import { createPlatformTimeFollower, type PlatformTimeFollower } from './time-follower.ts'
import type { AgentReport, Change, Leaving, MonitorSource, SourceState } from '../source.ts'
import { MalformedAnswerError, monitorOf, readDefinition, type ReadAnswer } from './sync/answer.ts'
import { malformed, sync, type SyncOutcome } from './sync/call.ts'
import { createSyncState } from './sync/state.ts'
import { createSyncWait } from './sync/wait.ts'

/** What a platform source needs. */
export interface PlatformSourceOptions {
  link: PlatformLink
  clock: Clock
  /** Asked for each sync: the id may change. */
  facts: () => AgentFacts
  /** Another agent goes by the id: takes another one, or resolves with false when it cannot. */
  renewId: () => Promise<boolean>
  folder: Keeping
  /** Told of the settings of each answer. */
  onSettings?: (settings: ReadAnswer['settings']) => void
  /** Told when the platform answers for the first time, or again. */
  onBack?: () => void
  log: Log
  /** For tests: in [0, 1). */
  random?: () => number
  /** How long the platform is asked to hold a sync without news. */
  holdMs?: number
}

/** The exit code of an agent whose key can never work again. */
export const EXIT_REFUSED = 3

const HOLD_MS = 20_000
/** Without an answer for so long, what was kept on disk is used. */
const KEPT_AFTER_MS = 3000
/** Time for the platform to say whether others take over. */
const LEAVE_MS = 2000
/** What happens to runs on demand is told after this time, so that much of it is told at once. */
const RUNS_TOLD_AFTER_MS = 100
const CUTS_APART_MS = 1000

/** A source that can be told that there is no use in going on. */
export interface PlatformMonitorSource extends MonitorSource {
  end(reason: string, exitCode: number): void
}

/** Makes the source. It is followed once. */
export function createPlatformSource(options: PlatformSourceOptions): PlatformMonitorSource {
  return new PlatformSource(options)
}

class PlatformSource implements PlatformMonitorSource {
  readonly #options: PlatformSourceOptions
  readonly #held: AssignedMonitors = createAssignedMonitors()
  readonly #kept: KeptMonitors
  readonly #state: ReturnType<typeof createSyncState>
  readonly #wait: ReturnType<typeof createSyncWait>
  readonly #time: PlatformTimeFollower
  #last: ReadAnswer | undefined
  #have: string | null = null
  #hasTriedKept = false
  #renewals = 0
  /** Ends the sync or the wait that is under way. */
  #cut: AbortController | undefined
  #isHeld = false
  #hasSynced = false
  #cutForRunsAtMs = Number.NEGATIVE_INFINITY
  #leaving: (Leaving & { told: (isTaken: boolean) => void; isTold: boolean }) | undefined
  #runsTimer: NodeJS.Timeout | undefined
  #over: Change | undefined

  constructor(options: PlatformSourceOptions) {
    this.#options = options
    this.#kept = createKeptMonitors(options.folder, options.log)
    options.folder.onTaken?.(() => this.#last !== undefined && this.#keepSoon())
    this.#state = createSyncState(options.log)
    this.#wait = createSyncWait(options.random)
    this.#time = createPlatformTimeFollower(options.clock, options.log)
  }

  async *follow(stop: AbortSignal, report: AgentReport): AsyncGenerator<Change, void, undefined> {
    const onStop = () => this.#cut?.abort()
    stop.addEventListener('abort', onStop)
    report.onRunsChanged(() => this.#runsChanged())
    const { progress: board } = report
    const endTelling = board && startProgressReporting({ ...this.#options, board })
    try {
      while (!stop.aborted) {
        if (this.#over !== undefined) {
          yield this.#over
          return
        }
        const asking = this.#ask(report)
        if (await this.#isLate(asking)) yield* await this.#fromKept()
        const outcome = await asking
        if (outcome.kind === 'failed' && !this.#state.hasMonitors) yield* await this.#fromKept()
        const { changes, waitMs } = await this.#changesOf(outcome)
        yield* changes
        // Not when somebody cut in meanwhile: then there is something to say.
        const isCalm: boolean = this.#cut?.signal.aborted !== true
        if (waitMs > 0 && isCalm && !stop.aborted) await this.#pause(waitMs)
      }
    } finally {
      stop.removeEventListener('abort', onStop)
      clearTimeout(this.#runsTimer)
      endTelling?.()
      this.#leaving?.told(false)
      await this.#kept.flush()
    }
  }

  leave(leaving: Leaving): Promise<boolean> {
    // A platform that was never heard of has nobody to tell.
    if (!this.#hasSynced) return Promise.resolve(false)
    return new Promise((resolve) => {
      const late = setTimeout(() => resolve(false), LEAVE_MS)
      const told = (isTaken: boolean) => {
        clearTimeout(late)
        resolve(isTaken)
      }
      this.#leaving = { ...leaving, told, isTold: false }
      this.#cut?.abort()
    })
  }

  end(reason: string, exitCode: number): void {
    this.#over ??= { kind: 'over', reason, exitCode }
    this.#cut?.abort()
  }

  state(): SourceState {
    return this.#state.shown()
  }

  registerMetrics(registry: Registry): void {
    this.#state.register(registry)
  }

  /** What the agent has to say shall not wait until the hold ends; but cuts must not follow each other. */
  #runsChanged(): void {
    if (this.#runsTimer !== undefined) return
    const sinceCutMs = performance.now() - this.#cutForRunsAtMs
    const waitMs = Math.max(RUNS_TOLD_AFTER_MS, CUTS_APART_MS - sinceCutMs)
    this.#runsTimer = setTimeout(() => {
      this.#runsTimer = undefined
      if (!this.#isHeld) return
      this.#cutForRunsAtMs = performance.now()
      this.#cut?.abort()
    }, waitMs)
  }

  async #ask(report: AgentReport): Promise<SyncOutcome> {
    // What it has to say about runs it says now.
    clearTimeout(this.#runsTimer)
    this.#runsTimer = undefined
    this.#cut = new AbortController()
    const request = this.#request(report)
    this.#isHeld = request.waitMs > 0
    const outcome = await sync(this.#options.link, request, this.#cut.signal)
    this.#isHeld = false
    return outcome
  }

  #request(report: AgentReport): SyncRequest {
    const leaving = this.#leaving
    const said =
      leaving === undefined
        ? { state: 'running' as const }
        : {
            state: 'leaving' as const,
            leftAt: leaving.leftAt,
            ...(leaving.isTold ? {} : { notStarted: leaving.notStarted.slice(0, NOT_STARTED_MAX) }),
          }
    const networkProblem = report.network?.()
    // An agent that is told something, or needs the time, is answered at once.
    const isNews = !this.#hasSynced || this.#time.isVague() || leaving?.isTold === false
    return {
      agent: this.#options.facts(),
      ...said,
      have: this.#have,
      runs: report.runs(),
      queues: queuesOf(report),
      ...(networkProblem === undefined ? {} : { networkProblem }),
      waitMs: isNews ? 0 : (this.#options.holdMs ?? HOLD_MS),
    }
  }

  /** Whether there are no monitors yet and the platform takes its time. */
  async #isLate(asking: Promise<SyncOutcome>): Promise<boolean> {
    if (this.#state.hasMonitors || this.#hasTriedKept) return false
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(true), KEPT_AFTER_MS)
    })
    const isLate = await Promise.race([late, asking.then(() => false)])
    clearTimeout(timer)
    return isLate
  }

  /** The monitors that were kept on disk, once; not yet while this machine's clock is certainly wrong. */
  async #fromKept(): Promise<Change[]> {
    if (this.#hasTriedKept) return []
    const kept = await this.#kept.read()
    const { clock, log } = this.#options
    const problem = kept === undefined ? undefined : clockProblem(kept.time)
    if (problem !== undefined) {
      const { offMs, message } = problem
      if (this.#state.clockProblem !== message) log.warn({ offMs }, message)
      this.#state.clockProblem = message
      return []
    }
    this.#state.clockProblem = undefined
    this.#hasTriedKept = true
    if (kept === undefined) return []
    const { answer, time } = kept
    try {
      clock.follow(Date.now() + time.aheadMs)
      const changes = await this.#take(answer)
      this.#state.aheadMs = time.aheadMs
      this.#state.isOnKept = true
      const monitors = this.#held.assignments().size
      log.info({ monitors }, 'the platform is away; monitors that were kept on disk run')
      return changes
    } catch (error) {
      if (error instanceof MalformedAnswerError) return []
      throw error
    }
  }

  async #changesOf(outcome: SyncOutcome): Promise<{ changes: Change[]; waitMs: number }> {
    const { log } = this.#options
    switch (outcome.kind) {
      case 'cut':
        return { changes: [], waitMs: 0 }
      case 'answered':
        return this.#answered(outcome)
      case 'failed': {
        const { problem, askedForMs } = outcome
        this.#state.failed(problem)
        if (problem.isRefusal) this.#leaving?.told(false)
        const waitMs = problem.isRefusal ? this.#wait.slow(askedForMs) : this.#wait.next(askedForMs)
        log.debug({ code: problem.code, waitMs: Math.round(waitMs) }, 'sync failed')
        return { changes: [], waitMs }
      }
      case 'revoked': {
        const { message } = outcome
        this.#state.failed({ code: 'REVOKED', message, isRefusal: true })
        this.end(message, EXIT_REFUSED)
        return { changes: [], waitMs: 0 }
      }
      case 'twin':
        break
    }
    return { changes: [], waitMs: await this.#renew() }
  }

  /** A copy of this agent's folder is in use elsewhere: this one goes on under another name. */
  async #renew(): Promise<number> {
    const message = 'another agent goes by the id of this one, as after a copy of its DATA_DIR'
    const isNew = this.#renewals < RENEWALS_MAX && (await this.#options.renewId())
    this.#renewals++
    if (isNew) {
      this.#options.log.warn(`${message}; this one takes a new id`)
      this.#have = null
      return 0
    }
    this.#state.failed({ code: 'HTTP_409', message, isRefusal: true })
    return this.#wait.slow(undefined)
  }

  async #answered({
    answer,
    link,
  }: SyncOutcome & { kind: 'answered' }): Promise<{ changes: Change[]; waitMs: number }> {
    try {
      const { receivedAt, sentAt: replySentAt } = answer
      this.#time.take({ ...link, receivedAt, replySentAt })
      this.#state.aheadMs = this.#time.aheadMs
      const orders = ordersOf(answer)
      const news = await this.#take(answer)
      this.#hasSynced = true
      this.#wait.reset()
      const isBack = this.#state.succeeded(answer.revision)
      this.#options.onSettings?.(answer.settings)
      if (isBack) this.#options.onBack?.()
      const leaving = this.#leaving
      // An answer to what was asked before the agent left says nothing about its successors.
      if (leaving !== undefined && this.#cut?.signal.aborted === false && !leaving.isTold) {
        leaving.isTold = true
        leaving.told(answer.peers > 0)
      }
      return { changes: [...news, ...orders], waitMs: 0 }
    } catch (error) {
      if (!(error instanceof MalformedAnswerError)) throw error
      const problem = malformed(error)
      this.#state.failed(problem)
      return { changes: [], waitMs: this.#wait.next(undefined) }
    }
  }

  /** Takes what the answer changes; throws MalformedAnswerError, then nothing has changed. */
  async #take(answer: ReadAnswer): Promise<Change[]> {
    const { changes, location, revision } = answer
    const before = this.#last
    if (changes !== null) await this.#held.take(changes, this.#options.clock.now())
    const isSameLocation =
      before?.location.slugName === location.slugName &&
      before.location.proxyUrl === location.proxyUrl
    this.#have = revision
    const variables = changes?.variables ?? before?.changes?.variables ?? []
    const shell = { whole: true, set: [], drop: [], variables }
    this.#last = { ...answer, runs: [], cancel: [], changes: shell }
    if (changes === null && isSameLocation) return []
    this.#keepSoon()
    this.#state.hasMonitors = true
    const { slugName, proxyUrl, accountId } = location
    const snapshot = {
      location: slugName,
      ...(proxyUrl === null ? {} : { proxyUrl }),
      ...(accountId === undefined ? {} : { accountId }),
      variables,
      monitors: this.#held.monitors(),
      assignments: this.#held.assignments(),
    }
    return [{ kind: 'monitors', snapshot }]
  }

  #keepSoon(): void {
    this.#kept.soon(() => {
      const { location, revision, settings, changes } = this.#last as ReadAnswer
      return {
        answer: { location, revision, settings, variables: changes?.variables ?? [] },
        monitors: this.#held.assignments().values(),
        time: storedTime(this.#options.clock.now()),
      }
    })
  }

  /** Waits, unless the agent has something to say. */
  #pause(ms: number): Promise<void> {
    const cut = new AbortController()
    this.#cut = cut
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(done, ms)
      cut.signal.addEventListener('abort', done, { once: true })
    })
  }
}

/** Runs that are asked for and those that are to end. */
function ordersOf({ runs, cancel }: ReadAnswer): Change[] {
  const asked = runs.map(({ run, monitor }): Change => {
    const definition = readDefinition(monitor)
    return { kind: 'run', run, monitorId: definition.id, monitor: monitorOf(definition) }
  })
  return [...asked, ...cancel.map((run): Change => ({ kind: 'cancel', run }))]
}

/** New ids that one process takes; more would mean that something else is wrong. */
const RENEWALS_MAX = 3
/** Slots that are named in one request; its size is bounded on the other side. */
const NOT_STARTED_MAX = 100_000

/** The queues as a sync says them, with the slots of code that run. */
function queuesOf(report: AgentReport): SyncRequest['queues'] {
  const { uptime, scripted } = report.queues()
  const slots = report.progress?.slots() ?? []
  return { uptime, scripted: slots.length === 0 ? scripted : { ...scripted, slots } }
}
