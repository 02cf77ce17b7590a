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

/** Receives the progress of one run. */
export interface ProgressReporter {
  report(at: RunProgress): void
  /** Ends the reporting; later reports are ignored. */
  over(): void
}

/** Progress of all runs of an agent. */
export interface ProgressBoard {
  begin(run: RunId, scrub: Pick<Scrubber, 'text'>): ProgressReporter
  /** The same for a slot that began to run. */
  beginSlot(
    slot: Pick<SlotUnderWay, 'monitorId' | 'slot' | 'startedAt'>,
    scrub: Pick<Scrubber, 'text'>,
  ): ProgressReporter
  /** Slots that run, at most as many as one sync accepts. */
  slots(): SlotUnderWay[]
  /** The newest report of each run, latest first; at most as many as one call accepts. */
  newest(): ProgressWire[]
  /** Sets the listener for new reports; it must not throw. */
  onReported(listener: () => void): void
}

/** Characters of a line that are read, so that endless output costs little. */
const LINE_CHARS_READ_MAX = 10_000
/** Runs that are remembered; as many as can run at a time. */
const RUNS_MAX = 1_000

/** Makes an empty board. */
export function createProgressBoard(): ProgressBoard {
  const reports = new Map<RunId, { at: RunProgress; scrub: Pick<Scrubber, 'text'> }>()
  const slots = new Set<{ about: SlotUnderWay; scrub: Pick<Scrubber, 'text'>; at?: RunProgress }>()
  let onReported: () => void = () => undefined
  return {
    beginSlot(about, scrub) {
      const one: { about: SlotUnderWay; scrub: typeof scrub; at?: RunProgress } = { about, scrub }
      slots.add(one)
      return { report: (at) => void (one.at = at), over: () => void slots.delete(one) }
    },
    slots: () =>
      [...slots]
        .slice(0, PROGRESS_BOUNDS.slotsMax)
        .map(({ about, at, scrub }) => ({ ...about, ...(at && clean(at, scrub)) })),
    begin(run, scrub) {
      let isOver = false
      return {
        report(at) {
          if (isOver || (!reports.has(run) && reports.size >= RUNS_MAX)) return
          reports.delete(run)
          reports.set(run, { at, scrub })
          onReported()
        },
        over() {
          isOver = true
          reports.delete(run)
        },
      }
    },
    // Scrubbed only here: most reports are never read.
    newest: () =>
      [...reports]
        .slice(-PROGRESS_BOUNDS.runsMax)
        .toReversed()
        .map(([run, { at, scrub }]) => ({ run, ...clean(at, scrub) })),
    onReported: (listener) => (onReported = listener),
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

/** What progress reporting needs. */
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
