// Moving scripts to another runtime: what may move, where its runtime is written, and what the trials on both
// runtimes came to. Written for `vedette migrate`, whose monitors stand in a file or on a platform.
import type { Monitor } from '../../contract/monitor.ts'
import type { Verdict } from '../../contract/result.ts'
import type { Snapshot } from '../../agent/source.ts'

/** From which runtime to which. */
export interface Move {
  from: string
  to: string
}

/** One place where a runtime is written: for one monitor, or for all that take theirs from there. */
export interface RuntimePlace {
  /** The same for all that take their runtime from there. */
  key: string
  /** For people, like `monitors.yaml:12` or `group “Shop”`. */
  words: string
  /** Why nothing may be written there; then nothing is. */
  obstacle?: string
}

/** A monitor with scripts that runs on the old runtime. */
export interface Candidate {
  /** As it holds in its group, with the values of secrets. */
  monitor: Monitor
  /** Absent where no runtime is named: it follows the agent's own. */
  place?: RuntimePlace
  /** Why it cannot be run here. */
  lacks?: string
}

/** Where monitors come from and are changed. */
export interface MigrationSource {
  /** Location, proxy and variables; its monitors are not looked at. */
  snapshot: Snapshot
  candidates: Candidate[]
  /** Scripted monitors that are on the new runtime already. */
  movedAlready: number
  /** Writes the new runtime at these places; tells of each what became of it. Never rejects for that. */
  write(places: readonly RuntimePlace[], move: Move): Promise<Written>
}

/** What was written. */
export interface Written {
  /** By the key of the place; absent: it is done. */
  failed: ReadonlyMap<string, string>
}

/** Why there is nothing to compare: something is wrong with what was asked for. */
export class MigrationError extends Error {
  /** `refused`: asking the same again is no use. */
  readonly code: 'refused' | 'unreachable'

  constructor(code: 'refused' | 'unreachable', message: string) {
    super(message)
    this.name = 'MigrationError'
    this.code = code
  }
}

/**
 * `agrees`: both runtimes say the same. `differs`: they do not, twice. `flaky`: one runtime contradicts itself.
 * `not-run`: nothing can be said.
 */
export type MigrationState = 'agrees' | 'differs' | 'flaky' | 'not-run'

/** One run on one runtime. */
export interface Trial {
  verdict: Verdict
  durationMs: number
  /** `CODE: first line of the message` of the first failure. */
  error?: string
  /** What two runs that came to the same have in common: all failures, as far as no wording goes. */
  outcome: string
}

/** What the trials of one monitor came to. */
export interface Comparison {
  candidate: Candidate
  state: MigrationState
  /** One each, or two where the first ones did not agree; none where it could not be run. */
  from: Trial[]
  to: Trial[]
  /** What differs, or why it was not run; a sentence each. */
  notes: string[]
}

/** What is written with --apply, and what stays and why. */
export interface MigrationPlan {
  write: RuntimePlace[]
  keep: { place: RuntimePlace; why: string }[]
}

/**
 * A place is written anew where every monitor that takes its runtime from there runs alike on both: those of
 * a group move together or not at all.
 */
export function planOf(comparisons: readonly Comparison[]): MigrationPlan {
  const plan: MigrationPlan = { write: [], keep: [] }
  const placed = comparisons.filter(({ candidate }) => candidate.place !== undefined)
  const byPlace = Map.groupBy(placed, ({ candidate }) => candidate.place?.key)
  for (const users of byPlace.values()) {
    const place = users[0]?.candidate.place
    if (place === undefined) continue
    const against = users.filter(({ state }) => state !== 'agrees')
    if (against.length > 0)
      plan.keep.push({ place, why: against.map((one) => whyNot(one, place)).join(', ') })
    else if (place.obstacle !== undefined) plan.keep.push({ place, why: place.obstacle })
    else plan.write.push(place)
  }
  return plan
}

const STATE_WORDS: Readonly<Record<MigrationState, string>> = {
  agrees: 'agrees',
  differs: 'differs',
  flaky: 'is flaky',
  'not-run': 'could not be run',
}

function whyNot({ candidate, state }: Comparison, place: RuntimePlace): string {
  const name = `“${candidate.monitor.name}”`
  // On a platform that is the place itself, which has just been named.
  return `${place.words === name ? 'it' : name} ${STATE_WORDS[state]}`
}
