// The folder of one attempt: made when a monitor first asks for it, gone when the attempt is over.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, realpath, rm, stat } from 'node:fs/promises'
import { basename, join, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Artifact } from '../contract/result.ts'
import { LIMITS } from '../contract/versions.ts'

/** A folder that need not exist yet. */
export interface WorkFolder {
  /** The path; the first call makes the folder, for the agent's user alone. */
  path(): Promise<string>
  isMade(): boolean
  /** Remembers a file of the folder as an artifact. */
  attach(path: string): void
  /** The attached files that exist, are inside the folder and within the size limit. */
  artifacts(): Promise<Artifact[]>
  /** Removes the folder with all that is in it. */
  remove(): Promise<void>
}

/** Files of one attempt; more are ignored. */
const ARTIFACTS_MAX = 100

/** A work folder below `root`. */
export function createWorkFolder(root: string): WorkFolder {
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
      if (made === undefined || attached.length === 0) return []
      // A folder that could not be made, or is gone already, holds no artifact.
      const folder = await made.then((path) => realpath(path)).catch(() => undefined)
      if (folder === undefined) return []
      const described = await Promise.all(attached.map((path) => describe(path, folder)))
      return described.filter((one) => one !== undefined)
    },
    async remove() {
      if (made === undefined) return
      const folder = await made.catch(() => undefined)
      if (folder !== undefined) await rm(folder, { recursive: true, force: true, maxRetries: 2 })
    },
  }
}

async function describe(path: string, folder: string): Promise<Artifact | undefined> {
  try {
    const real = await realpath(path)
    const { size } = await stat(real)
    if (!real.startsWith(folder + sep) || size > LIMITS.artifactBytesMax) return undefined
    const hash = createHash('sha256')
    await pipeline(createReadStream(real), hash)
    const sha256 = hash.digest('hex')
    const contentType = 'application/octet-stream'
    return { name: basename(path), bytes: size, sha256, contentType }
  } catch {
    // A file that has gone is no artifact.
    return undefined
  }
}
