// The report of `vedette migrate`, as a table and as JSON: all monitors, the differences of each, and the changes
// that were or would be written.
import { inColumns } from '../../process/columns.ts'
import { paint } from '../../process/pretty-line.ts'
import { counted } from '../../contract/schema/amounts.ts'
import {
  type Comparison,
  type MigrationPlan,
  type Move,
  type RuntimePlace,
  STATES,
  type Trial,
} from './migration.ts'
import { printable } from '../../agent/run/result-text.ts'

export interface MigrationReport {
  move: Move
  comparisons: readonly Comparison[]
  plan: MigrationPlan
  movedAlready: number
  /** Errors by the key of the place; undefined when nothing was to be written. */
  failed: ReadonlyMap<string, string> | undefined
}

/** The table, the counts, then the changes. */
export function migrationTable(report: MigrationReport, colour: boolean): string {
  const { move, comparisons, movedAlready } = report
  if (comparisons.length === 0) {
    const moved = movedAlready === 0 ? '' : `; ${movedAlready} on ${move.to} already`
    return `no monitor with scripts uses ${move.from}${moved}\n`
  }
  const [head = '', ...rows] = inColumns([
    ['', 'monitor', 'type', move.from, move.to],
    ...comparisons.map(cellsOf),
  ])
  const width = Math.max(...comparisons.map(({ state }) => STATES[state].label.length))
  const lines = comparisons.flatMap(({ state, notes }, index) => {
    const { label, colour: style } = STATES[state]
    const row = rows[index]?.slice(width) ?? ''
    const indent = ' '.repeat(width + 2)
    const painted = paint(colour, style, label.padEnd(width))
    return [painted + row, ...notes.map((note) => indent + printable(note))]
  })
  return `${[head, ...lines, '', countsOf(report), ...writtenLines(report)].join('\n')}\n`
}

function cellsOf({ candidate, state, from, to }: Comparison): string[] {
  const { name, checkType } = candidate.monitor
  return [STATES[state].label, printable(name), checkType, trialText(from), trialText(to)]
}

/** Like `passed 2.1 s`, or `failed 2.1 s, passed 2.0 s`. */
function trialText(trials: readonly Trial[]): string {
  if (trials.length === 0) return '-'
  return trials
    .map(({ verdict, durationMs }) => `${verdict} ${(durationMs / 1000).toFixed(1)} s`)
    .join(', ')
}

function countsOf({ comparisons, movedAlready, move }: MigrationReport): string {
  const counts = Object.entries(STATES).flatMap(([state, { label, ofMany }]) => {
    const count = comparisons.filter((one) => one.state === state).length
    return count === 0 ? [] : [`${count} ${count === 1 ? label : ofMany}`]
  })
  const moved = movedAlready === 0 ? '' : `; ${movedAlready} on ${move.to} already`
  const all = counted(comparisons.length, 'monitor')
  return `${counts.join(', ')} (${all} on ${move.from}${moved})`
}

function writtenLines({ plan, failed, move }: MigrationReport): string[] {
  const done = failed !== undefined
  const wrote = plan.write.flatMap(({ key, label }) => {
    const problem = failed?.get(key)
    if (problem !== undefined) return [`${label} could not be changed: ${printable(problem)}`]
    return [`${label} ${done ? 'is now' : 'can become'} ${move.to}`]
  })
  const lines = plan.unchanged.map(
    ({ place, why }) => `${place.label} stays ${move.from}: ${printable(why)}`,
  )
  const hint = !done && plan.write.length > 0 ? ['Nothing was changed; --apply writes it.'] : []
  return [...wrote.map(printable), ...lines, ...hint]
}

/** The report as one JSON object. */
export function migrationJson(report: MigrationReport): object {
  const { move, comparisons, plan, movedAlready, failed } = report
  return {
    ...move,
    monitors: comparisons.map(({ candidate, state, from, to, notes }) => ({
      id: candidate.monitor.id,
      name: candidate.monitor.name,
      checkType: candidate.monitor.checkType,
      state,
      ...(candidate.place === undefined ? {} : { place: candidate.place.label }),
      from: from.map(trialJson),
      to: to.map(trialJson),
      notes,
    })),
    movedAlready,
    places: [
      ...plan.write.map((place) => placeJson(place, failed)),
      ...plan.unchanged.map(({ place, why }) => ({ place: place.label, state: 'kept', why })),
    ],
  }
}

function trialJson({ verdict, durationMs, error }: Trial): object {
  return { verdict, durationMs, ...(error === undefined ? {} : { error }) }
}

function placeJson({ key, label }: RuntimePlace, failed: MigrationReport['failed']): object {
  const why = failed?.get(key)
  if (why !== undefined) return { place: label, state: 'failed', why }
  return { place: label, state: failed === undefined ? 'to-write' : 'written' }
}
