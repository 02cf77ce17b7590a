// Artifacts in a folder, one folder a day below it. A file has another name until it is whole and on the
// disk, so that a crash leaves no half file under a name that is served.
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type ArtifactStore, ArtifactStoreError } from './store.ts'

/** Writes to an open file, like `FileHandle`. Injected by tests to simulate a full disk. */
export type WriteBytes = (file: FileHandle, bytes: Uint8Array) => Promise<void>

const DAY = /^\d{4}-\d{2}-\d{2}$/

/** Stores artifacts below `root`, which is created with the first one. */
export function createArtifactFolder(
  root: string,
  write: WriteBytes = (file, bytes) => file.appendFile(bytes),
): ArtifactStore {
  const fill = async (part: string, body: AsyncIterable<Uint8Array>) => {
    const file = await guarded(open(part, 'wx', 0o600))
    try {
      for await (const bytes of body) await guarded(write(file, bytes))
      await guarded(file.sync())
    } finally {
      await file.close().catch(() => undefined)
    }
  }
  return {
    needsLength: false,
    async put(key, body) {
      const path = join(root, key)
      const part = partOf(path)
      try {
        const folder = dirname(path)
        const made = await guarded(mkdir(folder, { recursive: true, mode: 0o700 }))
        await fill(part, body)
        await guarded(rename(part, path))
        await guarded(syncFolder(folder))
        if (made !== undefined) await guarded(syncFolder(root))
      } catch (error) {
        await rm(part, { force: true }).catch(() => undefined)
        throw error
      }
    },
    async get(key, range) {
      try {
        const file = await open(join(root, key), 'r')
        return file.createReadStream(range && { start: range.first, end: range.last })
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
        throw failure(error)
      }
    },
    async remove(key) {
      const path = join(root, key)
      await guarded(rm(path, { force: true }))
      await guarded(rm(partOf(path), { force: true }))
    },
    async dropBefore(day) {
      const names = await readdir(root).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return []
        throw failure(error)
      })
      for (const name of names.filter((one) => DAY.test(one) && one < day)) {
        await guarded(rm(join(root, name), { recursive: true, force: true }))
      }
    },
  }
}

function partOf(path: string): string {
  return `${path}.part`
}

/** A name is safe on the disk only when its folder is. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

async function guarded<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw failure(error)
  }
}

function failure(error: unknown): ArtifactStoreError {
  const { code, message } = error as NodeJS.ErrnoException
  const why = code === 'ENOSPC' || code === 'EDQUOT' ? 'the disk is full' : message
  return new ArtifactStoreError(`the artifacts' folder: ${why}`, { cause: error })
}
