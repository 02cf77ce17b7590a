// Job queues: run due slots in two queues and account for every slot. A slot ends in exactly one way, as the
// result of a run or as `missed` with its reason.
import { setImmediate as nextTurn } from 'node:timers/promises'
import PQueue from 'p-queue'
import { failure } from '../../contract/failure.ts'
import type { Instant, RunId } from '../../contract/job.ts'
import type { Monitor } from '../../contract/monitor.ts'
import type { MissedReason, Result } from '../../contract/result.ts'
import type { Clock } from './clock.ts'
import type { AgentMetrics, SlotCounts } from '../metrics.ts'
import { emptyResult, type SkippedSlots } from './passed-slots.ts'
import { queueClassOf, type LocationContext, type QueueClass } from '../run/run-plan.ts'
import type { Run, Runner } from '../run/runner.ts'

/** A watched monitor with its waiting job and its running job. */
export interface Watch {
  /** The newest definition; replaced in place. */
  monitor: Monitor
  waiting: QueuedJob | undefined
  running: QueuedJob | undefined
}

/** A job in a queue. */
interface QueuedJob {
  watch: Watch
  queueClass: QueueClass
  slot: Instant
  plannedAt: Instant
  onDemand?: RunId
  run?: Run
  /** Waiting for its next attempt, outside the queue. */
  retry?: { timer: NodeJS.Timeout; at: number }
  /** Has its result, or needs none; remaining references to it do nothing. */
  over: boolean
}

export interface JobQueueSettings {
  concurrency: Record<QueueClass, number>
  runner: Runner
  clock: Clock
  metrics: Pick<AgentMetrics, 'started' | 'recorded' | 'missed'>
  locationContext: () => LocationContext
  /** Receives every result; must not throw. */
  onResult: (result: Result) => void
  /** Called when runs on demand are queued, start and end; must not throw. */
  onRunsChanged?: () => void
}

/** Agents that take over the slots that a departing agent has not started. */
export interface Successors {
  /** Slots from then on belong to them, if they take over. */
  leftAt: Instant
  /** Never rejects. */
  takeOver: Promise<boolean>
}

/**
 * Jobs that begin in one turn of the event loop; starting these takes some milliseconds. Where hundreds become due at
 * once, as after the first sync, they would otherwise block everything else.
 */
const STARTS_PER_TURN = 24
/** Runs on demand that wait or run at a time. */
const ON_DEMAND_MAX = 1000

const PRIORITY = { slot: 0, retry: 1, onDemand: 2 } as const

/** A slot that a departing agent does not start, until the successors are known. */
interface PendingSlot {
  watch: Watch
  slot: Instant
  isCounted: boolean
}

interface Draining {
  until: number
  idle: () => void
  /** Defined until it is known whether there are successors. */
  pending: PendingSlot[] | undefined
  isHandedOver: boolean
}

export class JobQueues {
  readonly #settings: JobQueueSettings
  readonly #queues: Record<QueueClass, PQueue>
  /** Jobs with a run: in an attempt, or waiting for the next one. */
  readonly #running = new Set<QueuedJob>()
  readonly #waiting = new Set<QueuedJob>()
  readonly #onDemand = new Map<RunId, QueuedJob>()
  /** The latest finished runs, so that a repeated request does not run them again. */
  readonly #pastRuns = new Set<RunId>()
  readonly #counts: SlotCounts = { expected: 0, recorded: 0, handedOver: 0 }
  /** Jobs that have begun in this turn of the event loop, and its end. */
  #begun = 0
  #turn: Promise<void> = Promise.resolve()
  #draining: Draining | undefined

  constructor(settings: JobQueueSettings) {
    this.#settings = settings
    this.#queues = {
      uptime: new PQueue({ concurrency: settings.concurrency.uptime }),
      scripted: new PQueue({ concurrency: settings.concurrency.scripted }),
    }
  }

  due(watch: Watch, slot: Instant, plannedAt: Instant): void {
    if (this.#draining?.isHandedOver === true) return
    if (this.#draining?.pending !== undefined) {
      this.#draining.pending.push({ watch, slot, isCounted: false })
      return
    }
    this.#counts.expected++
    if (this.#draining !== undefined) return this.#missed(watch, slot, 'draining')
    if (watch.running !== undefined) return this.#missed(watch, slot, 'still-running')
    const { waiting } = watch
    if (waiting !== undefined) {
      // The newer slot takes over the queue position, so that a full queue reflects the present.
      const older = waiting.slot
      waiting.slot = slot
      waiting.plannedAt = plannedAt
      return this.#missed(watch, older, 'overloaded')
    }
    watch.waiting = { watch, queueClass: queueClassOf(watch.monitor), slot, plannedAt, over: false }
    this.#enqueue(watch.waiting, PRIORITY.slot)
  }

  skipped(watch: Watch, { reason, count, rows }: SkippedSlots): void {
    if (this.#draining?.isHandedOver === true) return
    this.#counts.expected += count
    this.#counts.recorded += count - rows.length
    this.#settings.metrics.missed(reason, count - rows.length)
    for (const slot of rows) this.#missed(watch, slot, reason)
  }

  /** A slot that an earlier process of this agent left without a result. */
  restarted(watch: Watch, slot: Instant): void {
    this.#counts.expected++
    this.#missed(watch, slot, 'restarted')
  }

  runNow(watch: Watch, run: RunId): void {
    if (this.#onDemand.has(run) || this.#pastRuns.has(run)) return
    const now = Math.round(this.#settings.clock.now())
    const queued: QueuedJob = {
      watch,
      queueClass: queueClassOf(watch.monitor),
      slot: now,
      plannedAt: now,
      onDemand: run,
      over: false,
    }
    if (this.#draining !== undefined) return this.#cancelWaiting(queued, STOPPED)
    if (this.#onDemand.size >= ON_DEMAND_MAX) {
      return this.#cancelWaiting(
        queued,
        `too many runs on demand: more than ${ON_DEMAND_MAX} wait or run`,
      )
    }
    this.#onDemand.set(run, queued)
    this.#enqueue(queued, PRIORITY.onDemand)
    this.#settings.onRunsChanged?.()
  }

  cancelRun(run: RunId, reason: string): void {
    const queued = this.#onDemand.get(run)
    if (queued === undefined) return
    if (queued.run === undefined) this.#cancelWaiting(queued, reason)
    else this.#cancelRunning(queued, reason)
  }

  /** The monitor is removed: a waiting job is missed, a running one continues. */
  dropped(watch: Watch): void {
    // Not cancelled, which would be a result: another agent may run this slot.
    if (watch.waiting !== undefined) this.#endMissed(watch.waiting, 'removed')
  }

  /**
   * Stops starting slots. Resolves when nothing runs; runs are cancelled at the deadline. Slots that wait or come
   * due are `missed: draining`, unless successors take them over.
   */
  drain(deadlineMs: number, successors?: Successors): Promise<void> {
    const { clock } = this.#settings
    const until = clock.monotonicMs() + deadlineMs
    const pending: PendingSlot[] | undefined = successors === undefined ? undefined : []
    const idle = new Promise<void>((resolve) => {
      this.#draining = { until, idle: resolve, pending, isHandedOver: false }
    })
    for (const queued of this.#waiting) {
      const { watch, slot } = queued
      if (queued.onDemand !== undefined) this.#cancelWaiting(queued, STOPPED)
      else if (pending === undefined) this.#endMissed(queued, 'draining')
      else {
        this.#dequeue(queued)
        pending.push({ watch, slot, isCounted: true })
      }
    }
    // An attempt that could only begin after the deadline is cancelled now.
    for (const queued of this.#running) {
      if ((queued.retry?.at ?? 0) > until) this.#cancelRunning(queued, STOPPED)
    }
    const timer = setTimeout(() => {
      for (const queued of this.#running) this.#cancelRunning(queued, STOPPED)
    }, deadlineMs)
    void successors?.takeOver.then((isAccepted) => this.#settle(isAccepted, successors.leftAt))
    this.#whenIdle()
    return idle.finally(() => clearTimeout(timer))
  }

  /** Slots that are due and have not started. */
  notStarted(): { monitorId: string; slot: Instant }[] {
    const slots = [...this.#waiting].filter(({ onDemand }) => onDemand === undefined)
    return slots.map(({ watch, slot }) => ({ monitorId: watch.monitor.id, slot }))
  }

  /** Runs on demand that are not over. */
  runs(): { run: RunId; state: 'waiting' | 'running' }[] {
    return [...this.#onDemand].map(([run, queued]) => ({
      run,
      state: queued.run === undefined ? 'waiting' : 'running',
    }))
  }

  counts(): Readonly<SlotCounts> {
    return this.#counts
  }

  state(): Record<QueueClass, { waiting: number; running: number }> {
    const state = { uptime: { waiting: 0, running: 0 }, scripted: { waiting: 0, running: 0 } }
    for (const queued of this.#waiting) state[queued.queueClass].waiting++
    for (const queued of this.#running) state[queued.queueClass].running++
    return state
  }

  /** Settles the pending slots once it is known who runs them. */
  #settle(isAccepted: boolean, leftAt: Instant): void {
    const draining = this.#draining
    const pending = draining?.pending ?? []
    if (draining === undefined) return
    draining.pending = undefined
    draining.isHandedOver = isAccepted
    for (const { watch, slot, isCounted } of pending) {
      if (!isCounted && !(isAccepted && slot >= leftAt)) this.#counts.expected++
      if (!isAccepted) this.#missed(watch, slot, 'draining')
      else if (isCounted || slot < leftAt) this.#counts.handedOver++
    }
    this.#whenIdle()
  }

  #enqueue(queued: QueuedJob, priority: number): void {
    if (queued.run === undefined) this.#waiting.add(queued)
    // `#step` never rejects; a fault in it is a fault in the agent, which ends the process.
    void this.#queues[queued.queueClass].add(() => this.#step(queued), { priority })
  }

  async #step(queued: QueuedJob): Promise<void> {
    if (queued.over) return
    while (this.#begun >= STARTS_PER_TURN) await this.#turn
    // The job may have ended meanwhile.
    if (queued.over) return
    if (this.#begun++ === 0) this.#turn = nextTurn().then(() => void (this.#begun = 0))
    const run = queued.run ?? this.#begin(queued)
    const waitMs = await run.attempt()
    if (waitMs === undefined) return this.#finish(queued, run.result())
    this.#pause(queued, run, waitMs)
  }

  #begin(queued: QueuedJob): Run {
    const { runner, clock, metrics, locationContext } = this.#settings
    const { watch, slot, onDemand } = queued
    this.#waiting.delete(queued)
    this.#running.add(queued)
    if (onDemand === undefined) {
      watch.waiting = undefined
      watch.running = queued
      metrics.started(Math.max(0, clock.now() - queued.plannedAt))
    }
    const job = { monitor: watch.monitor, slot, ...(onDemand === undefined ? {} : { onDemand }) }
    queued.run = runner.begin(job, locationContext())
    if (onDemand !== undefined) this.#settings.onRunsChanged?.()
    return queued.run
  }

  /** Frees the queue for other jobs until the next attempt. */
  #pause(queued: QueuedJob, run: Run, waitMs: number): void {
    const at = this.#settings.clock.monotonicMs() + waitMs
    if (this.#draining !== undefined && at > this.#draining.until) {
      run.cancel(STOPPED)
      return this.#finish(queued, run.result())
    }
    const timer = setTimeout(() => {
      delete queued.retry
      this.#enqueue(queued, PRIORITY.retry)
    }, waitMs)
    queued.retry = { timer, at }
  }

  #cancelRunning(queued: QueuedJob, reason: string): void {
    const { run, retry } = queued
    if (run === undefined || queued.over) return
    run.cancel(reason)
    if (retry === undefined) return
    clearTimeout(retry.timer)
    this.#finish(queued, run.result())
  }

  #finish(queued: QueuedJob, result: Result): void {
    if (queued.over) return
    queued.over = true
    this.#running.delete(queued)
    if (queued.onDemand !== undefined) this.#runIsOver(queued.onDemand)
    else {
      queued.watch.running = undefined
      this.#counts.recorded++
    }
    this.#report(result)
    this.#whenIdle()
  }

  /** A slot ends without having run. */
  #endMissed(queued: QueuedJob, reason: MissedReason): void {
    this.#dequeue(queued)
    this.#missed(queued.watch, queued.slot, reason)
  }

  /** A run on demand ends without having run. */
  #cancelWaiting(queued: QueuedJob, reason: string): void {
    this.#dequeue(queued)
    const { watch, slot, onDemand } = queued
    this.#reportEmpty(watch, slot, {
      ...(onDemand !== undefined && { onDemand }),
      verdict: 'cancelled',
      failures: [failure('CANCELLED', reason)],
    })
  }

  #dequeue(queued: QueuedJob): void {
    queued.over = true
    this.#waiting.delete(queued)
    if (queued.watch.waiting === queued) queued.watch.waiting = undefined
    if (queued.onDemand !== undefined) this.#runIsOver(queued.onDemand)
  }

  #runIsOver(run: RunId): void {
    this.#onDemand.delete(run)
    this.#pastRuns.add(run)
    if (this.#pastRuns.size > ON_DEMAND_MAX) this.#pastRuns.delete(first(this.#pastRuns))
    this.#settings.onRunsChanged?.()
  }

  #missed(watch: Watch, slot: Instant, missedReason: MissedReason): void {
    this.#counts.recorded++
    this.#settings.metrics.missed(missedReason, 1)
    this.#reportEmpty(watch, slot, { verdict: 'missed', missedReason })
  }

  /** Reports the result of a slot, or of a run on demand, in which nothing ran. */
  #reportEmpty(
    { monitor }: Watch,
    slot: Instant,
    end: Pick<Result, 'verdict'> & Partial<Result>,
  ): void {
    const { locationContext, clock } = this.#settings
    const { location } = locationContext()
    this.#report({ ...emptyResult(monitor, { location, slot, nowMs: clock.now() }), ...end })
  }

  #report(result: Result): void {
    this.#settings.metrics.recorded(result)
    this.#settings.onResult(result)
  }

  #whenIdle(): void {
    if (this.#running.size === 0 && this.#draining?.pending === undefined) this.#draining?.idle()
  }
}

const STOPPED = 'the agent is stopping'
const first = <T>(values: Set<T>) => values.values().next().value as T
