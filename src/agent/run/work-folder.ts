// The folder of one attempt: made when a monitor first asks for it, gone when the attempt is over.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { basename, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Artifact } from '../../contract/result.ts'
import { LIMITS } from '../../contract/versions.ts'
import { makeFolder } from '../../process/make-folder.ts'
import type { HeldFolder } from '../../sandbox/held-folder.ts'
import { removeTree } from '../../sandbox/remove-tree.ts'
import type { FileKeep } from '../sink.ts'

/** A folder that need not exist yet. */
export interface WorkFolder {
  /** The path; the first call makes the folder, for the agent's user alone. */
  path(): Promise<string>
  isMade(): boolean
  /** Remembers a file of the folder as an artifact. */
  attach(path: string): void
  /** The attached files that exist and are inside the folder; when `cut` is aborted, those that are quickly had. */
  artifacts(cut?: AbortSignal): Promise<AttachedFiles>
  /** Removes the folder with all that is in it. */
  remove(): Promise<void>
}

/** What a run attached. */
export interface AttachedFiles {
  artifacts: Artifact[]
  /** What is left out, with the reason: a sentence each. */
  leftOut: string[]
}

/** Names of folders of runs begin so. */
export const RUN_PREFIX = 'vedette-run-'
/** Files of one attempt; more are ignored. */
const ARTIFACTS_MAX = 100

/**
 * Takes secrets out of files in place; gives those that must be left out, with the reason. Soon ends when `cut`
 * is aborted. Never rejects.
 */
export type ScrubFiles = (
  paths: readonly string[],
  cut?: AbortSignal,
) => Promise<ReadonlyMap<string, string>>

/** Bytes of files that are still taken along when somebody has cancelled their run; small ones come first. */
export const CUT_FILES_BYTES_MAX = 8 * 1024 * 1024
/** Why others are not. */
export const CUT_REASON = 'the run was cancelled before it was ready'

/** What becomes of the attached files. */
export interface FileCare {
  /** Takes them; without it they are only named. */
  files?: FileKeep | undefined
  scrub: ScrubFiles
  /** Called when there will be something to scrub. */
  onFiles?: () => void
  /** Takes secrets out of names. */
  clean?: (text: string) => string
}

/** A work folder below `root`; `all` has its path for as long as it is there. */
export function createWorkFolder(root: string, care: FileCare, all?: Set<string>): WorkFolder {
  let made: Promise<HeldFolder> | undefined
  const attached: string[] = []
  return {
    path() {
      made ??= makeIn(root, all)
      return made.then(({ path }) => path)
    },
    isMade: () => made !== undefined,
    attach(path) {
      if (attached.length === 0) care.onFiles?.()
      if (attached.length < ARTIFACTS_MAX) attached.push(path)
    },
    async artifacts(cut) {
      const found: AttachedFiles = { artifacts: [], leftOut: [] }
      if (made === undefined || attached.length === 0) return found
      // A folder that could not be made, or is gone already, holds no artifact.
      const folder = await made.then(({ path }) => realpath(path)).catch(() => undefined)
      if (folder === undefined) return found
      const inside = await filesInside(attached, folder)
      const bytesMax = Math.min(LIMITS.artifactBytesMax, care.files?.bytesMax() ?? Infinity)
      const fitting = inside.filter(({ bytes }) => bytes <= bytesMax)
      const unclean = await care.scrub(
        fitting.map(({ real }) => real),
        cut,
      )
      for (const { path, real, bytes } of inside) {
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
      // Code of people may have made folders in it that nobody may enter.
      if (folder === undefined) return
      // Held no more: what cannot be removed now is left over, and the next start tries again.
      await removeTree(folder.path).finally(() => folder.release())
      all?.delete(folder.path)
    },
  }
}

async function makeIn(root: string, all: Set<string> | undefined): Promise<HeldFolder> {
  await makeFolder(root, 0o777)
  // An agent for uptime checks alone must not carry it in its memory.
  const { makeHeldFolder } = await import('../../sandbox/held-folder.ts')
  const folder = await makeHeldFolder(root, RUN_PREFIX)
  all?.add(folder.path)
  return folder
}

interface InsideFile {
  /** As it was attached. */
  path: string
  real: string
  bytes: number
}

/** The attached paths that are files of the folder, each once. */
async function filesInside(attached: readonly string[], folder: string): Promise<InsideFile[]> {
  const inside = new Map<string, InsideFile>()
  for (const path of attached) {
    const real = await realpath(path).catch(() => '')
    if (!real.startsWith(folder + sep) || inside.has(real)) continue
    // A file that has gone is no artifact, and a pipe or a folder is none.
    const found = await stat(real).catch(() => undefined)
    if (found?.isFile() === true) inside.set(real, { path, real, bytes: found.size })
  }
  return [...inside.values()]
}

/** Adds the file, or says why it is left out. */
async function addFile(
  name: string,
  real: string,
  found: AttachedFiles,
  { files, bytesMax }: { files?: FileKeep | undefined; bytesMax: number },
): Promise<string | undefined> {
  try {
    const { size } = await stat(real)
    if (size > bytesMax) return `it has ${size} bytes, more than the ${bytesMax} that are taken`
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

/** A name that is a name everywhere, and no other file's of this attempt. */
function nameFor(given: string, others: readonly Artifact[]): string {
  const plain = given.toWellFormed().replaceAll(/[\\\p{Cc}\u2028\u2029]/gu, '_')
  for (let number = 1; ; number++) {
    const name = number === 1 ? plain : `${number}-${plain}`
    if (!others.some((one) => one.name === name)) return name
  }
}
