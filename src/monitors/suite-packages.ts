// How the packages of a project are installed: the package manager whose lock file the project has, and where
// that tool is on this machine.
import { access, constants, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A package manager. */
export type PackageTool = 'npm' | 'pnpm' | 'yarn' | 'bun'

/** What a project says about its packages. */
export interface ProjectPackages {
  tool: PackageTool
  /** The command that installs exactly what the lock file says. */
  command: string
  /** The folder that the lock file, or else package.json, is in. */
  folder: string
  /** File names in that folder that decide on what is installed. */
  lockFiles: string[]
}

/** Lock file → its tool; where there are several, the first counts unless package.json names another. */
const LOCK_FILES: ReadonlyMap<string, PackageTool> = new Map([
  ['bun.lock', 'bun'],
  ['bun.lockb', 'bun'],
  ['pnpm-lock.yaml', 'pnpm'],
  ['yarn.lock', 'yarn'],
  ['npm-shrinkwrap.json', 'npm'],
  ['package-lock.json', 'npm'],
])

const COMMANDS: Readonly<Record<PackageTool, string>> = {
  npm: 'npm ci --no-audit --no-fund --loglevel=error',
  pnpm: 'pnpm install --frozen-lockfile',
  yarn: 'yarn install --frozen-lockfile --non-interactive',
  bun: 'bun install --frozen-lockfile',
}
const YARN_BERRY = 'yarn install --immutable'
const WITHOUT_LOCK: Readonly<Record<PackageTool, string>> = {
  npm: 'npm install --no-audit --no-fund --no-package-lock --loglevel=error',
  pnpm: 'pnpm install',
  yarn: 'yarn install',
  bun: 'bun install',
}

/**
 * The packages of a project whose files are in `folders`, the nearest first, the last being the whole
 * bundle: a workspace has its lock file at the top. Undefined where there is no package.json at all.
 */
export async function packagesOf(folders: readonly string[]): Promise<ProjectPackages | undefined> {
  for (const folder of folders) {
    const lockFiles: string[] = []
    for (const name of LOCK_FILES.keys()) if (await exists(join(folder, name))) lockFiles.push(name)
    if (lockFiles.length === 0) continue
    const wanted = await wantedTool(folder)
    const tools = lockFiles.map((name) => LOCK_FILES.get(name) ?? 'npm')
    const tool = wanted !== undefined && tools.includes(wanted) ? wanted : (tools[0] ?? 'npm')
    return { tool, command: await commandOf(tool, folder), folder, lockFiles }
  }
  for (const folder of folders) {
    if (!(await exists(join(folder, 'package.json')))) continue
    const tool = (await wantedTool(folder)) ?? 'npm'
    return { tool, command: WITHOUT_LOCK[tool], folder, lockFiles: [] }
  }
  return undefined
}

async function commandOf(tool: PackageTool, folder: string): Promise<string> {
  if (tool !== 'yarn') return COMMANDS[tool]
  // Since version 2 the lock file is YAML that begins with its own metadata.
  const lock = await readFile(join(folder, 'yarn.lock'), 'utf8').catch(() => '')
  return /^__metadata:/m.test(lock) ? YARN_BERRY : COMMANDS.yarn
}

/** The tool of the field `packageManager`, like `pnpm@9.1.0`. */
async function wantedTool(folder: string): Promise<PackageTool | undefined> {
  try {
    const manifest: unknown = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
    const { packageManager } = (manifest ?? {}) as { packageManager?: unknown }
    const name = typeof packageManager === 'string' ? packageManager.split('@')[0] : undefined
    return TOOLS.find((one) => one === name)
  } catch {
    return undefined
  }
}

const TOOLS: readonly PackageTool[] = ['npm', 'pnpm', 'yarn', 'bun']

/** What installs a tool that is missing. */
export const TOOL_MENDS: Readonly<Record<PackageTool, string>> = {
  npm: 'install npm on the machine or in the image of the agent',
  pnpm: 'run `npm install --global pnpm` on the machine or in the image of the agent',
  yarn: 'run `npm install --global yarn` on the machine or in the image of the agent',
  bun: 'run `vedette engine install bun@1.3`',
}

/** The first folder of `folders` that has the program. */
export async function folderOf(
  program: string,
  folders: readonly string[],
): Promise<string | undefined> {
  for (const folder of folders) if (await isProgram(join(folder, program))) return folder
  return undefined
}

/** Where systems have programs; what the agent's own PATH says is not the run's business. */
export const SYSTEM_PROGRAMS: readonly string[] = ['/usr/local/bin', '/usr/bin', '/bin']

function isProgram(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
