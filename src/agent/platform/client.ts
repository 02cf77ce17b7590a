// The platform as a source of monitors: consecutive long polls that report the agent's state and return its
// monitors. While the platform is unreachable, the agent continues with the monitors it has.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Registry } from 'prom-client'
import type { AgentFacts, SyncRequest } from '../../contract/protocol/agent-protocol.ts'
import { EXIT } from '../../process/exit-codes.ts'
import type { Log } from '../../process/log.ts'
import { AssignedMonitors } from './sync/assigned-monitors.ts'
import type { Clock } from '../schedule/clock.ts'
import { clockProblem, storedTime } from '../schedule/stored-clock.ts'
import { StoredMonitors, type FileStore, type StoredAnswer } from './sync/stored-monitors.ts'
import type { PlatformLink } from './link.ts'
import { startProgressReporting } from '../run/progress-board.ts'
import { PlatformTime } from './time.ts'
import type { AgentReport, Change, Leaving, MonitorSource, SourceState } from '../source.ts'
import { MalformedAnswerError, monitorOf, readDefinition, type ReadAnswer } from './sync/answer.ts'
import { malformed, sync, type SyncOutcome } from './sync/call.ts'
import { SyncState } from './sync/state.ts'
import { Backoff } from './backoff.ts'

export interface PlatformSourceOptions {
  link: PlatformLink
  clock: Clock
  /** Called for each sync: the id may change. */
  facts: () => AgentFacts
  /** Another agent uses the id: changes it. */
  renewId: () => Promise<void>
  folder: FileStore
  /** Receives the settings of each answer. */
  onSettings?: (settings: ReadAnswer['settings']) => void
  /** Called when the platform answers for the first time, or again. */
  onBack?: () => void
  log: Log
  /** For tests: in [0, 1). */
  random?: () => number
}

/** How long the platform may wait with its answer to a sync without changes. */
const HOLD_MS = 20_000
/** Time without an answer until the monitors on disk are used. */
const RESTORE_AFTER_MS = 3000
/** Time for the platform to answer whether others take over. */
const LEAVE_MS = 2000
/** Progress of runs on demand is reported after this delay, so that one report has several changes. */
const REPORT_RUNS_AFTER_MS = 100
const CUTS_APART_MS = 1000

/** Is followed once. */
export class PlatformSource implements MonitorSource {
  readonly #options: PlatformSourceOptions
  readonly #assigned = new AssignedMonitors()
  readonly #stored: StoredMonitors
  readonly #state: SyncState
  readonly #wait: Backoff
  readonly #time: PlatformTime
  #last: StoredAnswer | undefined
  #have: string | null = null
  #hasTriedStored = false
  #renewals = 0
  /** Ends the sync or the wait that is under way. */
  #cut: AbortController | undefined
  #isSyncWaiting = false
  #hasSynced = false
  #cutForRunsAtMs = Number.NEGATIVE_INFINITY
  #leaving: (Leaving & { settle: (isAccepted: boolean) => void; isReported: boolean }) | undefined
  #runsTimer: NodeJS.Timeout | undefined
  #over: Change | undefined

  constructor(options: PlatformSourceOptions) {
    this.#options = options
    this.#stored = new StoredMonitors(options.folder, options.log)
    options.folder.onAvailable?.(() => this.#last !== undefined && this.#storeSoon())
    this.#state = new SyncState(options.log)
    this.#wait = new Backoff(options.random)
    this.#time = new PlatformTime(options.clock, options.log)
  }

  async *follow(stop: AbortSignal, report: AgentReport): AsyncGenerator<Change, void, undefined> {
    const onStop = () => this.#cut?.abort()
    stop.addEventListener('abort', onStop)
    report.onRunsChanged(() => this.#runsChanged())
    const { progress: board } = report
    const endReporting = board && startProgressReporting({ ...this.#options, board })
    try {
      while (!stop.aborted) {
        if (this.#over !== undefined) {
          yield this.#over
          return
        }
        const asking = this.#ask(report)
        if (await this.#isLate(asking)) yield* await this.#fromStored()
        const outcome = await asking
        if (outcome.kind === 'failed' && !this.#state.hasMonitors) yield* await this.#fromStored()
        const { changes, waitMs } = await this.#changesOf(outcome)
        yield* changes
        // An interruption means that there is something to report.
        const isCalm: boolean = this.#cut?.signal.aborted !== true
        if (waitMs > 0 && isCalm && !stop.aborted) await this.#pause(waitMs)
      }
    } finally {
      stop.removeEventListener('abort', onStop)
      clearTimeout(this.#runsTimer)
      endReporting?.()
      this.#leaving?.settle(false)
      await this.#stored.flush()
    }
  }

  async leave(leaving: Leaving): Promise<boolean> {
    // Without a sync the platform does not know this agent.
    if (!this.#hasSynced) return false
    const { promise: isAccepted, resolve: settle } = Promise.withResolvers<boolean>()
    this.#leaving = { ...leaving, settle, isReported: false }
    this.#cut?.abort()
    return Promise.race([isAccepted, sleep(LEAVE_MS, false, { ref: false })])
  }

  /** Ends the agent. */
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

  /** A change interrupts the waiting sync; interruptions are at least a second apart. */
  #runsChanged(): void {
    if (this.#runsTimer !== undefined) return
    const sinceCutMs = performance.now() - this.#cutForRunsAtMs
    const waitMs = Math.max(REPORT_RUNS_AFTER_MS, CUTS_APART_MS - sinceCutMs)
    this.#runsTimer = setTimeout(() => {
      this.#runsTimer = undefined
      if (!this.#isSyncWaiting) return
      this.#cutForRunsAtMs = performance.now()
      this.#cut?.abort()
    }, waitMs)
  }

  async #ask(report: AgentReport): Promise<SyncOutcome> {
    // This request reports the runs.
    clearTimeout(this.#runsTimer)
    this.#runsTimer = undefined
    this.#cut = new AbortController()
    const request = this.#request(report)
    this.#isSyncWaiting = request.waitMs > 0
    const outcome = await sync(this.#options.link, request, this.#cut.signal)
    this.#isSyncWaiting = false
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
            ...(!leaving.isReported && {
              notStarted: leaving.notStarted.slice(0, NOT_STARTED_MAX),
            }),
          }
    const networkProblem = report.network?.()
    // An agent that reports a change, or needs the time, wants an immediate answer.
    const isNews = !this.#hasSynced || this.#time.isVague() || leaving?.isReported === false
    return {
      agent: this.#options.facts(),
      ...said,
      have: this.#have,
      runs: report.runs(),
      queues: queuesOf(report),
      ...(networkProblem === undefined ? {} : { networkProblem }),
      waitMs: isNews ? 0 : HOLD_MS,
    }
  }

  /** Whether there are no monitors yet and the platform answers slowly. */
  async #isLate(asking: Promise<SyncOutcome>): Promise<boolean> {
    if (this.#state.hasMonitors || this.#hasTriedStored) return false
    const late = sleep(RESTORE_AFTER_MS, true, { ref: false })
    return Promise.race([late, asking.then(() => false)])
  }

  /** The monitors on disk, once; not while this machine's clock is certainly wrong. */
  async #fromStored(): Promise<Change[]> {
    if (this.#hasTriedStored) return []
    const stored = await this.#stored.read()
    const { clock, log } = this.#options
    const problem = stored === undefined ? undefined : clockProblem(stored.time)
    if (problem !== undefined) {
      const { offMs, message } = problem
      if (this.#state.clockProblem !== message) log.warn({ offMs }, message)
      this.#state.clockProblem = message
      return []
    }
    this.#state.clockProblem = undefined
    this.#hasTriedStored = true
    if (stored === undefined) return []
    const { answer, time } = stored
    try {
      clock.follow(Date.now() + time.aheadMs)
      const changes = await this.#apply(answer)
      this.#state.aheadMs = time.aheadMs
      this.#state.isOnStored = true
      const monitors = this.#assigned.all.size
      log.info({ monitors }, 'the platform is unreachable; the stored monitors run')
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
        if (problem.isRefusal) this.#leaving?.settle(false)
        const waitMs = problem.isRefusal ? this.#wait.slow(askedForMs) : this.#wait.next(askedForMs)
        log.debug({ code: problem.code, waitMs: Math.round(waitMs) }, 'sync failed')
        return { changes: [], waitMs }
      }
      case 'revoked': {
        const { message } = outcome
        this.#state.failed({ code: 'REVOKED', message, isRefusal: true })
        this.end(message, EXIT.noPlatform)
        return { changes: [], waitMs: 0 }
      }
      case 'twin':
        break
    }
    return { changes: [], waitMs: await this.#renew() }
  }

  /** A copy of this agent's folder is in use elsewhere: this agent continues under another id. */
  async #renew(): Promise<number> {
    const message = 'another agent has the same id, as after a copy of DATA_DIR'
    if (this.#renewals++ < RENEWALS_MAX) {
      await this.#options.renewId()
      this.#options.log.warn(`${message}; this agent uses a new id`)
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
      this.#time.add({ ...link, receivedAt, replySentAt })
      this.#state.aheadMs = this.#time.aheadMs
      const orders = ordersOf(answer)
      const news = await this.#apply(answer)
      this.#hasSynced = true
      this.#wait.reset()
      const isBack = this.#state.succeeded(answer.revision)
      this.#options.onSettings?.(answer.settings)
      if (isBack) this.#options.onBack?.()
      const leaving = this.#leaving
      // An answer to what was asked before the agent left says nothing about its successors.
      if (leaving !== undefined && this.#cut?.signal.aborted === false && !leaving.isReported) {
        leaving.isReported = true
        leaving.settle(answer.peers > 0)
      }
      return { changes: [...news, ...orders], waitMs: 0 }
    } catch (error) {
      if (!(error instanceof MalformedAnswerError)) throw error
      const problem = malformed(error)
      this.#state.failed(problem)
      return { changes: [], waitMs: this.#wait.next(undefined) }
    }
  }

  /** Applies the changes of the answer; throws MalformedAnswerError, then nothing has changed. */
  async #apply(answer: ReadAnswer): Promise<Change[]> {
    const { changes, location, revision, settings } = answer
    const before = this.#last
    if (changes !== null) await this.#assigned.apply(changes, this.#options.clock.now())
    const isSameLocation =
      before?.location.slugName === location.slugName &&
      before.location.proxyUrl === location.proxyUrl
    this.#have = revision
    const variables = changes?.variables ?? before?.variables ?? []
    this.#last = { location, revision, settings, variables }
    if (changes === null && isSameLocation) return []
    this.#storeSoon()
    this.#state.hasMonitors = true
    const { slugName, proxyUrl, accountId } = location
    const assignments = this.#assigned.all
    const snapshot = {
      location: slugName,
      ...(proxyUrl === null ? {} : { proxyUrl }),
      ...(accountId === undefined ? {} : { accountId }),
      variables,
      monitors: [...assignments.values()].map(({ monitor }) => monitor),
      assignments,
    }
    return [{ kind: 'monitors', snapshot }]
  }

  #storeSoon(): void {
    this.#stored.soon(() => ({
      answer: this.#last as StoredAnswer,
      monitors: this.#assigned.all.values(),
      time: storedTime(this.#options.clock.now()),
    }))
  }

  /** Waits, unless the agent has something to report. */
  async #pause(ms: number): Promise<void> {
    this.#cut = new AbortController()
    await sleep(ms, undefined, { signal: this.#cut.signal }).catch(() => undefined)
  }
}

/** Runs to start and runs to cancel. */
function ordersOf({ runs, cancel }: ReadAnswer): Change[] {
  const asked = runs.map(({ run, monitor }): Change => {
    const definition = readDefinition(monitor)
    return { kind: 'run', run, monitorId: definition.id, monitor: monitorOf(definition) }
  })
  return [...asked, ...cancel.map((run): Change => ({ kind: 'cancel', run }))]
}

/** New ids of one process at most; more would mean that something else is wrong. */
const RENEWALS_MAX = 3
/** Slots in one request; the platform bounds its size. */
const NOT_STARTED_MAX = 100_000

/** The queues as a sync reports them, with the slots of running code. */
function queuesOf(report: AgentReport): SyncRequest['queues'] {
  const { uptime, scripted } = report.queues()
  const slots = report.progress?.slots() ?? []
  return { uptime, scripted: slots.length === 0 ? scripted : { ...scripted, slots } }
}
