// Where engines and runtimes are, for commands that need nothing else of the agent's settings.
import {
  type Environment,
  type EnvironmentProblem,
  readEnvironment,
  variableTexts,
} from '../process/env.ts'
import { VARIABLE_TABLE } from './config.ts'
import { toolsFolder } from '../scripts/tools-folder.ts'

const { TOOLS_DIR, DATA_DIR } = VARIABLE_TABLE
const TABLE = { TOOLS_DIR, DATA_DIR }

/** Their environment variables, for help. */
export const TOOLS_VARIABLES = variableTexts(TABLE)

/** The folder of engines and runtimes, or what is wrong with the settings. */
export function readToolsFolder(env: Environment): {
  folder: string
  problems: EnvironmentProblem[]
} {
  const { values, problems } = readEnvironment(TABLE, env)
  return { folder: toolsFolder(values.TOOLS_DIR, values.DATA_DIR, env), problems }
}
