// Real package managers for tests: those of TOOLS_DIR, otherwise of the user's cache, where they are installed at
// first use.
import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { readToolsFolder } from '../../../src/agent/config.ts'
import { installTool } from '../../../src/scripts/tool-install.ts'
import {
  openToolchains,
  type InstalledTool,
  type ToolKind,
} from '../../../src/scripts/toolchains.ts'
import { INSTALL_MS_MAX } from '../scripts/toolchains.ts'

const { folder } = readToolsFolder(process.env)
const toolchains = openToolchains(folder)
const run = promisify(execFile)

/** A manager such as `pnpm@10`, or Bun. May take INSTALL_MS_MAX at its first use. */
export async function packageManager(name: string): Promise<InstalledTool> {
  const kind: ToolKind = name.startsWith('bun@') ? 'engine' : 'package-manager'
  const found = await toolchains.find(kind, name)
  if (found !== undefined) return found
  const signal = AbortSignal.timeout(INSTALL_MS_MAX)
  const outcome = await installTool({ kind, name, folder, env: process.env, signal })
  if ('problem' in outcome) throw new Error(outcome.problem)
  return outcome.tool
}

/** Runs the manager in a project without a sandbox, like a developer. */
export async function runManager(
  { program }: InstalledTool,
  args: readonly string[],
  project: string,
): Promise<void> {
  const env = {
    PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
    HOME: join(project, '..'),
    // Yarn 1 of root has one cache for the machine, with packages of the same names from other tests.
    YARN_CACHE_FOLDER: join(project, '..', 'yarn-cache'),
    npm_config_manage_package_manager_versions: 'false',
    pnpm_config_pm_on_fail: 'ignore',
  }
  try {
    await run(program, args, { cwd: project, env })
  } catch (error) {
    // Some managers report errors on standard output.
    throw new Error(`${program}: ${(error as { stdout: string }).stdout}`, { cause: error })
  }
}
