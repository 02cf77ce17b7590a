// The agent: follows a source of monitors, runs them by the timetable, delivers their results, and
// stops without losing any.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Result } from '../contract/result.ts'
import { everyMs } from '../contract/timetable.ts'
import type { Monitor } from '../contract/monitor.ts'
import { VERSION } from '../contract/versions.ts'
import type { NetworkProblem } from '../contract/failure.ts'
import type { FaultReports } from '../process/faults/reports.ts'
import type { Log } from '../process/log.ts'
import { serve, type Served } from '../process/serve.ts'
import type { Dialler } from '../network/dial.ts'
import type { AnyMonitorType } from '../monitors/monitor.ts'
import { METRICS } from '../monitors/definitions.ts'
import type { ScriptHost } from '../scripts/host.ts'
import { createClock, jumpText, type Clock, type ClockJump } from './schedule/clock.ts'
import type { AgentConfig } from './config.ts'
import { createHealth, type HealthSources, type Phase, sandboxFacts } from './health.ts'
import { JobQueues, type Successors, type Watch } from './schedule/job-queues.ts'
import { createAgentMetrics, type AgentMetrics } from './metrics.ts'
import { createMonitorMetrics, type MonitorMetrics } from './monitor-metrics.ts'
import { createNetworkState } from './network-state.ts'
import type { OwnProblem } from './own-problem.ts'
import { ProgressBoard } from './run/progress-board.ts'
import { nextLocationContext, type LocationContext } from './run/run-plan.ts'
import { createRunner } from './run/runner.ts'
import { rangeOf, RunningTimetable } from './schedule/running-timetable.ts'
import { PendingResults } from './pending-results.ts'
import type { ResultSink } from './sink.ts'
import { rowsOf } from './schedule/passed-slots.ts'
import type { SlotLedger } from './schedule/slot-ledger.ts'
import type { AgentReport, Change, MonitorSource, Snapshot } from './source.ts'

export type AgentSettings = Pick<
  AgentConfig,
  'healthPort' | 'jobConcurrency' | 'uptimeConcurrency' | 'drainMs' | 'workRoot' | 'scrubHeaders'
> &
  Partial<Pick<AgentConfig, 'healthHost'>>

export interface AgentOptions {
  config: AgentSettings
  source: MonitorSource
  sink: ResultSink
  types: ReadonlyMap<string, AnyMonitorType>
  /** Creates the egress to the network, through the location's proxy if it has one. */
  dial: (proxyUrl: string | undefined) => Dialler
  log: Log
  clock?: Clock
  /** Where user code runs; without it, it does not. */
  scripts?: ScriptHost | undefined
  /** The ledger of slots across restarts; without it there is none. */
  ledger?: SlotLedger | undefined
  /** Receives faults of the program. */
  faults?: FaultReports | undefined
  /** Whether DATA_DIR can be written to. */
  dataFolder?: OwnProblem
  /** Receives every result before it is delivered; must not throw. */
  onResult?: (result: Result) => void
}

/** For the sink, after the last run. */
const DELIVERY_MS_MAX = 10_000
const HEALTH_CLOSE_MS = 1000
/** Time for the source to end. */
const SOURCE_END_MS = 5000

/** It does nothing before `start()`. */
export class Agent {
  /** Resolves with the exit code when the agent has stopped. */
  readonly stopped: Promise<number>
  readonly #options: AgentOptions
  readonly #clock: Clock
  readonly #metrics: AgentMetrics
  readonly #monitorMetrics: MonitorMetrics
  readonly #queues: JobQueues
  readonly #timetable: RunningTimetable<Watch>
  readonly #startedMs = performance.now()
  readonly #stopping = new AbortController()
  readonly #progress = new ProgressBoard()
  readonly #network: OwnProblem<NetworkProblem>
  #phase: Phase = 'starting'
  #watches = new Map<string, Watch>()
  /** Of removed monitors whose run is not over: one that returns must not run twice at a time. */
  readonly #leaving = new Map<string, Watch>()
  #locationContext: LocationContext | undefined
  #proxyUrl: string | undefined
  #refused: string | undefined
  #health: Served | undefined
  readonly #pending: PendingResults
  #following: Promise<void> = Promise.resolve()
  #drained: Promise<void> | undefined
  #endStopped!: (exitCode: number) => void
  #exitCode = 0
  #onRunsChanged: (() => void) | undefined

  constructor(options: AgentOptions) {
    this.#options = options
    const clock = options.clock ?? createClock()
    this.#clock = clock
    this.stopped = new Promise((resolve) => (this.#endStopped = resolve))
    this.#monitorMetrics = createMonitorMetrics(METRICS)
    this.#network = createNetworkState(options.log, () => this.#onRunsChanged?.())
    this.#metrics = createAgentMetrics(
      {
        queues: () => this.#queues.state(),
        slots: () => this.#queues.counts(),
        monitors: () => this.#timetable.size(),
        clockOffsetMs: () => clock.offsetMs(),
        isNetworkLost: () => this.#network.code !== undefined,
      },
      [options.source, options.sink, options.faults],
    )
    this.#pending = new PendingResults(options.sink, options.log, () =>
      this.#metrics.deliveryFailed(),
    )
    this.#queues = this.#makeQueues()
    this.#timetable = new RunningTimetable<Watch>(clock, {
      onDue: (watch, slot, plannedAt) => {
        options.ledger?.due(watch.monitor.id, everyMs(watch.monitor), slot)
        this.#queues.due(watch, slot, plannedAt)
      },
      onSkipped: (watch, passed) => {
        const skipped = rowsOf(passed)
        for (const slot of skipped.rows)
          options.ledger?.due(watch.monitor.id, passed.slots.everyMs, slot)
        this.#queues.skipped(watch, skipped)
      },
      onClockJump: (jump) => this.#onClockJump(jump),
    })
  }

  /** Serves health, runs monitors. Rejects with ListenError when the port cannot be had. */
  async start(): Promise<void> {
    this.#health = await serve({
      app: createHealth(this.#healthSources()),
      port: this.#options.config.healthPort,
      variable: 'AGENT_HEALTH_PORT',
      hostname: this.#options.config.healthHost,
      hostVariable: 'AGENT_HEALTH_HOST',
    })
    // Stopped before the start was over: closes the resources that were opened meanwhile.
    if (this.#phase === 'draining') return this.#health.close(HEALTH_CLOSE_MS)
    this.#timetable.start()
    this.#following = this.#follow()
  }

  /**
   * Begins to drain, in this very tick: no slot starts any more, readiness says so. Resolves when
   * everything that ran has been delivered and the endpoints have closed. Further calls get the same.
   */
  stop(): Promise<void> {
    return (this.#drained ??= this.#drain())
  }

  /** Where health answers; once started. */
  url(): string {
    return this.#health?.url ?? ''
  }

  #makeQueues(): JobQueues {
    const { config, types } = this.#options
    const runner = createRunner({
      types,
      clock: this.#clock,
      workRoot: config.workRoot,
      scrubHeaders: config.scrubHeaders,
      files: this.#options.sink.files,
      progress: this.#progress,
      scripts: this.#options.scripts,
      onRetry: (type) => this.#metrics.retried(type),
      onAbandoned: (type) => this.#metrics.abandoned(type),
      onFault: (fault) => this.#options.faults?.report(fault),
    })
    return new JobQueues({
      concurrency: { uptime: config.uptimeConcurrency, scripted: config.jobConcurrency },
      runner,
      clock: this.#clock,
      metrics: this.#metrics,
      locationContext: () => this.#locationContext as LocationContext,
      onResult: (result) => this.#onResult(result),
      onRunsChanged: () => this.#onRunsChanged?.(),
    })
  }

  async #follow(): Promise<void> {
    const { source, log } = this.#options
    try {
      for await (const change of source.follow(this.#stopping.signal, this.#report())) {
        // What runs while the agent drains can still be cancelled; nothing else is news to it.
        if (this.#phase !== 'draining' || change.kind === 'cancel') this.#apply(change)
      }
    } catch (error) {
      log.error({ err: error }, 'the source of monitors failed; known monitors keep running')
      this.#refused = 'the source of monitors failed'
    }
  }

  #apply(change: Change): void {
    switch (change.kind) {
      case 'monitors':
        return this.#applySnapshot(change.snapshot)
      case 'refused':
        this.#refused = change.reason
        this.#metrics.reloaded(false)
        this.#options.log.error(
          { reason: change.reason },
          'the new monitors are invalid; the previous ones keep running',
        )
        return
      case 'over':
        this.#options.log.error({ reason: change.reason }, 'this agent has nothing left to do')
        this.#exitCode = change.exitCode
        void this.stop()
        return
      case 'run': {
        const { run, monitor, monitorId } = change
        const watch = monitor === undefined ? this.#watches.get(monitorId) : watchOf(monitor)
        if (watch !== undefined) this.#queues.runNow(watch, run)
        else this.#options.log.warn({ run, monitorId }, 'run requested for an unknown monitor')
        return
      }
      case 'cancel':
        return this.#queues.cancelRun(change.run, 'the run was cancelled on request')
    }
  }

  #applySnapshot(snapshot: Snapshot): void {
    const { dial } = this.#options
    const current = this.#locationContext
    this.#locationContext = nextLocationContext(current, this.#proxyUrl, snapshot, dial)
    this.#proxyUrl = snapshot.proxyUrl
    const watches = new Map<string, Watch>()
    for (const monitor of snapshot.monitors) {
      const known = this.#watches.get(monitor.id) ?? this.#leaving.get(monitor.id)
      this.#leaving.delete(monitor.id)
      if (known !== undefined) known.monitor = monitor
      watches.set(monitor.id, known ?? watchOf(monitor))
    }
    for (const [id, watch] of this.#watches) {
      if (watches.get(id)?.monitor.activated !== true) this.#queues.dropped(watch)
      if (!watches.has(id) && watch.running !== undefined) this.#leaving.set(id, watch)
    }
    this.#watches = watches
    const active = [...watches.values()].filter(({ monitor }) => monitor.activated)
    const { assignments } = snapshot
    const earlier = this.#options.ledger?.resume(active, (watch, slot) =>
      this.#queues.restarted(watch, slot),
    )
    this.#timetable.set(
      active.map((watch) => {
        const { id } = watch.monitor
        return [id, rangeOf(watch.monitor, assignments?.get(id)), watch]
      }),
      earlier,
    )
    this.#monitorMetrics.keepOnly(new Set(active.map(({ monitor }) => monitor.id)))
    this.#refused = undefined
    this.#metrics.reloaded(true)
    this.#phase = 'running'
    const inactive = snapshot.monitors.length - active.length
    const facts = { location: snapshot.location, monitors: active.length }
    this.#options.log.info(inactive === 0 ? facts : { ...facts, inactive }, 'monitors loaded')
  }

  #onResult(result: Result): void {
    const { types } = this.#options
    this.#network.saw(result)
    this.#options.dataFolder?.saw(result)
    this.#options.onResult?.(result)
    if (this.#leaving.get(result.monitorId)?.running === undefined) {
      this.#leaving.delete(result.monitorId)
    }
    if (result.attempts.length > 0 && this.#watches.has(result.monitorId)) {
      const isEmpty = Object.keys(result.observed).length === 0
      const samples = isEmpty ? [] : (types.get(result.checkType)?.samples(result.observed) ?? [])
      this.#monitorMetrics.record(result, samples)
    }
    this.#pending.deliver(result)
  }

  async #drain(): Promise<void> {
    // Up to the first await everything happens in the tick of the signal.
    this.#phase = 'draining'
    const { log, config } = this.#options
    const successors = this.#successors()
    if (successors === undefined) this.#stopping.abort()
    const idle = this.#queues.drain(config.drainMs, successors)
    const { uptime, scripted } = this.#queues.state()
    const running = uptime.running + scripted.running
    log.info({ running }, 'stopping: no new runs start; running ones are finished and delivered')
    await idle
    this.#stopping.abort()
    this.#timetable.stop()
    this.#network.stop()
    // The source stores what a restart needs.
    await Promise.race([this.#following, sleep(SOURCE_END_MS, undefined, { ref: false })])
    await this.#pending.settled(DELIVERY_MS_MAX)
    await this.#options.sink.flush?.(DELIVERY_MS_MAX)
    await this.#health?.close(HEALTH_CLOSE_MS)
    const results = this.#pending.count
    if (results > 0) log.error({ results }, 'results are lost')
    log.info('stopped')
    this.#endStopped(this.#exitCode)
  }

  /** Asks whether others take over; undefined where there can be none. */
  #successors(): Successors | undefined {
    const { source, log } = this.#options
    if (source.leave === undefined || this.#exitCode !== 0) return undefined
    const leftAt = this.#clock.now()
    const unreported = this.#timetable
      .unreported(leftAt)
      .map(({ subject, slot }) => ({ monitorId: subject.monitor.id, slot }))
    const notStarted = [...this.#queues.notStarted(), ...unreported]
    const takeOver = source.leave({ leftAt, notStarted }).then((isAccepted) => {
      if (isAccepted) this.#timetable.set([])
      const text = isAccepted
        ? 'other agents take over runs that have not started'
        : 'no other agent takes over'
      log.info({ notStarted: notStarted.length }, text)
      return isAccepted
    })
    return { leftAt, takeOver }
  }

  #report(): AgentReport {
    const { jobConcurrency, uptimeConcurrency } = this.#options.config
    return {
      queues: () => {
        const { uptime, scripted } = this.#queues.state()
        return {
          uptime: { ...uptime, free: Math.max(0, uptimeConcurrency - uptime.running) },
          scripted: { ...scripted, free: Math.max(0, jobConcurrency - scripted.running) },
        }
      },
      runs: () => this.#queues.runs(),
      network: () => this.#network.code,
      onRunsChanged: (changed) => (this.#onRunsChanged = changed),
      progress: this.#progress,
    }
  }

  #onClockJump(jump: ClockJump): void {
    this.#metrics.clockJumped()
    this.#options.log.warn({ byMs: jump.byMs }, jumpText(jump))
  }

  #healthSources(): HealthSources {
    const { source, sink, scripts, dataFolder } = this.#options
    const others = () => [
      source.state?.().warnings,
      dataFolder?.warnings(),
      sink.warnings?.(),
      scripts?.warnings?.(),
    ]
    return {
      phase: () => this.#phase,
      hasMonitors: () => this.#locationContext !== undefined,
      refused: () => this.#refused,
      unready: () => source.state?.().unready,
      warnings: () => [this.#network.warnings(), ...others()].flatMap((some) => some ?? []),
      tickAgeMs: () => this.#clock.monotonicMs() - this.#timetable.tickedAtMs(),
      metrics: () => this.#metricsText(),
      facts: () => ({
        version: VERSION,
        location: this.#locationContext?.location,
        uptimeSeconds: Math.round((performance.now() - this.#startedMs) / 1000),
        monitors: this.#timetable.size(),
        queues: this.#queues.state(),
        slots: this.#queues.counts(),
        undelivered: this.#pending.count,
        network: this.#network.facts(),
        dataDir: dataFolder?.facts(),
        ...sandboxFacts(scripts?.layers?.()),
        ...source.state?.().facts,
        ...sink.facts?.(),
      }),
    }
  }

  async *#metricsText(): AsyncGenerator<string, void, undefined> {
    yield await this.#metrics.text()
    yield* this.#monitorMetrics.text()
  }
}

const watchOf = (monitor: Monitor): Watch => ({ monitor, waiting: undefined, running: undefined })
