// Finds the monitors file of a command and prints its problems.
import { fileURLToPath } from 'node:url'
import { readMonitorsFilePath } from '../agent/config.ts'
import { countedProblems, formatProblem, type Problem } from '../agent/monitors-file/problems.ts'
import type { Variable } from '../contract/monitor.ts'
import { EXAMPLE_MONITORS, type ExampleSite, startExampleSite } from '../examples/site.ts'
import { seeHelp } from '../process/see-help.ts'
import { refuse } from './settings.ts'
import { EXIT } from '../process/exit-codes.ts'

const { env, stderr } = process

/** A monitors file, and variables that it needs in addition to its own. */
export interface FileToRun {
  path: string
  variables: readonly Variable[]
}

/** Help text on the choice of the file. */
export const FILE_HELP =
  'Default: the file of MONITORS_FILE, or else the built-in example, which has a small local site and ' +
  'needs no network.'

/** Prints the problems of a monitors file; returns the exit code. */
export function complain(read: { problems: readonly Problem[] }): number {
  stderr.write(read.problems.map((one) => `${formatProblem(one)}\n`).join(''))
  stderr.write(`vedette: ${countedProblems(read.problems)} in the monitors file\n`)
  const topics = read.problems.flatMap(({ topic }) => topic ?? [])
  stderr.write(seeHelp(topics.length > 0 ? topics : ['monitors']))
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
