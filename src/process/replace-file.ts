// Puts a new text in the place of a file, all of it or nothing, as the file of the same owner and mode.
import { randomUUID } from 'node:crypto'
import { chmod, chown, open, realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

const PERMISSIONS = 0o7777

/**
 * Replaces the file that the path leads to; a symbolic link stays one. Rejects where the folder cannot be
 * written, or where this user could not give the new file to the owner of the old one; the file is then
 * untouched, and no temporary file is left next to it.
 */
export async function replaceFile(path: string, text: string): Promise<void> {
  const { real, draft } = await makeDraft(path, text)
  try {
    await rename(draft, real)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
  await syncFolder(dirname(real))
}

/** Rejects where `replaceFile` would; changes nothing. */
export async function tryToReplace(path: string): Promise<void> {
  const { draft } = await makeDraft(path, '')
  await rm(draft, { force: true })
}

/** The new file next to the old one, with its owner and mode. */
async function makeDraft(path: string, text: string): Promise<{ real: string; draft: string }> {
  const real = await realpath(path)
  const { mode, uid, gid, dev } = await stat(real)
  const draft = join(dirname(real), `.${basename(real)}.${randomUUID()}`)
  try {
    const file = await open(draft, 'wx', 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    const made = await stat(draft)
    // Nothing can be renamed onto a mount point, such as a single file in a container.
    if (made.dev !== dev) throw new Error(`${real} is mounted by itself; mount its folder`)
    if (made.uid !== uid || made.gid !== gid) await chown(draft, uid, gid)
    await chmod(draft, mode & PERMISSIONS)
    return { real, draft }
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

/** Makes the new name survive a power failure; if a folder cannot be synced, the file is renamed nevertheless. */
async function syncFolder(folder: string): Promise<void> {
  const opened = await open(folder, 'r').catch(() => undefined)
  await opened?.sync().catch(() => undefined)
  await opened?.close()
}
