// Package manager of a project: the one whose lock file the project has, and where it is on this machine.
import { access } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { jsonOf } from '../../contract/exact-json.ts'
import { readUntrusted } from '../../sandbox/untrusted-files.ts'

export type PackageTool = 'npm' | 'pnpm' | 'yarn' | 'bun'

/** What a project says about its packages. */
export interface ProjectPackages {
  tool: PackageTool
  /** Which version of it, like `pnpm@10`, as the lock file was written by; `bun@1.3` is an engine. */
  manager: string
  /** The command that installs exactly what the lock file says. */
  command: string
  /** The folder that the lock file, or else package.json, is in. */
  folder: string
  /** File names in that folder that decide on what is installed. */
  lockFiles: string[]
}

/** Lock file → its tool; where there are several, the first counts unless package.json names another. */
export const LOCK_FILES: ReadonlyMap<string, PackageTool> = new Map([
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

/** The packages of a project in `folders`, the nearest first: a workspace has its lock file at the top. */
export async function packagesOf(folders: readonly string[]): Promise<ProjectPackages | undefined> {
  for (const folder of folders) {
    const lockFiles: string[] = []
    for (const name of LOCK_FILES.keys()) if (await exists(join(folder, name))) lockFiles.push(name)
    if (lockFiles.length === 0) continue
    const wanted = await wantedTool(folder)
    const tools = lockFiles.map((name) => LOCK_FILES.get(name) ?? 'npm')
    const isKnown = wanted !== undefined && tools.includes(wanted.tool)
    const tool = isKnown ? wanted.tool : (tools[0] ?? 'npm')
    return { ...(await managerOf(tool, folder, wanted)), tool, folder, lockFiles }
  }
  for (const folder of folders) {
    if (!(await exists(join(folder, 'package.json')))) continue
    const wanted = await wantedTool(folder)
    const tool = wanted?.tool ?? 'npm'
    const { manager, command } = await managerOf(tool, folder, wanted)
    // In CI newer yarns treat a missing lock file as a changed one.
    const loose = command === YARN_BERRY ? 'yarn install --no-immutable' : WITHOUT_LOCK[tool]
    return { tool, manager, command: loose, folder, lockFiles: [] }
  }
  return undefined
}

/** The version of the tool that understands the lock file, and its command. */
async function managerOf(
  tool: PackageTool,
  folder: string,
  wanted: WantedTool | undefined,
): Promise<{ manager: string; command: string }> {
  const command = COMMANDS[tool]
  const major = wanted?.tool === tool ? wanted.major : undefined
  if (tool === 'npm') return { manager: 'npm@11', command }
  if (tool === 'bun') return { manager: 'bun@1.3', command }
  if (tool === 'pnpm') {
    const lock = await textOf(join(folder, 'pnpm-lock.yaml'))
    const format = Number(/^lockfileVersion: '?(\d+)/m.exec(lock)?.[1] ?? 9)
    const byLock = format < 9 ? 8 : 10
    return { manager: `pnpm@${Math.min(Math.max(major ?? byLock, 8), 12)}`, command }
  }
  // Since version 2 the lock file is YAML that begins with its own metadata; 3 and older write a lower number.
  const lock = await textOf(join(folder, 'yarn.lock'))
  const format = Number(/^__metadata:\s+version: (\d+)/m.exec(lock)?.[1] ?? 0)
  const isClassic = format === 0 && (lock !== '' || major === undefined || major < 2)
  if (isClassic) return { manager: 'yarn@1', command }
  const isThird = format === 0 ? Number(major) < 4 : format < 7
  return { manager: isThird ? 'yarn@3' : 'yarn@4', command: YARN_BERRY }
}

const FILE_BYTES_MAX = 67_108_864

async function textOf(path: string): Promise<string> {
  return (await readUntrusted(path, FILE_BYTES_MAX)) ?? ''
}

interface WantedTool {
  tool: PackageTool
  major: number | undefined
}

/** The tool of the field `packageManager`, like `pnpm@9.1.0`. */
async function wantedTool(folder: string): Promise<WantedTool | undefined> {
  const manifest = jsonOf(await textOf(join(folder, 'package.json')))
  const { packageManager } = (manifest ?? {}) as { packageManager?: unknown }
  const [name, version = ''] = String(packageManager).split('@')
  const tool = TOOLS.find((one) => one === name)
  const major = /^\d{1,5}(?=\.)/.exec(version)?.[0]
  return tool && { tool, major: major === undefined ? undefined : Number(major) }
}

const TOOLS: readonly PackageTool[] = ['npm', 'pnpm', 'yarn', 'bun']

/** The working folder, and those that it is in, up to the project's. */
export function foldersUpward(project: string, workingDir: string): string[] {
  const folders: string[] = []
  for (let at = normalize(workingDir); at !== '.' && at !== '/'; at = dirname(at)) {
    folders.push(join(project, at))
  }
  return [...folders, project]
}

/** Whether something is there. */
export function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
