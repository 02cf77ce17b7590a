// Types and plan of `vedette migrate`: the monitors that may move to another runtime, the places of their runtimes,
// and the outcomes of the trials. The monitors are in a file or on a platform.
import type { Monitor } from '../../contract/monitor.ts'
import type { Verdict } from '../../contract/result.ts'
import type { Snapshot } from '../../agent/source.ts'

export interface Move {
  from: string
  to: string
}

/** One place where a runtime is written: for one monitor, or for all that inherit it. */
export interface RuntimePlace {
  /** The same for all monitors that inherit the runtime from there; on a platform, the path in its API. */
  key: string
  /** For people, like `monitors.yaml:12` or `group “Shop”`. */
  label: string
  /** Why the place may not be changed. */
  obstacle?: string
}

/** A monitor with scripts that runs on the old runtime. */
export interface Candidate {
  /** The effective definition in its group, with the values of secrets. */
  monitor: Monitor
  /** Absent where no runtime is named: the agent's default applies. */
  place?: RuntimePlace
  /** The missing requirement for a run here. */
  missing?: string
}

/** The monitors, and how to change them. */
export interface MigrationSource {
  /** Location, proxy and variables; its monitors are not used. */
  snapshot: Snapshot
  candidates: Candidate[]
  /** Scripted monitors that are on the new runtime already. */
  movedAlready: number
  /** Writes the new runtime at these places; resolves with errors by the key of the place. Never rejects. */
  write(places: readonly RuntimePlace[]): Promise<ReadonlyMap<string, string>>
}

/**
 * `agrees`: same outcome on both runtimes. `differs`: different outcomes, twice. `flaky`: different outcomes on one
 * runtime. `not-run`: no outcome. Of each, the words for one monitor, after its name, and for several.
 */
export const STATES = {
  agrees: { label: 'agrees', sentence: 'agrees', ofMany: 'agree', colour: 'green' },
  differs: { label: 'differs', sentence: 'differs', ofMany: 'differ', colour: 'red' },
  flaky: { label: 'flaky', sentence: 'is flaky', ofMany: 'flaky', colour: 'yellow' },
  'not-run': {
    label: 'not run',
    sentence: 'could not be run',
    ofMany: 'not run',
    colour: 'magenta',
  },
} as const
export type MigrationState = keyof typeof STATES

/** One run on one runtime. */
export interface Trial {
  verdict: Verdict
  durationMs: number
  /** `CODE: first line of the message` of the first failure. */
  error?: string
  /** Equal for runs with the same verdict and failures, regardless of their wording. */
  outcome: string
}

/** The outcome of the trials of one monitor. */
export interface Comparison {
  candidate: Candidate
  state: MigrationState
  /** One each, or two where the first ones differ; none where it could not be run. */
  from: Trial[]
  to: Trial[]
  /** Sentences on the differences, or on why it was not run. */
  notes: string[]
}

/** The places that --apply changes, and the others with the reason. */
export interface MigrationPlan {
  write: RuntimePlace[]
  unchanged: { place: RuntimePlace; why: string }[]
}

/**
 * A place is changed only if every monitor that inherits its runtime from there agrees: the monitors of a group
 * move together or not at all.
 */
export function planOf(comparisons: readonly Comparison[]): MigrationPlan {
  const plan: MigrationPlan = { write: [], unchanged: [] }
  const placed = comparisons.filter(({ candidate }) => candidate.place !== undefined)
  const byPlace = Map.groupBy(placed, ({ candidate }) => candidate.place?.key)
  for (const users of byPlace.values()) {
    const place = users[0]?.candidate.place
    if (place === undefined) continue
    const against = users.filter(({ state }) => state !== 'agrees')
    if (against.length > 0)
      plan.unchanged.push({ place, why: against.map((one) => whyNot(one, place)).join(', ') })
    else if (place.obstacle !== undefined) plan.unchanged.push({ place, why: place.obstacle })
    else plan.write.push(place)
  }
  return plan
}

function whyNot({ candidate, state }: Comparison, place: RuntimePlace): string {
  const name = `“${candidate.monitor.name}”`
  // On a platform the monitor can be the place itself, which the sentence has named already.
  return `${place.label === name ? 'it' : name} ${STATES[state].sentence}`
}
