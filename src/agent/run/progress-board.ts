// How far runs of code are, for whoever follows them: the newest word of each, without secrets, bounded. Those
// on demand are told at once, those of the timetable with each sync.
import type { RunId } from '../../contract/job.ts'
import {
  PROGRESS_BOUNDS,
  type ProgressWire,
  type SlotUnderWay,
} from '../../contract/protocol/run-progress.ts'
import type { RunProgress } from '../../scripts/host.ts'
import { printable } from './result-words.ts'
import type { Scrubber } from '../redaction/scrub.ts'

/** Where a run says how far it is. */
export interface ProgressPlace {
  tell(at: RunProgress): void
  /** There is nothing more to say; what comes all the same is left alone. */
  over(): void
}

/** Where all runs of an agent do. */
export interface ProgressBoard {
  begin(run: RunId, scrub: Pick<Scrubber, 'text'>): ProgressPlace
  /** The same of a slot that began to run. */
  beginSlot(
    slot: Pick<SlotUnderWay, 'monitorId' | 'slot' | 'startedAt'>,
    scrub: Pick<Scrubber, 'text'>,
  ): ProgressPlace
  /** Slots that run, so many as one sync takes. */
  slots(): SlotUnderWay[]
  /** The newest word of each run, those that spoke last in front; so many as one call takes. */
  newest(): ProgressWire[]
  /** Calls back whenever a run has said something; must not throw. */
  onTold(told: () => void): void
}

/** More of a line is not looked at, so that a run that writes without end costs little. */
const LINE_CHARS_READ_MAX = 10_000
/** Runs that are remembered; there are as many as run at a time. */
const RUNS_MAX = 1_000

/** Makes an empty board. */
export function createProgressBoard(): ProgressBoard {
  const words = new Map<RunId, { at: RunProgress; scrub: Pick<Scrubber, 'text'> }>()
  const slots = new Set<{ about: SlotUnderWay; scrub: Pick<Scrubber, 'text'>; at?: RunProgress }>()
  let onTold: () => void = () => undefined
  return {
    beginSlot(about, scrub) {
      const one: { about: SlotUnderWay; scrub: typeof scrub; at?: RunProgress } = { about, scrub }
      slots.add(one)
      return { tell: (at) => void (one.at = at), over: () => void slots.delete(one) }
    },
    slots: () =>
      [...slots]
        .slice(0, PROGRESS_BOUNDS.slotsMax)
        .map(({ about, at, scrub }) => ({ ...about, ...(at && clean(at, scrub)) })),
    begin(run, scrub) {
      let isOver = false
      return {
        tell(at) {
          if (isOver || (!words.has(run) && words.size >= RUNS_MAX)) return
          words.delete(run)
          words.set(run, { at, scrub })
          onTold()
        },
        over() {
          isOver = true
          words.delete(run)
        },
      }
    },
    // Scrubbed only here: most words are never read.
    newest: () =>
      [...words]
        .slice(-PROGRESS_BOUNDS.runsMax)
        .toReversed()
        .map(([run, { at, scrub }]) => ({ run, ...clean(at, scrub) })),
    onTold: (told) => (onTold = told),
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
