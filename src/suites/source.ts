// Source of a suite's project: a folder or a .tar.gz that a monitors file names, or a bundle of the platform. Each run
// gets its own files.
import { mkdir, stat } from 'node:fs/promises'
import { dirname, isAbsolute, join } from 'node:path'
import { LIMITS } from '../contract/versions.ts'
import { BundleError, unpackBundle } from './bundle-unpack.ts'
import { copyTree, CopyTooLargeError } from './packages/copy-tree.ts'
import { leadsOut } from '../sandbox/trees.ts'
import { targetFailure, type TargetFailure } from '../network/target-failure.ts'
import { BundleUnavailableError, type ScriptHost } from '../scripts/host.ts'

export interface PlacedProject {
  /** In the folder of the run. */
  folder: string
  /** Where the project stands on this machine, when it is a folder; its packages may be there, too. */
  from?: string
}

const BUNDLE = 'bundle:'

const LEFT_OUT: ReadonlySet<string> = new Set([
  'node_modules',
  '.git',
  '.hg',
  '.svn',
  'test-results',
  'playwright-report',
  'blob-report',
  '.DS_Store',
])

/** `.env`, `.env.local`, `.env.production.local`: settings of one machine, with its secrets. */
const LOCAL_SETTINGS = /^\.env(?:(?:\..+)?\.local)?$/

/** What a run makes again or must not have: packages, history, results, secrets. Bundles are packed without it, too. */
export function isLeftOut(name: string): boolean {
  return LEFT_OUT.has(name) || LOCAL_SETTINGS.test(name)
}

/** Puts the project into the run's folder. Rejects with a TargetFailure where it is unavailable. */
export async function placeProject(
  codeBundlePath: string,
  runFolder: string,
  host: ScriptHost,
  signal: AbortSignal,
): Promise<PlacedProject> {
  const folder = join(runFolder, 'project')
  await mkdir(folder)
  try {
    if (codeBundlePath.startsWith(BUNDLE)) {
      const sha256 = codeBundlePath.slice(BUNDLE.length)
      if (host.bundle === undefined) throw invalid('bundles need a platform; this agent has none')
      await unpackBundle(await host.bundle(sha256, signal), folder, UNPACKED, signal)
      return { folder }
    }
    // The agent's data and the folders of other runs are no part of a project that they are in.
    const { cacheFolder, tools } = host
    const apart = [dirname(runFolder), cacheFolder, dirname(cacheFolder), tools.folder]
    return await placeOwn({ path: codeBundlePath, folder, apart }, host, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof BundleUnavailableError) throw invalid(error.message)
    const known = error instanceof BundleError || error instanceof CopyTooLargeError
    const { code, message } = error as NodeJS.ErrnoException
    // The disk of the agent, and not the project, may be full.
    if (!known && (code === undefined || code === 'ENOSPC')) throw error
    throw invalid(`${codeBundlePath}: ${message}`)
  }
}

const UNPACKED = {
  unpackedBytesMax: LIMITS.suiteProjectBytesMax,
  filesMax: LIMITS.suiteProjectFilesMax,
}

async function placeOwn(
  { path, folder, apart }: { path: string; folder: string; apart: readonly string[] },
  { ownProjects }: ScriptHost,
  signal: AbortSignal,
): Promise<PlacedProject> {
  // What a platform says must not make an agent hand out files of its machine.
  if (ownProjects !== true) {
    throw invalid('it names a path on this machine, which only a monitors file can do')
  }
  if (!isAbsolute(path)) throw invalid(`${path}: must be an absolute path`)
  if (!(await stat(path)).isDirectory()) {
    await unpackBundle(path, folder, UNPACKED, signal)
    return { folder }
  }
  const { suiteProjectBytesMax: bytesMax, suiteProjectFilesMax: filesMax } = LIMITS
  const order = { from: path, to: folder, without: isLeftOut, apart, bytesMax, filesMax, signal }
  for (const link of await copyTree(order)) {
    // In the copy, which nobody else changes.
    if (await leadsOut(folder, link))
      throw invalid(`${path}: the link ${link} points outside of it`)
  }
  return { folder, from: path }
}

function invalid(message: string): TargetFailure {
  return targetFailure('BUNDLE_INVALID', `the project cannot be used: ${message}`)
}
