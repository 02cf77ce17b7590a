// Migration source: the scripted monitors of a monitors file.
import { readFile } from 'node:fs/promises'
import { needsOf } from '../../monitors/definitions.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { Environment } from '../../process/env.ts'
import type { Candidate, MigrationSource, Move, RuntimePlace, Written } from './migration.ts'
import { snapshotOf } from '../../agent/monitors-file/source.ts'
import { type LoadedFile, readMonitorsFile } from '../../agent/monitors-file/file.ts'
import type { KnownType } from '../../agent/monitors-file/definition.ts'
import type { Problem } from '../../agent/monitors-file/problems.ts'
import { readText } from '../../agent/monitors-file/text.ts'
import { replaceFile } from '../../process/replace-file.ts'
import { findRuntimes, withRuntimes, type WrittenRuntime } from './runtime-places.ts'

/** The file, and how to read it. */
export interface FileMigrationOptions {
  path: string
  env: Environment
  types: ReadonlyMap<string, KnownType>
  /** Used if the file names no location. */
  location: string
  move: Move
}

/** The file's monitors, or its problems. */
export type FileMigration =
  { ok: true; source: MigrationSource; warnings: Problem[] } | { ok: false; problems: Problem[] }

/** Reads the file. Never rejects because of its content. */
export async function migrationOfFile(options: FileMigrationOptions): Promise<FileMigration> {
  const { path, env, types, move } = options
  const text = await readText(path, LIMITS.monitorsFileBytesMax)
  const read = await readMonitorsFile(path, env, types)
  if (!read.ok) return read
  if ('problem' in text)
    return { ok: false, problems: [{ file: path, path: '', message: text.problem }] }
  const { file } = read
  const places = new Map<string, WrittenRuntime>()
  const candidates = candidatesOf(file, { ...options, text: text.text, places })
  const source: MigrationSource = {
    snapshot: snapshotOf(file, file.location ?? options.location),
    candidates,
    movedAlready: file.monitors.filter((one) => isOn(one, move.to)).length,
    write: (chosen) => write(path, text.text, chosen, { move, places }),
  }
  return { ok: true, source, warnings: file.warnings }
}

const isOn = (monitor: LoadedFile['monitors'][number], runtime: string) =>
  needsOf(monitor).includes(`runtime:${runtime}`)

interface Reading extends FileMigrationOptions {
  text: string
  /** Receives the places found, by their key. */
  places: Map<string, WrittenRuntime>
}

function candidatesOf({ monitors }: LoadedFile, reading: Reading): Candidate[] {
  const { path, text, move, places } = reading
  const find = findRuntimes(text)
  return monitors.flatMap((monitor, index) => {
    if (!isOn(monitor, move.from)) return []
    const found = find(index)
    if (found === undefined) return [{ monitor }]
    const key = String(found.start)
    places.set(key, found)
    return [{ monitor, place: placeOf(`${path}:${found.line}`, key, found, reading) }]
  })
}

function placeOf(
  label: string,
  key: string,
  found: WrittenRuntime,
  { text, move }: Reading,
): RuntimePlace {
  const isPlain = text.slice(found.start, found.end).split(move.from).length === 2
  if (isPlain) return { key, label }
  return { key, label, obstacle: `it is not written there as ${move.from}, letter by letter` }
}

const MARK = '\uFEFF'

async function write(
  path: string,
  tested: string,
  chosen: readonly RuntimePlace[],
  { move, places }: { move: Move; places: ReadonlyMap<string, WrittenRuntime> },
): Promise<Written> {
  const found = chosen.flatMap(({ key }) => places.get(key) ?? [])
  const problem = await rewrite(path, tested, found, move).catch((error: Error) => error.message)
  return { failed: new Map(problem === undefined ? [] : chosen.map(({ key }) => [key, problem])) }
}

/** Undefined when the file is written, else the reason why not. */
async function rewrite(
  path: string,
  tested: string,
  found: readonly WrittenRuntime[],
  move: Move,
): Promise<string | undefined> {
  if (found.length === 0) return undefined
  const present = await readFile(path, 'utf8')
  const mark = present.startsWith(MARK) ? MARK : ''
  if (present.slice(mark.length) !== tested) {
    return `${path} has changed since its monitors were run; run this again`
  }
  const changed = withRuntimes(tested, found, move)
  if (changed === undefined) return `${path} cannot be changed there without changing more`
  await replaceFile(path, mark + changed)
  return undefined
}
