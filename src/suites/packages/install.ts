// Gets the packages of a suite's project into the folder of a run: from the cache, from where the project stands,
// or by the package manager of its lock file, in the sandbox like the tests themselves.
import { lstat, opendir, readdir, realpath, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { LIMITS } from '../../contract/versions.ts'
import type { OutputStream, SandboxLimits } from '../../sandbox/request.ts'
import { sandboxFailure } from '../../sandbox/failure.ts'
import { extraAuthorities } from '../../network/tls/extra-authorities.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'
import { installFailure } from './install-complaint.ts'
import { isOpenToAll, isOutOfReach, isReachable } from '../../sandbox/trees.ts'
import { findProgram, SYSTEM_PROGRAMS } from '../../scripts/chromium.ts'
import type { ScriptContext } from '../../scripts/context.ts'
import type { ScriptHost } from '../../scripts/host.ts'
import {
  copyPackages,
  linkEntries,
  packageFolders,
  packagesCache,
  packagesKey,
  type PackagesTree,
  placePackages,
  projectFiles,
  SHARED_ENVIRONMENT,
  storePackages,
} from './cache.ts'
import { foldersUpward, LOCK_FILES, packagesOf, type ProjectPackages } from './package-manager.ts'
import type { PlacedProject } from '../source.ts'
import { SUITE_HEAP } from '../verdict.ts'
import { type InstalledTool, isBun } from '../../scripts/toolchains.ts'
import { blockedNotes, openEgress } from '../../sandbox/egress/egress.ts'

export interface InstallOrder {
  host: ScriptHost
  context: ScriptContext
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
  /** Variables that all runs have. */
  environment: Readonly<Record<string, string>>
  limits: SandboxLimits
  onOutput(chunk: Buffer, stream: OutputStream): void
}

export interface InstalledPackages {
  how: 'kept' | 'installed' | 'brought' | 'none'
  /** Folders outside of the run's that it must be able to read. */
  readable: string[]
  /** What they are cached by. */
  key?: string
  /** Why they are not cached. */
  note?: string
}

/** Puts them there. Rejects with a TargetFailure, the signal's reason, or when the disk does not take them. */
export async function installPackages(order: InstallOrder): Promise<InstalledPackages> {
  const { project, workingDir, installCommand, engine, owner, context } = order
  const folders = foldersUpward(project.folder, workingDir)
  const packages = installCommand === '' ? undefined : await packagesOf(folders)
  const command = installCommand ?? packages?.command ?? ''
  const brought = await broughtPackages(project, workingDir)
  const hasNoLock = installCommand === undefined && packages?.lockFiles.length === 0
  if (command === '' || (hasNoLock && brought.length > 0)) return bring(order, brought)
  const cache = packagesCache(order.host.cacheFolder)
  const { key, files } = await packagesKey({
    folder: project.folder,
    packages,
    installCommand: command,
    isOwnCommand: installCommand !== undefined,
    workingDir,
    engine: engine.name,
    owner,
    variables: context.variables ?? {},
  })
  const place = async (tree: PackagesTree) => {
    const isLinked = (await mayStayOutside(engine)) && (await isReachable(tree.folder))
    return placePackages(tree, project.folder, isLinked, context.signal)
  }
  const cached = await cache.find(key)
  if (cached !== undefined) return { how: 'kept', readable: await place(cached), key }
  const isShared = files === undefined
  // The project's own could be a link, or hold what others are to get.
  if (isShared) await rm(join(project.folder, 'node_modules'), { recursive: true, force: true })
  const environment = isShared ? SHARED_ENVIRONMENT : order.environment
  await runInstall({ ...order, environment }, command, packages)
  // A link in its place would lead the agent to where the installation may not go itself.
  if (!(await lstat(project.folder)).isDirectory()) {
    throw targetFailure('INSTALL_FAILED', `${command} has replaced the folder of the project`)
  }
  const made = files && (await madeFile(files, project.folder))
  if (made !== undefined) {
    const note = `packages are not cached: the installation also created ${made}`
    return { how: 'installed', readable: [], note }
  }
  const found = await packageFolders(project.folder)
  const stored = isShared ? found.filter((one) => one === 'node_modules') : found
  const tree = await storePackages(cache, key, project.folder, stored)
  if (tree === undefined) {
    throw targetFailure('INSTALL_FAILED', 'the packages are larger than the cache')
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
  return !isBun(engine) && (await isOutOfReach())
}

/** The folders `node_modules` where the project stands on this machine. */
async function broughtPackages({ from }: PlacedProject, workingDir: string): Promise<string[]> {
  if (from === undefined) return []
  const all = foldersUpward(from, workingDir).map((folder) => join(folder, 'node_modules'))
  const found = await Promise.all(all.map(isFolder))
  return all.filter((_, at) => found[at])
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true
}

/** Copies the packages that the project brings, or links to them where everybody may read. */
async function bring(
  { project, engine, context }: InstallOrder,
  brought: readonly string[],
): Promise<InstalledPackages> {
  const readable: string[] = []
  for (const from of brought) {
    const to = join(project.folder, relative(project.from ?? '', from))
    if ((await mayStayOutside(engine)) && (await isOpen(from))) {
      await linkEntries(from, to)
      readable.push(from)
    } else {
      await copyPackages(from, to, context.signal)
    }
  }
  return { how: brought.length > 0 ? 'brought' : 'none', readable }
}

/** Whether every user may read it; and nothing in it leads out, as packages of a workspace do. */
async function isOpen(folder: string): Promise<boolean> {
  // A link on the way is not followed to where it may not be open.
  if ((await realpath(folder)) !== folder) return false
  if (!(await isOpenToAll(folder))) return false
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
): Promise<void> {
  const { context, folder, project, workingDir, installCommand, environment } = order
  const own = installCommand !== undefined || packages === undefined
  const cwd = own ? join(project.folder, workingDir) : packages.folder
  const found = await programsFor(order, installCommand === undefined ? packages : undefined)
  const sandbox = await order.host.sandbox()
  const egress = await openEgress(sandbox, context.dial, ({ environment: proxied }) => ({
    ...proxied,
    YARN_HTTP_PROXY: proxied['HTTPS_PROXY'] ?? '',
    YARN_HTTPS_PROXY: proxied['HTTPS_PROXY'] ?? '',
  }))
  try {
    const end = await sandbox.run(
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
        onOutput: (chunk, stream) => order.onOutput(chunk, stream),
      },
      context.signal,
    )
    context.signal.throwIfAborted()
    const cut = sandboxFailure(end, `the installation (${command})`, SUITE_HEAP)
    // It says nothing about what the suite watches.
    if (cut?.code === 'TIMEOUT_RUN') throw new TargetFailure({ ...cut, code: 'INSTALL_FAILED' })
    if (cut !== undefined) throw new TargetFailure(cut)
    if (end.exitCode === 0) return
    const refused = [
      ...egress.refusals.map((one) => `${one.host}: ${one.failure.message}`),
      ...blockedNotes(end.blocked),
    ].slice(0, 5)
    const failed = { command, end, project: project.folder, packages, refused }
    throw new TargetFailure(installFailure(failed))
  } finally {
    await egress.close()
  }
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

interface InstallPrograms {
  programs: readonly string[]
  /** Where all of it is. */
  readable: string[]
}

/** Folders with the package manager that fits the lock file, else the machine's own, and an engine for it. */
async function programsFor(
  { host, engine, programs }: InstallOrder,
  packages: ProjectPackages | undefined,
): Promise<InstallPrograms> {
  const own = { programs, readable: [engine.folder] }
  if (packages === undefined) return own
  const { tool, manager } = packages
  const onBun = isBun(engine)
  if (tool === 'bun' && onBun) return own
  // All but bun are programs for Node.js, which a project for Bun need not have.
  const node = onBun && tool !== 'bun' ? [dirname(process.execPath)] : programs
  const installed = await host.tools.find(tool === 'bun' ? 'engine' : 'package-manager', manager)
  if (installed !== undefined) {
    return {
      programs: [...node, dirname(installed.program)],
      readable: [engine.folder, installed.folder],
    }
  }
  const folders = [...(onBun ? [] : programs), ...SYSTEM_PROGRAMS, dirname(process.execPath)]
  const other = await findProgram(tool, folders)
  if (other !== undefined) return { ...own, programs: [...node, dirname(other)] }
  const message = `the project needs ${tool}, which is not installed; run: vedette engine install ${manager}`
  throw targetFailure('PACKAGE_TOOL_MISSING', message, { tool, manager })
}
