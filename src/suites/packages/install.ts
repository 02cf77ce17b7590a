// Gets the packages of a suite's project into the folder of a run: from the cache, from where the project stands,
// or by the package manager of its lock file, in the sandbox like the tests themselves.
import { lstat, opendir, readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { Sandbox, SandboxEnd } from '../../sandbox/sandbox.ts'
import type { SandboxLimits } from '../../sandbox/request.ts'
import { sandboxFailure } from '../../sandbox/failure.ts'
import type { Dialler } from '../../network/dial.ts'
import { extraAuthorities } from '../../network/tls/extra-authorities.ts'
import { installComplaint, staleLock } from './install-complaint.ts'
import { isOutOfReach, isReachable } from '../../sandbox/reachable.ts'
import type { ScriptHost } from '../../scripts/host.ts'
import * as dependencies from './dependencies.ts'
import type { CachedPackages } from './dependencies.ts'
import { packagesKey, projectFiles, SHARED_ENVIRONMENT } from './packages-key.ts'
import {
  folderOf,
  foldersUpward,
  LOCK_FILES,
  packagesOf,
  type ProjectPackages,
  SYSTEM_PROGRAMS,
} from './packages.ts'
import type { PlacedProject } from '../source.ts'
import { SUITE_SETTINGS } from '../verdict.ts'
import type { InstalledTool } from '../../scripts/toolchains.ts'
import type { CachedTree } from '../../scripts/tree-cache.ts'
import { blockedNotes, openEgress } from '../../sandbox/egress/egress.ts'

/** What is to be installed, and with what. */
export interface InstallOrder {
  host: ScriptHost
  sandbox: Sandbox
  dial: Dialler
  /** The run's folder. */
  folder: string
  project: PlacedProject
  /** From the project's folder, `.` for itself. */
  workingDir: string
  /** Undefined: by the lock file. Empty: nothing. */
  installCommand: string | undefined
  engine: InstalledTool
  /** Folders with programs of that engine. */
  programs: readonly string[]
  /** Whose packages these are, where suites do not share them. */
  owner: string
  /** Variables of the suite, and those that all runs have. */
  variables: Readonly<Record<string, string>>
  environment: Readonly<Record<string, string>>
  limits: SandboxLimits
  onOutput(chunk: Buffer): void
  signal: AbortSignal
}

/** Packages are in place. */
export interface InstalledPackages {
  how: 'kept' | 'installed' | 'brought' | 'none'
  /** Folders outside of the run's that it must be able to read. */
  readable: string[]
  /** What they are cached by. */
  key?: string
  /** Why they are not cached. */
  note?: string
}

/** Puts them there. Rejects with the signal's reason, or when the disk does not take them. */
export async function installPackages(order: InstallOrder): Promise<InstalledPackages | Failure> {
  const { project, workingDir, installCommand, engine, owner, host, signal } = order
  const folders = foldersUpward(project.folder, workingDir)
  const packages = installCommand === '' ? undefined : await packagesOf(folders)
  const command = installCommand ?? packages?.command ?? ''
  const isBrought = project.from !== undefined && (await hasPackages(project.from, workingDir))
  const isLoose = installCommand === undefined && packages?.lockFiles.length === 0 && isBrought
  if (command === '' || isLoose) return bring(order, isBrought)
  const cache = dependencies.packagesCache(host.cacheFolder)
  const { key, files } = await packagesKey({
    folder: project.folder,
    packages,
    installCommand: command,
    isOwnCommand: installCommand !== undefined,
    workingDir,
    engine: engine.name,
    owner,
    variables: order.variables,
  })
  const place = async (tree: CachedTree<CachedPackages>) => {
    const isLinked = (await mayStayOutside(engine)) && (await isReachable(tree.folder))
    return dependencies.placePackages({ tree, project: project.folder, isLinked, signal })
  }
  const cached = await cache.find(key)
  if (cached !== undefined) return { how: 'kept', readable: await place(cached), key }
  const isShared = files === undefined
  // The project's own could be a link, or hold what others are to get.
  if (isShared) await rm(join(project.folder, 'node_modules'), { recursive: true, force: true })
  const environment = isShared ? SHARED_ENVIRONMENT : order.environment
  const failed = await runInstall({ ...order, environment }, command, packages)
  if (failed !== undefined) return failed
  // A link in its place would lead the agent to where the installation may not go itself.
  if (!(await lstat(project.folder)).isDirectory()) {
    return failure('INSTALL_FAILED', `${command} has replaced the folder of the project`)
  }
  const made = files && (await madeFile(files, project.folder))
  if (made !== undefined) {
    const note = `packages are not cached: the installation has also made ${made}`
    return { how: 'installed', readable: [], note }
  }
  const found = await dependencies.packageFolders(project.folder)
  const stored = isShared ? found.filter((one) => one === 'node_modules') : found
  const tree = await dependencies.storePackages(cache, key, project.folder, stored)
  if (tree === undefined) {
    return failure('INSTALL_FAILED', 'the packages are larger than the cache may be')
  }
  return { how: 'installed', readable: await place(tree), key }
}

/** Files that Yarn writes next to packages, and writes again. */
const OF_YARN: ReadonlySet<string> = new Set(['install-state.gz', 'build-state.yml'])

/** A file that the installation made or changed: a cache of packages alone would lack it. */
async function madeFile(
  before: ReadonlyMap<string, string>,
  folder: string,
): Promise<string | undefined> {
  for (const [path, hash] of await projectFiles(folder)) {
    const name = basename(path)
    if (before.get(path) !== hash && !LOCK_FILES.has(name) && !OF_YARN.has(name)) return path
  }
  return undefined
}

/**
 * Whether packages may stay outside of the run's folder: where the kernel keeps the run from writing there, and
 * on Node.js. Bun looks into the folders above as well, and gives up on one that it may not read.
 */
async function mayStayOutside(engine: InstalledTool): Promise<boolean> {
  return !engine.name.startsWith('bun@') && (await isOutOfReach())
}

async function hasPackages(from: string, workingDir: string): Promise<boolean> {
  for (const folder of foldersUpward(from, workingDir)) {
    if (await isFolder(join(folder, 'node_modules'))) return true
  }
  return false
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true
}

/** Copies the packages that stand in the project's own folder, or links to them where everybody may read. */
async function bring(order: InstallOrder, isBrought: boolean): Promise<InstalledPackages> {
  const { project, workingDir, signal } = order
  if (!isBrought || project.from === undefined) return { how: 'none', readable: [] }
  const readable: string[] = []
  for (const folder of foldersUpward(project.from, workingDir)) {
    const from = join(folder, 'node_modules')
    if (!(await isFolder(from))) continue
    const to = join(project.folder, relative(project.from, from))
    if ((await mayStayOutside(order.engine)) && (await isOpen(from))) {
      await dependencies.linkEntries(from, to)
      readable.push(from)
    } else {
      await dependencies.copyPackages(from, to, signal)
    }
  }
  return { how: 'brought', readable }
}

/** Whether every user may read it; and nothing in it leads out, as packages of a workspace do. */
async function isOpen(folder: string): Promise<boolean> {
  for (let at = folder; ; at = dirname(at)) {
    const { mode } = await lstat(at)
    // A link to the folder is followed to where it may not be open.
    if ((mode & 0o170000) === 0o120000 || (mode & 0o001) === 0) return false
    if (at === dirname(at)) break
  }
  for await (const entry of await opendir(folder)) {
    if (entry.isSymbolicLink()) return false
    if (!entry.name.startsWith('@')) continue
    const inner = await readdir(join(folder, entry.name), { withFileTypes: true })
    if (inner.some((one) => one.isSymbolicLink())) return false
  }
  return true
}

async function runInstall(
  order: InstallOrder,
  command: string,
  packages: ProjectPackages | undefined,
): Promise<Failure | undefined> {
  const { sandbox, folder, project, workingDir, installCommand, environment, signal } = order
  const own = installCommand !== undefined || packages === undefined
  const cwd = own ? join(project.folder, workingDir) : packages.folder
  const found = await programsFor(order, installCommand === undefined ? packages : undefined)
  if ('code' in found) return found
  const egress = await openEgress(sandbox, order.dial, ({ environment: proxied }) => ({
    ...proxied,
    YARN_HTTP_PROXY: proxied['HTTPS_PROXY'] ?? '',
    YARN_HTTPS_PROXY: proxied['HTTPS_PROXY'] ?? '',
  }))
  try {
    const { ended } = sandbox.run(
      {
        command: '/bin/sh',
        args: ['-c', command],
        folder,
        cwd,
        ...found,
        environment: {
          ...(await extraAuthorities(join(folder, '.vedette'))),
          ...(await managersEnvironment(packages)),
          ...environment,
        },
        limits: { ...order.limits, wallMs: LIMITS.suiteInstallMsMax },
        ask: { signal: 'SIGTERM', to: 'group', graceMs: 1_500 },
        ...egress.order,
        onOutput: (chunk) => order.onOutput(chunk),
      },
      signal,
    )
    const end = await ended
    signal.throwIfAborted()
    const cut = sandboxFailure(end, `the installation (${command})`, SUITE_SETTINGS)
    // It says nothing about what the suite watches.
    if (cut?.code === 'TIMEOUT_RUN') return { ...cut, code: 'INSTALL_FAILED' }
    if (cut !== undefined || end.exitCode === 0) return cut
    const refused = [
      ...egress.refusals.map((one) => `${one.host}: ${one.failure.message}`),
      ...blockedNotes(end.blocked),
    ].slice(0, 5)
    return failedWith(order, command, packages, end, refused)
  } finally {
    await egress.close()
  }
}

function failedWith(
  { project }: InstallOrder,
  command: string,
  packages: ProjectPackages | undefined,
  { tail, exitCode }: SandboxEnd,
  refused: readonly string[],
): Failure {
  const written = `${tail.stdout}\n${tail.stderr}`
  const { cause, output } = installComplaint(written)
  const ended = `${command} ended with exit code ${exitCode}: ${cause}`
  const stale = staleLock(written, project.folder, packages)
  if (stale === undefined) return failure('INSTALL_FAILED', ended, { output, refused })
  const { lockFile, fix } = stale
  const message = `${lockFile} does not fit package.json; run ${fix} in the project, and include the new ${lockFile}: ${ended}`
  return failure('INSTALL_FAILED', message, { output, refused, lockFile, fix })
}

/** Settings for package managers: no questions, no other version of themselves. */
async function managersEnvironment(packages: ProjectPackages | undefined) {
  const folder = packages?.folder
  const bringsCache = folder !== undefined && (await isFolder(join(folder, '.yarn/cache')))
  return {
    CI: '1',
    PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1',
    COREPACK_ENABLE_DOWNLOAD_PROMPT: '0',
    npm_config_update_notifier: 'false',
    npm_config_manage_package_manager_versions: 'false',
    pnpm_config_pm_on_fail: 'ignore',
    SKIP_YARN_COREPACK_CHECK: '1',
    YARN_ENABLE_TELEMETRY: '0',
    // Not every test command works with Plug'n'Play, and folders can be cached.
    YARN_NODE_LINKER: 'node-modules',
    ...(bringsCache ? {} : { YARN_ENABLE_GLOBAL_CACHE: 'true' }),
  }
}

/** What an installation runs. */
interface InstallPrograms {
  programs: readonly string[]
  /** Where all of it is. */
  readable: string[]
}

/**
 * Folders with the package manager and an engine that it runs on: the version that fits the lock file out of
 * the toolchains, else the machine's own; a failure where there is neither.
 */
async function programsFor(
  { host, engine, programs }: InstallOrder,
  packages: ProjectPackages | undefined,
): Promise<InstallPrograms | Failure> {
  const own = { programs, readable: [engine.folder] }
  if (packages === undefined) return own
  const { tool, manager } = packages
  const isBun = engine.name.startsWith('bun@')
  if (tool === 'bun' && isBun) return own
  // All but bun are programs for Node.js, which a project for Bun need not have.
  const node = isBun && tool !== 'bun' ? [dirname(process.execPath)] : programs
  const installed = await host.tools.find(tool === 'bun' ? 'engine' : 'package-manager', manager)
  if (installed !== undefined) {
    return {
      programs: [...node, dirname(installed.program)],
      readable: [engine.folder, installed.folder],
    }
  }
  const otherFolder = await folderOf(tool, [
    ...(isBun ? [] : programs),
    ...SYSTEM_PROGRAMS,
    dirname(process.execPath),
  ])
  if (otherFolder !== undefined) return { ...own, programs: [...node, otherFolder] }
  const message = `the project needs ${tool}, which is not there; run: vedette engine install ${manager}`
  return failure('PACKAGE_TOOL_MISSING', message, { tool, manager })
}
