// Cache of the packages of suites: under a hash of everything that determines them, in a folder that no run can change,
// linked into the folder of a run.
import { cp, mkdir, opendir, rename, rm, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { LIMITS } from '../../contract/versions.ts'
import { copyTree } from './copy-tree.ts'
import { ownTree } from '../../sandbox/own-tree.ts'
import { type CachedTree, TreeCache } from '../../scripts/tree-cache.ts'

/** Facts about cached packages. */
export interface CachedPackages {
  /** The folders `node_modules`, from the project's. */
  folders: string[]
  /** They hold links to each other at most: packages of a workspace lead back into the project. */
  standsAlone: boolean
}

/** The cache of packages below the folder for caches. */
export function packagesCache(cacheFolder: string): TreeCache<CachedPackages> {
  return new TreeCache(join(cacheFolder, 'packages'), {
    bytesMax: LIMITS.packagesCacheBytesMax,
    ageMsMax: LIMITS.packagesCacheAgeMsMax,
    inUseMs: LIMITS.suiteMsMax + 600_000,
  })
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

/** Moves the packages that a run has installed in these folders of its project into the cache. */
export async function storePackages(
  cache: TreeCache<CachedPackages>,
  key: string,
  project: string,
  folders: string[],
): Promise<CachedTree<CachedPackages> | undefined> {
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

/** How packages get into the folder of a run. */
export interface PlaceOrder {
  tree: CachedTree<CachedPackages>
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
