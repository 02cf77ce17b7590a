// Finds the monitors file of a command and prints its problems.
import { fileURLToPath } from 'node:url'
import { readMonitorsFilePath } from '../agent/config.ts'
import type { KnownType } from '../agent/monitors-file/definition.ts'
import {
  countedProblems,
  formatProblem,
  type Problem,
  seeProblems,
} from '../agent/monitors-file/problems.ts'
import type { Monitor, Variable } from '../contract/monitor.ts'
import { EXAMPLE_MONITORS, type ExampleSite, startExampleSite } from '../examples/site.ts'
import { DEFINITIONS, isPinged } from '../monitors/definitions.ts'
import { MONITOR_TYPES } from '../monitors/registry.ts'
import { refuse } from './settings.ts'
import { EXIT } from '../process/exit-codes.ts'

const { env, stderr } = process

/** A monitors file, and variables that it needs in addition to its own. */
export interface FileToRun {
  path: string
  variables: readonly Variable[]
}

/** Types of monitors in a file: those of the agent, and heartbeats. */
export const FILE_TYPES = new Map<string, KnownType>([...DEFINITIONS, ...MONITOR_TYPES])

/** Heartbeats that a line names. */
const HEARTBEATS_SHOWN_MAX = 20

/** The monitors that an agent runs; prints the ids of the others, which are heartbeats. */
export function withoutHeartbeats(command: string, monitors: readonly Monitor[]): Monitor[] {
  const pinged = monitors.filter(({ checkType }) => isPinged(checkType))
  if (pinged.length > 0) {
    const ids = pinged.slice(0, HEARTBEATS_SHOWN_MAX).map(({ id }) => id)
    const more = pinged.length > ids.length ? ', …' : ''
    const why = 'heartbeats run on a platform only (vedette apply or vedette start)'
    stderr.write(`vedette ${command}: ${why}: ${ids.join(', ')}${more}\n`)
  }
  return monitors.filter(({ checkType }) => !isPinged(checkType))
}

/** Help text on the choice of the file. */
export const FILE_HELP =
  'Default: the file of MONITORS_FILE, or else the built-in example, which has a small local site and ' +
  'needs no network.'

/** Prints the problems of a monitors file; returns the exit code. */
export function complain(read: { problems: readonly Problem[] }): number {
  stderr.write(read.problems.map((one) => `${formatProblem(one)}\n`).join(''))
  stderr.write(`vedette: ${countedProblems(read.problems)} in the monitors file\n`)
  stderr.write(seeProblems(read.problems))
  return EXIT.configuration
}

/** Prints the warnings of a valid file. */
export function warn(warnings: readonly Problem[]): void {
  for (const one of warnings) stderr.write(`warning: ${formatProblem(one)}\n`)
}

/** The path that the command or the environment names, if any; the exit code where the settings are invalid. */
export function pathOf(named: string | undefined): string | number | undefined {
  if (named !== undefined) return named
  const { path, problems } = readMonitorsFilePath(env)
  return problems.length > 0 ? refuse(problems) : path
}

/** The file of the command or the environment, or else the example with its local site. */
export async function withFile(
  named: string | undefined,
  use: (file: FileToRun) => Promise<number>,
): Promise<number> {
  const path = pathOf(named)
  if (typeof path === 'number') return path
  if (path !== undefined) return use({ path, variables: [] })
  const site: ExampleSite = await startExampleSite()
  try {
    return await use({ path: fileURLToPath(EXAMPLE_MONITORS), variables: site.variables })
  } finally {
    await site.close()
  }
}
