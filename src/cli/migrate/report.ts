// What `vedette migrate` found, for people and as JSON: a table of all monitors, what differs beneath each, and
// what is or would be written.
import { paint } from '../../process/pretty-line.ts'
import { counted } from '../../contract/schema/amounts.ts'
import type {
  Comparison,
  MigrationPlan,
  MigrationState,
  Move,
  RuntimePlace,
  Trial,
} from './migration.ts'
import { printable } from '../../agent/run/result-text.ts'

/** All that is to be told. */
export interface MigrationReport {
  move: Move
  comparisons: readonly Comparison[]
  plan: MigrationPlan
  movedAlready: number
  /** By the key of a place why it could not be written; undefined where nothing was to be. */
  failed: ReadonlyMap<string, string> | undefined
}

const STATES: Readonly<
  Record<
    MigrationState,
    { words: string; ofMany: string; colour: 'green' | 'red' | 'yellow' | 'magenta' }
  >
> = {
  agrees: { words: 'agrees', ofMany: 'agree', colour: 'green' },
  differs: { words: 'differs', ofMany: 'differ', colour: 'red' },
  flaky: { words: 'flaky', ofMany: 'flaky', colour: 'yellow' },
  'not-run': { words: 'not run', ofMany: 'not run', colour: 'magenta' },
}

/** The table, then the counts, then what is written. */
export function migrationTable(report: MigrationReport, colour: boolean): string {
  const { move, comparisons, movedAlready } = report
  if (comparisons.length === 0) {
    const moved = movedAlready === 0 ? '' : `; ${movedAlready} on ${move.to} already`
    return `no monitor with scripts is on ${move.from}${moved}\n`
  }
  const head = ['', 'monitor', 'type', move.from, move.to]
  const rows = comparisons.map(cellsOf)
  const widths = head.map((one, column) =>
    Math.max(one.length, ...rows.map((row) => row[column]?.length ?? 0)),
  )
  const line = (cells: readonly string[]) =>
    cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
  const indent = ' '.repeat((widths[0] ?? 0) + 2)
  const lines = comparisons.flatMap(({ state, notes }, index) => {
    const cells = rows[index] ?? []
    const rest = line(cells)
      .slice(widths[0] ?? 0)
      .trimEnd()
    const word = paint(colour, STATES[state].colour, (cells[0] ?? '').padEnd(widths[0] ?? 0))
    return [word + rest, ...notes.map((note) => indent + printable(note))]
  })
  return `${[line(head).trimEnd(), ...lines, '', countsOf(report), ...writtenLines(report)].join('\n')}\n`
}

function cellsOf({ candidate, state, from, to }: Comparison): string[] {
  const { name, checkType } = candidate.monitor
  return [STATES[state].words, printable(name), checkType, trialWords(from), trialWords(to)]
}

/** Like `passed 2.1 s`, or `failed 2.1 s, passed 2.0 s`. */
function trialWords(trials: readonly Trial[]): string {
  if (trials.length === 0) return '-'
  return trials
    .map(({ verdict, durationMs }) => `${verdict} ${(durationMs / 1000).toFixed(1)} s`)
    .join(', ')
}

function countsOf({ comparisons, movedAlready, move }: MigrationReport): string {
  const counts = Object.entries(STATES).flatMap(([state, { words, ofMany }]) => {
    const count = comparisons.filter((one) => one.state === state).length
    return count === 0 ? [] : [`${count} ${count === 1 ? words : ofMany}`]
  })
  const moved = movedAlready === 0 ? '' : `; ${movedAlready} on ${move.to} already`
  const all = counted(comparisons.length, 'monitor')
  return `${counts.join(', ')} (${all} on ${move.from}${moved})`
}

function writtenLines({ plan, failed, move }: MigrationReport): string[] {
  const done = failed !== undefined
  const wrote = plan.write.flatMap(({ key, words }) => {
    const problem = failed?.get(key)
    if (problem !== undefined) return [`${words} could not be changed: ${printable(problem)}`]
    return [`${words} ${done ? 'is now' : 'can become'} ${move.to}`]
  })
  const lines = plan.keep.map(
    ({ place, why }) => `${place.words} stays ${move.from}: ${printable(why)}`,
  )
  const hint = !done && plan.write.length > 0 ? ['Nothing was changed; --apply writes it.'] : []
  return [...wrote.map(printable), ...lines, ...hint]
}

/** The same as one object. */
export function migrationJson(report: MigrationReport): object {
  const { move, comparisons, plan, movedAlready, failed } = report
  return {
    ...move,
    monitors: comparisons.map(({ candidate, state, from, to, notes }) => ({
      id: candidate.monitor.id,
      name: candidate.monitor.name,
      checkType: candidate.monitor.checkType,
      state,
      ...(candidate.place === undefined ? {} : { place: candidate.place.words }),
      from: from.map(trialJson),
      to: to.map(trialJson),
      notes,
    })),
    movedAlready,
    places: [
      ...plan.write.map((place) => placeJson(place, failed)),
      ...plan.keep.map(({ place, why }) => ({ place: place.words, state: 'kept', why })),
    ],
  }
}

function trialJson({ verdict, durationMs, error }: Trial): object {
  return { verdict, durationMs, ...(error === undefined ? {} : { error }) }
}

function placeJson({ key, words }: RuntimePlace, failed: MigrationReport['failed']): object {
  const why = failed?.get(key)
  if (why !== undefined) return { place: words, state: 'failed', why }
  return { place: words, state: failed === undefined ? 'to-write' : 'written' }
}
