// Migration source: the scripted monitors of a monitors file.
import { readFile } from 'node:fs/promises'
import { needsOf } from '../../monitors/definitions.ts'
import type { Environment } from '../../process/env.ts'
import type { Candidate, MigrationSource, Move, RuntimePlace } from './migration.ts'
import { snapshotOf } from '../../agent/monitors-file/source.ts'
import { readMonitorsFile } from '../../agent/monitors-file/file.ts'
import { replaceFile, tryToReplace } from '../../process/replace-file.ts'
import { FILE_TYPES } from '../monitors-to-run.ts'
import { findRuntimes, withRuntimes, type WrittenRuntime } from './runtime-places.ts'

/** The file, and how to read it. */
export interface FileMigrationOptions {
  path: string
  env: Environment
  /** Used if the file names no location. */
  location: string
  move: Move
}

/** Reads the file's monitors, or its problems. Never rejects because of its content. */
export async function migrationOfFile({ path, env, location, move }: FileMigrationOptions) {
  const read = await readMonitorsFile(path, env, FILE_TYPES)
  if (!read.ok) return read
  const { file } = read
  const text = await readFile(path, 'utf8')
  const find = findRuntimes(text)
  const places = new Map<string, WrittenRuntime>()
  const isOn = (monitor: (typeof file.monitors)[number], runtime: string) =>
    needsOf(monitor).includes(`runtime:${runtime}`)
  const candidates = file.monitors.flatMap((monitor, index): Candidate[] => {
    if (!isOn(monitor, move.from)) return []
    const found = find(index)
    if (found === undefined) return [{ monitor }]
    const place = { key: String(found.start), label: `${path}:${found.line}` }
    places.set(place.key, found)
    if (text.slice(found.start, found.end).split(move.from).length === 2)
      return [{ monitor, place }]
    const obstacle = `it is not written there literally as ${move.from}`
    return [{ monitor, place: { ...place, obstacle } }]
  })
  const write = async (chosen: readonly RuntimePlace[]) => {
    const found = chosen.flatMap(({ key }) => places.get(key) ?? [])
    const problem = await rewrite(path, text, found, move).catch(({ message }: Error) => message)
    return new Map(problem === undefined ? [] : chosen.map(({ key }) => [key, problem]))
  }
  const source: MigrationSource = {
    snapshot: snapshotOf(file, location),
    candidates,
    movedAlready: file.monitors.filter((one) => isOn(one, move.to)).length,
    write,
  }
  return { ok: true as const, source, warnings: file.warnings }
}

/** Why the file cannot be rewritten, with the fix; undefined where it can. Changes nothing. */
export async function writeProblem(path: string): Promise<string | undefined> {
  try {
    await tryToReplace(path)
    return undefined
  } catch (error) {
    return (
      `${path} cannot be rewritten: ${(error as Error).message}; run this as the owner of the file and its ` +
      'folder, in a container with --user "$(id -u):$(id -g)" --group-add 0 and the folder mounted'
    )
  }
}

/** Undefined when the file is written, else the reason why not. */
async function rewrite(
  path: string,
  tested: string,
  found: readonly WrittenRuntime[],
  move: Move,
): Promise<string | undefined> {
  if (found.length === 0) return undefined
  if ((await readFile(path, 'utf8')) !== tested) {
    return `${path} has changed since its monitors were run; run this again`
  }
  const changed = withRuntimes(tested, found, move)
  if (changed === undefined) return `${path} cannot be changed there without changing more`
  await replaceFile(path, changed)
  return undefined
}
