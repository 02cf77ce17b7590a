// The trials of `vedette migrate`: runs a monitor on both runtimes, one after the other, and compares the outcomes.
import type { Failure } from '../../contract/failure.ts'
import type { Monitor } from '../../contract/monitor.ts'
import { type Result, TARGET_VERDICTS, type Verdict } from '../../contract/result.ts'
import type { Candidate, Comparison, MigrationState, Move, Trial } from './migration.ts'
import { printable } from '../../agent/run/result-text.ts'

/** Runs a monitor once, on its runtime. Never rejects. */
export type RunTrial = (monitor: Monitor) => Promise<Result>

const ABOUT_TARGET: ReadonlySet<Verdict> = new Set(TARGET_VERDICTS)

/**
 * Runs it on the old and on the new runtime, and on both once more if the outcomes differ. Undefined when the signal
 * was aborted meanwhile.
 */
export async function compare(
  candidate: Candidate,
  { from, to }: Move,
  run: RunTrial,
  signal: AbortSignal,
): Promise<Comparison | undefined> {
  if (candidate.missing !== undefined) {
    return { candidate, state: 'not-run', from: [], to: [], notes: [candidate.missing] }
  }
  const trials = { from: [] as Trial[], to: [] as Trial[] }
  for (let round = 0; round < 2; round++) {
    trials.from.push(trialOf(await run(onRuntime(candidate.monitor, from))))
    if (signal.aborted) return undefined
    trials.to.push(trialOf(await run(onRuntime(candidate.monitor, to))))
    if (signal.aborted) return undefined
    if (trials.from[0]?.outcome === trials.to[0]?.outcome) break
  }
  const compared = { candidate, ...trials }
  const state = stateOf(trials.from, trials.to)
  return { ...compared, state, notes: notesOf(compared, { from, to }) }
}

/** Without retries, which would hide flakiness, and activated, so that all monitors are compared. */
function onRuntime(monitor: Monitor, runtimeId: string): Monitor {
  return { ...monitor, activated: true, retryStrategy: null, runtimeId } as Monitor
}

function stateOf(from: readonly Trial[], to: readonly Trial[]): MigrationState {
  const saysNothing = [...from, ...to].every(({ verdict }) => !ABOUT_TARGET.has(verdict))
  if (saysNothing) return 'not-run'
  if (from.length === 1) return 'agrees'
  const steady = [from, to].every((side) => side.every((one) => one.outcome === side[0]?.outcome))
  return steady ? 'differs' : 'flaky'
}

function trialOf({ verdict, checkType, durationMs, responseTimeMs, failures }: Result): Trial {
  const [first] = failures
  // The response time of an API monitor is that of its target alone, without its scripts.
  const scriptMs = checkType === 'API' ? durationMs : (responseTimeMs ?? durationMs)
  return {
    verdict,
    durationMs: scriptMs,
    ...(first === undefined ? {} : { error: `${first.code}: ${firstLine(first.message)}` }),
    outcome: JSON.stringify([verdict, ...failures.map(likenessOf).toSorted()]),
  }
}

/**
 * Versions of Playwright word the same failure differently, so that its place in the script identifies it; a failure
 * without a place is identified by its message.
 */
function likenessOf({ code, message, details = {} }: Failure): string {
  const { test, file, line } = details
  const where = file === undefined ? [firstLine(message)] : [test, file, line]
  return JSON.stringify([code, ...where])
}

const LINE_CHARS_MAX = 200
const LINE_CHARS_READ = 2_000
/** Path of a run's own folder, whose name is random. */
const RUN_FOLDER = /(?:file:\/\/)?\/[^\s'"`]*\/vedette-run-\+?\w{6}\/(?:project\/)?/g

function firstLine(message: string): string {
  const line = message.split('\n').find((one) => one.trim() !== '') ?? ''
  const plain = printable(line.slice(0, LINE_CHARS_READ)).trim().replaceAll(RUN_FOLDER, '')
  return plain.length > LINE_CHARS_MAX ? `${plain.slice(0, LINE_CHARS_MAX - 1)}…` : plain
}

function notesOf(
  { from, to, candidate }: Omit<Comparison, 'notes' | 'state'>,
  { from: old, to: next }: Move,
): string[] {
  const errorsOn = (where: string, trials: readonly Trial[]) =>
    [...new Set(trials.flatMap(({ error }) => error ?? []))].map((one) => `on ${where}: ${one}`)
  const isSame = from[0]?.outcome === to[0]?.outcome
  const notes = isSame ? errorsOn('both', from) : [...errorsOn(old, from), ...errorsOn(next, to)]
  if (candidate.place === undefined) {
    notes.push('names no runtime: it follows the agent, and nothing is written')
  }
  return notes
}
