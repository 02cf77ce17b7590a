// Cache of the packages of suites: under a hash of everything that decides on them, in a folder that no run can change.
// Suites share packages where nothing but a lock file of npm decides; others are for one suite alone, and its project as
// it is.
import { createHash } from 'node:crypto'
import { createReadStream, type Dirent } from 'node:fs'
import { cp, mkdir, opendir, readlink, rename, rm, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { LIMITS } from '../../contract/versions.ts'
import { ownTree } from '../../sandbox/trees.ts'
import { readUntrusted } from '../../sandbox/untrusted-files.ts'
import { type CachedTree, TreeCache } from '../../scripts/tree-cache.ts'
import { copyTree } from './copy-tree.ts'
import { exists, type ProjectPackages } from './package-manager.ts'

interface PackagesOptions {
  folder: string
  packages: ProjectPackages | undefined
  installCommand: string
  /** The command is the suite's own. */
  isOwnCommand: boolean
  /** From the project's folder. */
  workingDir: string
  engine: string
  owner: string
  variables: Readonly<Record<string, string>>
}

interface PackagesKey {
  key: string
  /** All files of the project, with a hash of each; absent where the packages are shared. */
  files?: ReadonlyMap<string, string>
}

/** Hash of all that decides on the packages. */
export async function packagesKey(options: PackagesOptions): Promise<PackagesKey> {
  const { folder, installCommand, workingDir, engine, owner, variables } = options
  const deciding = await sharedFiles(options)
  const files = deciding ?? (await projectFiles(folder))
  const about = ['5', installCommand, workingDir, engine, process.arch]
  const own =
    deciding === undefined
      ? [owner, Object.entries(variables).sort(([one], [other]) => (one < other ? -1 : 1))]
      : []
  const text = JSON.stringify([about, own, [...files]])
  const key = createHash('sha256').update(text).digest('hex')
  return deciding === undefined ? { key, files } : { key }
}

/** Settings of a shared installation: no script runs, neither of the project nor of a package. */
export const SHARED_ENVIRONMENT = { npm_config_ignore_scripts: 'true' }

/** Variables that npm listens to. */
const STEERING = /^(?:npm_|node_|(?:https?|no|all)_proxy$)/i
/** Lines of settings that name registries, and no file, program or variable. */
const REGISTRY_LINE = /^\s*(?:[#;].*|(?:@[\w.-]+:)?registry\s*=[^$]*|\/\/[^$]*)?$/
const LIFE_CYCLE = ['preinstall', 'install', 'postinstall', 'preprepare', 'prepare', 'postprepare']
const FILE_BYTES_MAX = 67_108_864

/** Hashes of what decides on packages, where npm alone installs them from registries; else undefined. */
async function sharedFiles(
  options: PackagesOptions,
): Promise<ReadonlyMap<string, string> | undefined> {
  const { folder, packages, isOwnCommand, variables } = options
  const [lockFile] = packages?.lockFiles ?? []
  if (isOwnCommand || lockFile === undefined || packages?.tool !== 'npm') return undefined
  if (packages.folder !== folder || packages.lockFiles.length > 1) return undefined
  if (Object.keys(variables).some((name) => STEERING.test(name))) return undefined
  const files = new Map<string, string>()
  for (const name of [lockFile, 'package.json', '.npmrc']) {
    const path = join(folder, name)
    // What is there and cannot be read may say anything.
    const text =
      (await readUntrusted(path, FILE_BYTES_MAX)) ?? ((await exists(path)) ? undefined : '')
    if (text === undefined || !isShareable(name, text)) return undefined
    files.set(name, createHash('sha256').update(text).digest('hex'))
  }
  return files
}

function isShareable(name: string, text: string): boolean {
  try {
    return (SHAREABLE[name] ?? isShareableLock)(text)
  } catch {
    // No JSON, or other JSON than that of npm.
    return false
  }
}

const SHAREABLE: Readonly<Record<string, (text: string) => boolean>> = {
  'package.json': (text) => {
    const { scripts = {} } = JSON.parse(text) as { scripts?: object }
    return !LIFE_CYCLE.some((one) => Object.hasOwn(scripts, one))
  },
  '.npmrc': (text) => text.split('\n').every((line) => REGISTRY_LINE.test(line)),
}

interface LockedPackage {
  resolved?: unknown
  integrity?: unknown
  hasInstallScript?: unknown
  os?: unknown
}

/** Every package comes from a registry, with its hash, and none runs a script. */
function isShareableLock(text: string): boolean {
  const { packages } = JSON.parse(text) as { packages: Record<string, LockedPackage> }
  return Object.entries(packages).every(([path, one]) => path === '' || isFromRegistry(one))
}

/** Systems for which a package is not installed here. */
const OTHERS: ReadonlySet<unknown> = new Set(['darwin', 'win32'])

function isFromRegistry({ resolved, integrity, hasInstallScript, os }: LockedPackage): boolean {
  if (typeof integrity !== 'string' || !/^https?:/.test(String(resolved))) return false
  const isForOthers = Array.isArray(os) && os.length > 0 && os.every((one) => OTHERS.has(one))
  return hasInstallScript !== true || isForOthers
}

/** All files of the project that are no packages, in the order of their paths, with a hash of each. */
export async function projectFiles(folder: string): Promise<Map<string, string>> {
  const paths: string[] = []
  for await (const { path, entry } of ownEntries(folder)) {
    if (entry.isFile() || entry.isSymbolicLink()) paths.push(path)
  }
  const files = new Map<string, string>()
  for (const path of paths.sort()) {
    const target = await readlink(join(folder, path)).catch(() => undefined)
    files.set(path, target === undefined ? await sha256Of(join(folder, path)) : `link ${target}`)
  }
  return files
}

/** The folders `node_modules` of a project that are in no other one, from its folder. */
export async function packageFolders(folder: string): Promise<string[]> {
  const found: string[] = []
  for await (const { path, entry } of ownEntries(folder)) {
    if (entry.isDirectory() && entry.name === 'node_modules') found.push(path)
  }
  return found.sort()
}

const NOT_OWN: ReadonlySet<string> = new Set(['node_modules', '.git'])

/** What is in a project, by its path in there; nothing that is in packages, or Git's. */
async function* ownEntries(folder: string): AsyncGenerator<{ path: string; entry: Dirent }> {
  const waiting = ['']
  for (let inside = waiting.pop(); inside !== undefined; inside = waiting.pop()) {
    for await (const entry of await opendir(join(folder, inside))) {
      const path = join(inside, entry.name)
      yield { path, entry }
      if (entry.isDirectory() && !NOT_OWN.has(entry.name)) waiting.push(path)
    }
  }
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

interface CachedPackages {
  /** The folders `node_modules`, from the project's. */
  folders: string[]
  /** They hold links to each other at most: packages of a workspace lead back into the project. */
  standsAlone: boolean
}

export type PackagesTree = CachedTree<CachedPackages>

export function packagesCache(cacheFolder: string): TreeCache<CachedPackages> {
  return new TreeCache(join(cacheFolder, 'packages'), LIMITS.packagesCacheBytesMax)
}

/** Moves the packages that a run has installed in these folders of its project into the cache. */
export async function storePackages(
  cache: TreeCache<CachedPackages>,
  key: string,
  project: string,
  folders: string[],
): Promise<PackagesTree | undefined> {
  return cache.store(key, async (content) => {
    let [bytes, standsAlone] = [0, true]
    for (const path of folders) {
      await mkdir(dirname(join(content, path)), { recursive: true })
      const owned = await ownTree(join(project, path))
      await move(join(project, path), join(content, path))
      bytes += owned.bytes
      standsAlone &&= !owned.leadsOut
    }
    return { bytes, about: { folders, standsAlone } }
  })
}

async function move(from: string, to: string): Promise<void> {
  try {
    await rename(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
    await cp(from, to, { recursive: true, verbatimSymlinks: true })
    await rm(from, { recursive: true, force: true })
  }
}

/** Puts packages into a project, by links or copies; returns the folders outside that the run must read. */
export async function placePackages(
  tree: PackagesTree,
  project: string,
  mayLink: boolean,
  signal: AbortSignal,
): Promise<string[]> {
  const isLinked = mayLink && tree.about.standsAlone
  for (const path of tree.about.folders) {
    const [from, to] = [join(tree.folder, path), join(project, path)]
    await rm(to, { recursive: true, force: true })
    if (isLinked) await linkEntries(from, to)
    else await copyPackages(from, to, signal)
  }
  return isLinked ? [tree.folder] : []
}

/** A real folder with a link to each package, since tools keep something of their own in there. */
export async function linkEntries(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true })
  for await (const { name } of await opendir(from)) {
    if (!OWN_TO_RUNS.has(name)) await symlink(join(from, name), join(to, name))
  }
}

const OWN_TO_RUNS: ReadonlySet<string> = new Set(['.cache', '.vite', '.vite-temp'])

/** Copies; second names of the files where runs have another user, who may not write to them. */
export async function copyPackages(from: string, to: string, signal: AbortSignal): Promise<void> {
  const bounds = { bytesMax: LIMITS.suiteDiskBytesMax, filesMax: LIMITS.suiteFilesMax }
  await copyTree({ from, to, ...bounds, linked: process.getuid?.() === 0, signal })
}
