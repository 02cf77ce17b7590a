// The packages of suites, kept between runs: under a hash of everything that decides on them, in a folder that
// no run can change, and put into the folder of a run by links.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { cp, mkdir, opendir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { LIMITS } from '../contract/versions.ts'
import { copyTree } from './copy-tree.ts'
import { ownTree } from './own-tree.ts'
import type { ProjectPackages } from './suite-packages.ts'
import { type CachedTree, TreeCache } from './tree-cache.ts'

/** What is known about packages that are kept. */
export interface KeptPackages {
  /** The folders `node_modules`, from the project's. */
  folders: string[]
  /** They hold links to each other at most: packages of a workspace lead back into the project. */
  standsAlone: boolean
}

/** What decides on the packages of a project. */
export interface PackagesWish {
  /** The project. */
  folder: string
  packages: ProjectPackages | undefined
  installCommand: string
  /** From the project's folder. */
  workingDir: string
  engine: string
  /** Whose project it is, where its own files have a say in what is installed. */
  owner: string
  isOwnCommand: boolean
  /** Variables that the installation is given. */
  environment: Readonly<Record<string, string>>
}

/** Settings of package managers that change what is installed, beside lock file and package.json. */
const SETTINGS_FILES = [
  'package.json',
  '.npmrc',
  '.yarnrc',
  '.yarnrc.yml',
  'pnpm-workspace.yaml',
  '.pnpmfile.cjs',
  'bunfig.toml',
]

/** The cache of packages below the folder for caches. */
export function packagesCache(cacheFolder: string): TreeCache<KeptPackages> {
  return new TreeCache(join(cacheFolder, 'packages'), {
    bytesMax: LIMITS.packagesCacheBytesMax,
    ageMsMax: LIMITS.packagesCacheAgeMsMax,
    inUseMs: LIMITS.suiteMsMax + 600_000,
  })
}

/**
 * The key of a project's packages: hash of lock files, package.json, settings and patches of the folders concerned,
 * command, working folder, engine, architecture, and of variables that steer package managers. Where the project's
 * own files take part in the installation, it is the key of this owner alone and of all these files, since they may
 * do anything.
 */
export async function packagesKey(wish: PackagesWish): Promise<string> {
  const { folder, packages, installCommand, workingDir, engine, owner, isOwnCommand } = wish
  const hash = createHash('sha256')
  const add = (...parts: string[]) => hash.update(`${JSON.stringify(parts)}\n`)
  add('3', installCommand, workingDir, engine, process.arch)
  const places = new Set([join(folder, workingDir), packages?.folder ?? folder])
  const mentioned = new Set<string>()
  let takesOwnFiles = isOwnCommand
  for (const place of places) {
    for (const name of [...SETTINGS_FILES, ...(packages?.lockFiles ?? [])]) {
      const bytes = await readFile(join(place, name)).catch(() => undefined)
      if (bytes === undefined) continue
      add(relative(folder, place), name, sha256Of(bytes))
      const text = bytes.toString()
      takesOwnFiles ||= takesOwn(name, text)
      for (const [, variable = ''] of text.matchAll(/\$\{(\w+)/g)) mentioned.add(variable)
    }
  }
  for (const name of Object.keys(wish.environment).sort()) {
    if (!STEERING.test(name) && !mentioned.has(name)) continue
    add('variable', name, wish.environment[name] ?? '')
  }
  if (takesOwnFiles) {
    add('owner', owner)
    for await (const [path, sha256] of ownFiles(folder)) add('file', path, sha256)
  }
  return hash.digest('hex')
}

/** Names of variables that package managers, and Node.js below them, listen to. */
const STEERING = /^(?:npm|yarn|pnpm|bun|corepack|node)_/i

const LIFE_CYCLE = ['preinstall', 'install', 'postinstall', 'preprepare', 'prepare', 'postprepare']
/** Settings that name programs, or files of the project. */
const NAMES_OWN =
  /^\s*"?(?:yarnPath|yarn-path|plugins|script-shell|scriptShell|shell|node-options|nodeOptions|git|globalPnpmfile|pnpmfile)"?\s*[:= ]/im

/** Whether installing runs, or takes in, files of the project itself. */
function takesOwn(name: string, text: string): boolean {
  if (name === '.pnpmfile.cjs' || name === 'pnpm-workspace.yaml') return true
  if (name !== 'package.json') return SETTINGS_FILES.includes(name) && NAMES_OWN.test(text)
  try {
    const { scripts = {}, workspaces } = JSON.parse(text) as Manifest
    if (workspaces !== undefined || LIFE_CYCLE.some((one) => Object.hasOwn(scripts, one)))
      return true
    return /"(?:file|link|portal|patch|workspace):|"patchedDependencies"/.test(text)
  } catch {
    return true
  }
}

/** All files of the project that are no packages, in the order of their paths, with their SHA-256. */
async function* ownFiles(folder: string): AsyncGenerator<[path: string, sha256: string]> {
  const paths: string[] = []
  const waiting = ['']
  for (let inside = waiting.pop(); inside !== undefined; inside = waiting.pop()) {
    for await (const entry of await opendir(join(folder, inside))) {
      const path = join(inside, entry.name)
      if (entry.isDirectory() && !NOT_OWN.has(entry.name)) waiting.push(path)
      else if (entry.isFile()) paths.push(path)
    }
  }
  for (const path of paths.sort()) {
    const hash = createHash('sha256')
    await pipeline(createReadStream(join(folder, path)), hash)
    yield [path, hash.digest('hex')]
  }
}

const NOT_OWN: ReadonlySet<string> = new Set(['node_modules', '.git'])

const sha256Of = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

interface Manifest {
  scripts?: Record<string, string>
  workspaces?: unknown
}

/** The folders `node_modules` of a project that are in no other one, from its folder. */
export async function packageFolders(folder: string): Promise<string[]> {
  const found: string[] = []
  const waiting = ['']
  for (let inside = waiting.pop(); inside !== undefined; inside = waiting.pop()) {
    for await (const entry of await opendir(join(folder, inside))) {
      const path = join(inside, entry.name)
      if (!entry.isDirectory() || entry.name === '.git') continue
      if (entry.name === 'node_modules') found.push(path)
      else waiting.push(path)
    }
  }
  return found.sort()
}

/** Moves the packages that a run has installed out of its project into the cache. */
export async function keepPackages(
  cache: TreeCache<KeptPackages>,
  key: string,
  project: string,
): Promise<CachedTree<KeptPackages> | undefined> {
  const folders = await packageFolders(project)
  return cache.keep(key, async (content) => {
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

/** How packages get into the folder of a run. */
export interface PlaceOrder {
  tree: CachedTree<KeptPackages>
  project: string
  /** By links, where these stand alone; what runs must not be able to write there. */
  isLinked: boolean
  signal: AbortSignal
}

/** Puts packages into a project; the folders outside of it that the run must be able to read. */
export async function placePackages(order: PlaceOrder): Promise<string[]> {
  const { tree, project, signal } = order
  const isLinked = order.isLinked && tree.about.standsAlone
  for (const path of tree.about.folders) {
    const [from, to] = [join(tree.folder, path), join(project, path)]
    await rm(to, { recursive: true, force: true })
    if (isLinked) await linkEntries(from, to)
    else await copyPackages(from, to, signal)
  }
  return isLinked ? [tree.folder] : []
}

/**
 * A real folder with a link to each package: tools that keep something of their own in `node_modules`, such
 * as `.vite` or `.cache`, can do so, and it is gone with the run.
 */
export async function linkEntries(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true })
  for await (const { name } of await opendir(from)) {
    if (!OWN_TO_RUNS.has(name)) await symlink(join(from, name), join(to, name))
  }
}

const OWN_TO_RUNS: ReadonlySet<string> = new Set(['.cache', '.vite', '.vite-temp'])

/**
 * Copies, or second names of the files where runs have a user of their own, who may not write to them; a run
 * of the agent's own user might.
 */
export async function copyPackages(from: string, to: string, signal: AbortSignal): Promise<void> {
  const bounds = { bytesMax: LIMITS.suiteDiskBytesMax, filesMax: LIMITS.suiteFilesMax }
  await copyTree({ from, to, ...bounds, linked: process.getuid?.() === 0, signal })
}
