// The folder of one attempt: made when a monitor first asks for it, gone when the attempt is over.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, realpath, rm, stat } from 'node:fs/promises'
import { basename, join, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Artifact } from '../contract/result.ts'
import { LIMITS } from '../contract/versions.ts'
import type { FileKeep } from './sink.ts'

/** A folder that need not exist yet. */
export interface WorkFolder {
  /** The path; the first call makes the folder, for the agent's user alone. */
  path(): Promise<string>
  isMade(): boolean
  /** Remembers a file of the folder as an artifact. */
  attach(path: string): void
  /** The attached files that exist and are inside the folder. */
  artifacts(): Promise<AttachedFiles>
  /** Removes the folder with all that is in it. */
  remove(): Promise<void>
}

/** What a run attached. */
export interface AttachedFiles {
  artifacts: Artifact[]
  /** What is left out, with the reason: a sentence each. */
  leftOut: string[]
}

/** Files of one attempt; more are ignored. */
const ARTIFACTS_MAX = 100

/** A work folder below `root`. */
export function createWorkFolder(root: string, files?: FileKeep): WorkFolder {
  let made: Promise<string> | undefined
  const attached: string[] = []
  return {
    path() {
      made ??= mkdir(root, { recursive: true }).then(() => mkdtemp(join(root, 'vedette-run-')))
      return made
    },
    isMade: () => made !== undefined,
    attach(path) {
      if (attached.length < ARTIFACTS_MAX) attached.push(path)
    },
    async artifacts() {
      const found: AttachedFiles = { artifacts: [], leftOut: [] }
      if (made === undefined || attached.length === 0) return found
      // A folder that could not be made, or is gone already, holds no artifact.
      const folder = await made.then((path) => realpath(path)).catch(() => undefined)
      if (folder === undefined) return found
      for (const path of attached) await addFile(path, folder, found, files)
      return found
    },
    async remove() {
      if (made === undefined) return
      const folder = await made.catch(() => undefined)
      if (folder !== undefined) await rm(folder, { recursive: true, force: true, maxRetries: 2 })
    },
  }
}

async function addFile(
  path: string,
  folder: string,
  found: AttachedFiles,
  files: FileKeep | undefined,
): Promise<void> {
  try {
    const real = await realpath(path)
    const { size } = await stat(real)
    if (!real.startsWith(folder + sep)) return
    const name = nameFor(path, found.artifacts)
    const bytesMax = Math.min(LIMITS.artifactBytesMax, files?.bytesMax() ?? Infinity)
    if (size > bytesMax) {
      found.leftOut.push(`${name}: it has ${size} bytes, more than the ${bytesMax} that are taken`)
      return
    }
    const hash = createHash('sha256')
    await pipeline(createReadStream(real), hash)
    const sha256 = hash.digest('hex')
    const artifact = { name, bytes: size, sha256, contentType: 'application/octet-stream' }
    const problem = await files?.stage(real, artifact)
    if (problem === undefined) found.artifacts.push(artifact)
    else found.leftOut.push(`${name}: ${problem}`)
  } catch {
    // A file that has gone is no artifact.
    return
  }
}

/** A name that is a name everywhere, and no other file's of this attempt. */
function nameFor(path: string, others: readonly Artifact[]): string {
  const plain = basename(path)
    .toWellFormed()
    .replaceAll(/[\\\p{Cc}\u2028\u2029]/gu, '_')
  for (let number = 1; ; number++) {
    const name = number === 1 ? plain : `${number}-${plain}`
    if (!others.some((one) => one.name === name)) return name
  }
}
