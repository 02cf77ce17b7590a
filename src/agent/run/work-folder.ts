// Work folder of one attempt: made when a monitor first asks for it, removed when the attempt is over.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { basename, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Artifact } from '../../contract/result.ts'
import { LIMITS } from '../../contract/versions.ts'
import { makeFolder } from '../../process/make-folder.ts'
import type { LockedFolder } from '../../sandbox/locked-folder.ts'
import { removeTree } from '../../sandbox/remove-tree.ts'
import type { FileStaging } from '../sink.ts'

/** A folder that need not exist yet. */
export interface WorkFolder {
  /** The path; the first call makes the folder, for the agent's user alone. */
  path(): Promise<string>
  isMade(): boolean
  /** Remembers a file of the folder as an artifact. */
  attach(path: string): void
  /** The attached files that exist in the folder; when `cut` is aborted, only those that are quick to process. */
  artifacts(cut?: AbortSignal): Promise<AttachedFiles>
  /** Removes the folder and its content. */
  remove(): Promise<void>
}

/** What a run attached. */
export interface AttachedFiles {
  artifacts: Artifact[]
  /** Files that are left out, with the reason: a sentence each. */
  leftOut: string[]
}

/** Names of folders of runs begin so. */
export const RUN_PREFIX = 'vedette-run-'
/** Files of one attempt; more are ignored. */
const ARTIFACTS_MAX = 100

/**
 * Scrubs secrets out of files in place; returns those that must be left out, with the reason. Ends soon when `cut`
 * is aborted. Never rejects.
 */
export type ScrubFiles = (
  paths: readonly string[],
  cut?: AbortSignal,
) => Promise<ReadonlyMap<string, string>>

/** Size up to which files of a cancelled run are still stored; small ones come first. */
export const CUT_FILES_BYTES_MAX = 8 * 1024 * 1024
/** Reason for leaving out larger ones. */
export const CUT_REASON = 'the run was cancelled before it was ready'

/** Handling of attached files. */
export interface FileCare {
  /** Stores them; without it only their names are recorded. */
  files?: FileStaging | undefined
  scrub: ScrubFiles
  /** Scrubs secrets out of names. */
  clean?: (text: string) => string
}

/** A work folder below `root`; `all` contains its path while it exists. */
export function createWorkFolder(root: string, care: FileCare, all?: Set<string>): WorkFolder {
  let made: Promise<LockedFolder> | undefined
  const attached: string[] = []
  return {
    path() {
      made ??= makeIn(root, all)
      return made.then(({ path }) => path)
    },
    isMade: () => made !== undefined,
    attach(path) {
      if (attached.length < ARTIFACTS_MAX) attached.push(path)
    },
    async artifacts(cut) {
      const found: AttachedFiles = { artifacts: [], leftOut: [] }
      if (made === undefined || attached.length === 0) return found
      // A folder that could not be made, or is already gone, has no artifacts.
      const folder = await made.then(({ path }) => realpath(path)).catch(() => undefined)
      if (folder === undefined) return found
      const candidates = await filesIn(attached, folder)
      const bytesMax = Math.min(LIMITS.artifactBytesMax, care.files?.bytesMax() ?? Infinity)
      const fitting = candidates.filter(({ bytes }) => bytes <= bytesMax)
      const unclean = await care.scrub(
        fitting.map(({ real }) => real),
        cut,
      )
      for (const { path, real, bytes } of candidates) {
        const name = nameFor(care.clean?.(basename(path)) ?? basename(path), found.artifacts)
        const isLate = cut?.aborted === true && bytes > CUT_FILES_BYTES_MAX
        const problem =
          unclean.get(real) ??
          (isLate ? CUT_REASON : await addFile(name, real, found, { ...care, bytesMax }))
        if (problem !== undefined) found.leftOut.push(`${name}: ${problem}`)
      }
      return found
    },
    async remove() {
      if (made === undefined) return
      const folder = await made.catch(() => undefined)
      if (folder === undefined) return
      // User code may have left unreadable folders; the lock is released so that the next start tries again.
      await removeTree(folder.path).finally(() => folder.release())
      all?.delete(folder.path)
    },
  }
}

async function makeIn(root: string, all: Set<string> | undefined): Promise<LockedFolder> {
  await makeFolder(root, 0o777)
  // An agent for uptime checks alone must not carry it in its memory.
  const { makeLockedFolder } = await import('../../sandbox/locked-folder.ts')
  const folder = await makeLockedFolder(root, RUN_PREFIX)
  all?.add(folder.path)
  return folder
}

interface FolderFile {
  /** As it was attached. */
  path: string
  real: string
  bytes: number
}

/** The attached paths that are files of the folder, each once. */
async function filesIn(attached: readonly string[], folder: string): Promise<FolderFile[]> {
  const candidates = new Map<string, FolderFile>()
  for (const path of attached) {
    const real = await realpath(path).catch(() => '')
    if (!real.startsWith(folder + sep) || candidates.has(real)) continue
    // A missing file, a pipe or a folder is no artifact.
    const found = await stat(real).catch(() => undefined)
    if (found?.isFile() === true) candidates.set(real, { path, real, bytes: found.size })
  }
  return [...candidates.values()]
}

/** Adds the file, or says why it is left out. */
async function addFile(
  name: string,
  real: string,
  found: AttachedFiles,
  { files, bytesMax }: { files?: FileStaging | undefined; bytesMax: number },
): Promise<string | undefined> {
  try {
    const { size } = await stat(real)
    if (size > bytesMax) return `it has ${size} bytes, more than the limit of ${bytesMax}`
    const hash = createHash('sha256')
    await pipeline(createReadStream(real), hash)
    const sha256 = hash.digest('hex')
    const artifact = { name, bytes: size, sha256, contentType: 'application/octet-stream' }
    const problem = await files?.stage(real, artifact)
    if (problem === undefined) found.artifacts.push(artifact)
    return problem
  } catch (error) {
    return `it cannot be read (${(error as NodeJS.ErrnoException).code ?? String(error)})`
  }
}

/** A file name that is valid everywhere and unique in this attempt. */
function nameFor(given: string, others: readonly Artifact[]): string {
  const plain = given.toWellFormed().replaceAll(/[\\\p{Cc}\u2028\u2029]/gu, '_')
  for (let number = 1; ; number++) {
    const name = number === 1 ? plain : `${number}-${plain}`
    if (!others.some((one) => one.name === name)) return name
  }
}
