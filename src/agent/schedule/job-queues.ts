// Takes due slots to their results: two queues, and the account of every slot. A slot ends in exactly
// one way, as a run's result or as `missed` with its reason.
import PQueue from 'p-queue'
import { failure } from '../../contract/failure.ts'
import type { Instant, RunId } from '../../contract/job.ts'
import type { Monitor } from '../../contract/monitor.ts'
import type { MissedReason, Result } from '../../contract/result.ts'
import type { Clock } from './clock.ts'
import { laneOf, type Lane } from './lane.ts'
import type { AgentMetrics, SlotCounts } from '../metrics.ts'
import { type PassedSlots, rowsOf } from './passed-slots.ts'
import type { Surroundings } from '../run/run-plan.ts'
import type { Run, Runner } from '../run/runner.ts'
import { createStartPace } from './start-pace.ts'

/** A monitor under watch, with its job that waits and its job that runs. */
export interface Watch {
  /** The newest definition; replaced in place. */
  monitor: Monitor
  waiting: Ticket | undefined
  running: Ticket | undefined
}

/** A job on its way through a queue. */
interface Ticket {
  watch: Watch
  lane: Lane
  slot: Instant
  plannedAt: Instant
  onDemand?: RunId
  run?: Run
  /** Waiting for its next attempt, outside the queue. */
  retry?: { timer: NodeJS.Timeout; at: number }
  /** Has its result, or needs none; whatever still points to it does nothing. */
  over: boolean
}

/** What the queues need. */
export interface JobQueueSettings {
  concurrency: Record<Lane, number>
  runner: Runner
  clock: Clock
  metrics: AgentMetrics
  surroundings: () => Surroundings
  /** Takes every result; must not throw. */
  onResult: (result: Result) => void
  /** Told when runs on demand begin, start and end; must not throw. */
  onRunsChanged?: () => void
}

/** Who takes over what an agent that leaves has not started. */
export interface Successors {
  /** Slots from then on are theirs, if they take over. */
  leftAt: Instant
  /** Never rejects. */
  takeOver: Promise<boolean>
}

export interface JobQueues {
  due(watch: Watch, slot: Instant, plannedAt: Instant): void
  skipped(watch: Watch, passed: PassedSlots): void
  /** A slot that an earlier process of this agent left without a result. */
  restarted(watch: Watch, slot: Instant): void
  runNow(watch: Watch, run: RunId): void
  cancelRun(run: RunId, reason: string): void
  /** The monitor is gone: what waits is missed, what runs goes on. */
  dropped(watch: Watch): void
  /**
   * Starts no slot any more. Resolves when nothing runs; what still runs at the deadline is cancelled. What
   * waits or comes due is `missed: draining`, unless there are successors who take it over.
   */
  drain(deadlineMs: number, successors?: Successors): Promise<void>
  /** Slots that are due and have not started. */
  notStarted(): { monitorId: string; slot: Instant }[]
  /** Runs on demand that are not over. */
  runs(): { run: RunId; state: 'waiting' | 'running' }[]
  counts(): Readonly<SlotCounts>
  state(): Record<Lane, { waiting: number; running: number }>
}

/** Runs on demand that wait or run at a time. */
const ON_DEMAND_MAX = 1000

const PRIORITY = { slot: 0, retry: 1, onDemand: 2 } as const

/** A slot that an agent which leaves does not start, until it is clear who does. */
interface Held {
  watch: Watch
  slot: Instant
  isCounted: boolean
}

interface Draining {
  until: number
  idle: () => void
  /** Until it is clear whether there are successors. */
  held: Held[] | undefined
  isHandedOver: boolean
}

/** Makes the queues. */
export function createJobQueues(settings: JobQueueSettings): JobQueues {
  return new Queues(settings)
}

class Queues implements JobQueues {
  readonly #settings: JobQueueSettings
  readonly #queues: Record<Lane, PQueue>
  /** Jobs with a run: in an attempt, or waiting for the next one. */
  readonly #running = new Set<Ticket>()
  readonly #waiting = new Set<Ticket>()
  readonly #onDemand = new Map<RunId, Ticket>()
  /** The last ones that are over, so that none runs again when it is asked for again. */
  readonly #pastRuns = new Set<RunId>()
  readonly #counts: SlotCounts = { expected: 0, recorded: 0, handedOver: 0 }
  readonly #pace = createStartPace()
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
    if (this.#draining?.held !== undefined) {
      this.#draining.held.push({ watch, slot, isCounted: false })
      return
    }
    this.#counts.expected++
    if (this.#draining !== undefined) return this.#missed(watch, slot, 'draining')
    if (watch.running !== undefined) return this.#missed(watch, slot, 'still-running')
    const { waiting } = watch
    if (waiting !== undefined) {
      // The newer slot takes the place in line, so that a full queue shows the present.
      const older = waiting.slot
      waiting.slot = slot
      waiting.plannedAt = plannedAt
      return this.#missed(watch, older, 'overloaded')
    }
    watch.waiting = { watch, lane: laneOf(watch.monitor), slot, plannedAt, over: false }
    this.#enqueue(watch.waiting, PRIORITY.slot)
  }

  skipped(watch: Watch, passed: PassedSlots): void {
    if (this.#draining?.isHandedOver === true) return
    const { reason } = passed
    const { count, rows } = rowsOf(passed)
    this.#counts.expected += count
    this.#counts.recorded += count - rows.length
    this.#settings.metrics.missed(reason, count - rows.length)
    for (const slot of rows) this.#missed(watch, slot, reason)
  }

  restarted(watch: Watch, slot: Instant): void {
    this.#counts.expected++
    this.#missed(watch, slot, 'restarted')
  }

  runNow(watch: Watch, run: RunId): void {
    if (this.#onDemand.has(run) || this.#pastRuns.has(run)) return
    const now = Math.round(this.#settings.clock.now())
    const ticket: Ticket = {
      watch,
      lane: laneOf(watch.monitor),
      slot: now,
      plannedAt: now,
      onDemand: run,
      over: false,
    }
    if (this.#draining !== undefined) return this.#cancelWaiting(ticket, STOPPED)
    if (this.#onDemand.size >= ON_DEMAND_MAX) {
      return this.#cancelWaiting(ticket, `more than ${ON_DEMAND_MAX} runs are asked for already`)
    }
    this.#onDemand.set(run, ticket)
    this.#enqueue(ticket, PRIORITY.onDemand)
    this.#settings.onRunsChanged?.()
  }

  cancelRun(run: RunId, reason: string): void {
    const ticket = this.#onDemand.get(run)
    if (ticket === undefined) return
    if (ticket.run === undefined) this.#cancelWaiting(ticket, reason)
    else this.#cancelRunning(ticket, reason)
  }

  dropped(watch: Watch): void {
    // Not cancelled, which would be a result: another agent may be about to run this slot.
    if (watch.waiting !== undefined) this.#overtaken(watch.waiting, 'removed')
  }

  drain(deadlineMs: number, successors?: Successors): Promise<void> {
    const { clock } = this.#settings
    const until = clock.monotonicMs() + deadlineMs
    const held: Held[] | undefined = successors === undefined ? undefined : []
    const idle = new Promise<void>((resolve) => {
      this.#draining = { until, idle: resolve, held, isHandedOver: false }
    })
    for (const ticket of this.#waiting) {
      const { watch, slot } = ticket
      if (ticket.onDemand !== undefined) this.#cancelWaiting(ticket, STOPPED)
      else if (held === undefined) this.#overtaken(ticket, 'draining')
      else {
        this.#leaveLine(ticket)
        held.push({ watch, slot, isCounted: true })
      }
    }
    // An attempt that could only begin after the deadline is not worth waiting for.
    for (const ticket of this.#running) {
      if ((ticket.retry?.at ?? 0) > until) this.#cancelRunning(ticket, STOPPED)
    }
    const timer = setTimeout(() => {
      for (const ticket of this.#running) this.#cancelRunning(ticket, STOPPED)
    }, deadlineMs)
    void successors?.takeOver.then((isTaken) => this.#settle(isTaken, successors.leftAt))
    this.#whenIdle()
    return idle.finally(() => clearTimeout(timer))
  }

  notStarted(): { monitorId: string; slot: Instant }[] {
    const slots = [...this.#waiting].filter(({ onDemand }) => onDemand === undefined)
    return slots.map(({ watch, slot }) => ({ monitorId: watch.monitor.id, slot }))
  }

  runs(): { run: RunId; state: 'waiting' | 'running' }[] {
    return [...this.#onDemand].map(([run, ticket]) => ({
      run,
      state: ticket.run === undefined ? 'waiting' : 'running',
    }))
  }

  counts(): Readonly<SlotCounts> {
    return this.#counts
  }

  state(): Record<Lane, { waiting: number; running: number }> {
    const state = { uptime: { waiting: 0, running: 0 }, scripted: { waiting: 0, running: 0 } }
    for (const ticket of this.#waiting) state[ticket.lane].waiting++
    for (const ticket of this.#running) state[ticket.lane].running++
    return state
  }

  /** Now it is clear who runs what has been held. */
  #settle(isTaken: boolean, leftAt: Instant): void {
    const draining = this.#draining
    const held = draining?.held ?? []
    if (draining === undefined) return
    draining.held = undefined
    draining.isHandedOver = isTaken
    for (const { watch, slot, isCounted } of held) {
      if (!isCounted && !(isTaken && slot >= leftAt)) this.#counts.expected++
      if (!isTaken) this.#missed(watch, slot, 'draining')
      else if (isCounted || slot < leftAt) this.#counts.handedOver++
    }
    this.#whenIdle()
  }

  #enqueue(ticket: Ticket, priority: number): void {
    if (ticket.run === undefined) this.#waiting.add(ticket)
    // `#step` never rejects; a fault in it is a fault in the agent, which ends the process.
    void this.#queues[ticket.lane].add(() => this.#step(ticket), { priority })
  }

  async #step(ticket: Ticket): Promise<void> {
    if (ticket.over) return
    const turn = this.#pace.turn()
    if (turn !== undefined) await turn
    // It may have been overtaken or cancelled meanwhile.
    if (ticket.over) return
    const run = ticket.run ?? this.#begin(ticket)
    const waitMs = await run.attempt()
    if (waitMs === undefined) return this.#finish(ticket, run.result())
    this.#pause(ticket, run, waitMs)
  }

  #begin(ticket: Ticket): Run {
    const { runner, clock, metrics, surroundings } = this.#settings
    const { watch, slot, onDemand } = ticket
    this.#waiting.delete(ticket)
    this.#running.add(ticket)
    if (onDemand === undefined) {
      watch.waiting = undefined
      watch.running = ticket
      metrics.started(Math.max(0, clock.now() - ticket.plannedAt))
    }
    const job = { monitor: watch.monitor, slot, ...(onDemand === undefined ? {} : { onDemand }) }
    ticket.run = runner.begin(job, surroundings())
    if (onDemand !== undefined) this.#settings.onRunsChanged?.()
    return ticket.run
  }

  /** The place in the queue is free for others until the next attempt. */
  #pause(ticket: Ticket, run: Run, waitMs: number): void {
    const at = this.#settings.clock.monotonicMs() + waitMs
    if (this.#draining !== undefined && at > this.#draining.until) {
      run.cancel(STOPPED)
      return this.#finish(ticket, run.result())
    }
    const timer = setTimeout(() => {
      delete ticket.retry
      this.#enqueue(ticket, PRIORITY.retry)
    }, waitMs)
    ticket.retry = { timer, at }
  }

  #cancelRunning(ticket: Ticket, reason: string): void {
    const { run, retry } = ticket
    if (run === undefined || ticket.over) return
    run.cancel(reason)
    if (retry === undefined) return
    clearTimeout(retry.timer)
    this.#finish(ticket, run.result())
  }

  #finish(ticket: Ticket, result: Result): void {
    if (ticket.over) return
    ticket.over = true
    this.#running.delete(ticket)
    if (ticket.onDemand !== undefined) this.#runIsOver(ticket.onDemand)
    else {
      ticket.watch.running = undefined
      this.#counts.recorded++
    }
    this.#settings.metrics.recorded(result)
    this.#settings.onResult(result)
    this.#whenIdle()
  }

  /** A slot ends without having run. */
  #overtaken(ticket: Ticket, reason: MissedReason): void {
    this.#leaveLine(ticket)
    this.#missed(ticket.watch, ticket.slot, reason)
  }

  #cancelWaiting(ticket: Ticket, reason: string): void {
    this.#leaveLine(ticket)
    const { watch, slot, onDemand } = ticket
    if (onDemand === undefined) this.#counts.recorded++
    const result: Result = {
      ...this.#emptyResult(watch, slot),
      ...(onDemand === undefined ? {} : { onDemand }),
      verdict: 'cancelled',
      failures: [failure('CANCELLED', reason)],
    }
    this.#settings.metrics.recorded(result)
    this.#settings.onResult(result)
  }

  #leaveLine(ticket: Ticket): void {
    ticket.over = true
    this.#waiting.delete(ticket)
    if (ticket.watch.waiting === ticket) ticket.watch.waiting = undefined
    if (ticket.onDemand !== undefined) this.#runIsOver(ticket.onDemand)
  }

  #runIsOver(run: RunId): void {
    this.#onDemand.delete(run)
    this.#pastRuns.add(run)
    if (this.#pastRuns.size > ON_DEMAND_MAX) this.#pastRuns.delete(first(this.#pastRuns))
    this.#settings.onRunsChanged?.()
  }

  #missed(watch: Watch, slot: Instant, missedReason: MissedReason): void {
    const { metrics, onResult } = this.#settings
    this.#counts.recorded++
    const result: Result = { ...this.#emptyResult(watch, slot), verdict: 'missed', missedReason }
    metrics.missed(missedReason, 1)
    metrics.recorded(result)
    onResult(result)
  }

  #emptyResult({ monitor }: Watch, slot: Instant): Omit<Result, 'verdict'> {
    return {
      monitorId: monitor.id,
      monitorName: monitor.name,
      checkType: monitor.checkType,
      location: this.#settings.surroundings().location,
      slot,
      startedAt: Math.round(this.#settings.clock.now()),
      durationMs: 0,
      attempts: [],
      observed: {},
      failures: [],
      artifacts: [],
    }
  }

  #whenIdle(): void {
    if (this.#running.size === 0 && this.#draining?.held === undefined) this.#draining?.idle()
  }
}

const STOPPED = 'the agent is stopping'

function first<T>(values: Set<T>): T {
  return values.values().next().value as T
}
