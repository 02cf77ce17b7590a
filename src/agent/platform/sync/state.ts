// The state of the sync with the platform: its problem and since when, logged once, and shown in readiness and
// metrics.
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Log } from '../../../process/log.ts'
import { registerScraped } from '../../scraped-metrics.ts'
import type { SourceState } from '../../source.ts'

/** Why a sync failed. */
export interface SyncProblem {
  /** A code of LinkError, `HTTP_<status>`, or MALFORMED. */
  code: string
  message: string
  /** The platform answers and refuses this agent: an operator has to act. */
  isRefusal: boolean
}

export class SyncState {
  /** How far the platform's clock is ahead of this machine's. Milliseconds. */
  aheadMs = 0
  /** Whether there are monitors, from the platform or from disk. */
  hasMonitors = false
  /** Whether they come from disk. */
  isOnStored = false
  /** Why monitors on disk are not used yet: this machine's clock is wrong. */
  clockProblem: string | undefined
  readonly #log: Log
  readonly #failures = new Map<string, number>()
  #problem: SyncProblem | undefined
  #sinceMs = 0
  #lastSuccess: Date | undefined
  #revision: string | undefined

  constructor(log: Log) {
    this.#log = log
  }

  failed(problem: SyncProblem): void {
    const { code, message } = problem
    this.#failures.set(code, (this.#failures.get(code) ?? 0) + 1)
    const isNews = this.#problem?.code !== code
    if (this.#problem === undefined) this.#sinceMs = performance.now()
    this.#problem = problem
    // Logged once for each code, not at every attempt of a long outage.
    if (!isNews) return
    const level = problem.isRefusal ? 'error' : 'warn'
    const goesOn = this.hasMonitors ? '; known monitors keep running' : ''
    this.#log[level]({ code }, `no sync with the platform${goesOn}: ${message}`)
  }

  /** Whether the platform is back: the sync before this one did not work, or there was none. */
  succeeded(revision: string): boolean {
    const wasAway = this.#problem !== undefined
    this.#problem = undefined
    this.isOnStored = false
    this.clockProblem = undefined
    this.#revision = revision
    const isFirst = this.#lastSuccess === undefined
    this.#lastSuccess = new Date()
    const seconds = Math.round((performance.now() - this.#sinceMs) / 1000)
    if (wasAway) this.#log.info({ seconds }, 'the platform answers again')
    else if (isFirst) this.#log.info('the platform answers')
    return wasAway || isFirst
  }

  shown(): SourceState {
    const { message, isRefusal = false } = this.#problem ?? {}
    const facts = {
      platform: {
        connected: this.#isConnected(),
        lastSync: this.#lastSuccess?.toISOString() ?? null,
        revision: this.#revision ?? null,
        clockAheadMs: Math.round(this.aheadMs),
        ...(this.#problem === undefined ? {} : { problem: this.#problem.code }),
      },
    }
    if (message === undefined) return { facts, warnings: [] }
    if (isRefusal || !this.hasMonitors) {
      const unready = [message, this.clockProblem].filter((one) => one !== undefined).join('; ')
      return { facts, warnings: [], unready }
    }
    const running = this.isOnStored ? 'stored monitors run' : 'known monitors keep running'
    return { facts, warnings: [`${message}; ${running}`] }
  }

  register(registry: Registry): void {
    registerScraped(registry, Gauge, {
      platform_connected: [
        'Whether the last sync with the platform worked.',
        () => (this.#isConnected() ? 1 : 0),
      ],
      platform_last_sync_timestamp_seconds: [
        'When a sync last worked, on this machine’s clock; 0 before the first.',
        () => (this.#lastSuccess?.getTime() ?? 0) / 1000,
      ],
      platform_clock_ahead_seconds: [
        'The platform’s clock minus this machine’s.',
        () => this.aheadMs / 1000,
      ],
      platform_revision_info: [
        'Revision of the monitors that run; always 1.',
        () => (this.#revision === undefined ? [] : [[this.#revision, 1]]),
        'revision',
      ],
    })
    registerScraped(registry, Counter, {
      sync_failures_total: [
        'Syncs with the platform that failed, by code.',
        () => this.#failures,
        'code',
      ],
    })
  }

  #isConnected(): boolean {
    return this.#problem === undefined && this.#lastSuccess !== undefined
  }
}
