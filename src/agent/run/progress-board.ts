// Progress board: the newest report of each run of user code, scrubbed and bounded. Runs on demand are reported
// to the platform alongside the waiting sync, those of the timetable with each sync.
import type { RunId } from '../../contract/job.ts'
import type { AgentFacts } from '../../contract/protocol/agent-protocol.ts'
import {
  PROGRESS_BOUNDS,
  type ProgressWire,
  type SlotUnderWay,
} from '../../contract/protocol/run-progress.ts'
import type { RunProgress } from '../../scripts/host.ts'
import type { PlatformLink } from '../platform/link.ts'
import { printable } from './result-text.ts'
import type { Scrubber } from '../redaction/scrub.ts'

export interface ProgressReporter {
  report(at: RunProgress): void
  /** Ends the reporting; later reports are ignored. */
  over(): void
}

/** A run on demand, or a slot of the timetable that began to run. */
export type RunUnderWay = { run: RunId } | Pick<SlotUnderWay, 'monitorId' | 'slot' | 'startedAt'>

/** Characters of a line that are read, so that endless output costs little. */
const LINE_CHARS_READ_MAX = 10_000

interface Entry {
  about: RunUnderWay
  scrub: Pick<Scrubber, 'text'>
  at?: RunProgress
}

/** Progress of all runs of an agent. Texts are scrubbed only when they are read: most reports never are. */
export class ProgressBoard {
  /** Of runs on demand, the latest report stands last; slots stand as they began. */
  readonly #entries = new Set<Entry>()
  #onReported: () => void = () => undefined

  begin(about: RunUnderWay, scrub: Pick<Scrubber, 'text'>): ProgressReporter {
    const one: Entry = { about, scrub }
    this.#entries.add(one)
    return {
      report: (at) => {
        if (!this.#entries.has(one)) return
        one.at = at
        if (!('run' in about)) return
        this.#entries.delete(one)
        this.#entries.add(one)
        this.#onReported()
      },
      over: () => void this.#entries.delete(one),
    }
  }

  /** Slots that run, oldest first; at most as many as one sync accepts. */
  slots(): SlotUnderWay[] {
    return [...this.#entries]
      .flatMap(({ about, at, scrub }) => ('run' in about ? [] : [{ about, at, scrub }]))
      .slice(0, PROGRESS_BOUNDS.slotsMax)
      .map(({ about, at, scrub }) => ({ ...about, ...(at && clean(at, scrub)) }))
  }

  /** The newest report of each run on demand, latest first; at most as many as one call accepts. */
  newest(): ProgressWire[] {
    return [...this.#entries]
      .flatMap(({ about, at, scrub }) => ('run' in about && at ? [{ about, at, scrub }] : []))
      .slice(-PROGRESS_BOUNDS.runsMax)
      .toReversed()
      .map(({ about, at, scrub }) => ({ ...about, ...clean(at, scrub) }))
  }

  /** Sets the listener for new reports of runs on demand; it must not throw. */
  onReported(listener: () => void): void {
    this.#onReported = listener
  }
}

function clean(
  { phase, done, total, line }: RunProgress,
  scrub: Pick<Scrubber, 'text'>,
): Omit<ProgressWire, 'run'> {
  const { phaseCharactersMax, lineCharactersMax, countMax } = PROGRESS_BOUNDS
  const text = (given: string, max: number) =>
    printable(scrub.text(given.slice(0, LINE_CHARS_READ_MAX)))
      .slice(0, max)
      .toWellFormed()
  const count = (given: number) => Math.min(countMax, Math.max(0, Math.round(given) || 0))
  return {
    phase: text(phase, phaseCharactersMax),
    ...(done === undefined ? {} : { done: count(done) }),
    ...(total === undefined ? {} : { total: count(total) }),
    ...(line === undefined ? {} : { line: text(line, lineCharactersMax) }),
  }
}

export interface ProgressReporting {
  link: Pick<PlatformLink, 'request'>
  facts: () => Pick<AgentFacts, 'id' | 'instance'>
  board: Pick<ProgressBoard, 'newest' | 'onReported'>
}

/** Reports within this time are sent together. */
const FIRST_MS = 100
const APART_MS = 1_000
const CALL_MS = 10_000

/** Starts reporting, at most once a second; the returned function stops it. Never throws. */
export function startProgressReporting({ link, facts, board }: ProgressReporting): () => void {
  const ending = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let sentAtMs = Number.NEGATIVE_INFINITY
  let isSending = false
  let isPending = false

  const schedule = () => {
    isPending = true
    if (timer !== undefined || isSending || ending.signal.aborted) return
    const waitMs = Math.max(FIRST_MS, APART_MS - (performance.now() - sentAtMs))
    timer = setTimeout(() => void send(), waitMs)
  }
  const send = async () => {
    timer = undefined
    isPending = false
    const progress = board.newest()
    if (progress.length === 0) return
    const { id: agentId, instance } = facts()
    sentAtMs = performance.now()
    isSending = true
    const called = link.request({
      method: 'POST',
      path: '/agent/v1/presence',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify({ agentId, instance, progress })),
      deadlineMs: CALL_MS,
      signal: ending.signal,
    })
    // Syncs report the problem.
    await called.catch(() => undefined)
    isSending = false
    if (isPending) schedule()
  }
  board.onReported(schedule)
  return () => {
    clearTimeout(timer)
    ending.abort()
  }
}
