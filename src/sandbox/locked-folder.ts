// Folders that belong to one process for as long as it lives: each has a lock on itself (flock(2)), which the
// kernel releases when the process dies, whatever the cause. A folder without a lock is a leftover.
import { closeSync, constants, fstatSync, openSync, chmodSync, statSync } from 'node:fs'
import { mkdtemp, readdir, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { EAGAIN, lockDescriptor } from '../network/native/syscalls.ts'
import { removeTree } from './remove-tree.ts'

/** Follows the prefix in the name of a folder that can be locked. Folders without it are never removed. */
export const LOCKABLE_MARK = '+'
const ATTEMPTS_MAX = 5
/** A supervisor that outlived its agent removes the folder at the same time. */
const REMOVE_MS_MAX = 10_000
const AGAIN_MS = 200

export interface LockedFolder {
  path: string
  /** Gives up the lock; to be called when the folder is gone or has another name. */
  readonly release: () => void
}

/** Makes a locked folder for this user alone; where the file system has no such locks (NFS), one without. */
export async function makeLockedFolder(root: string, prefix: string): Promise<LockedFolder> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const path = await mkdtemp(join(root, prefix + LOCKABLE_MARK))
    const lock = lockOf(path)
    if (typeof lock === 'function') return { path, release: lock }
    if (lock === 'taken') continue
    await rmdir(path)
    return { path: await mkdtemp(join(root, prefix)), release: () => undefined }
  }
  throw new Error(`no folder can be locked in ${root}: another process removes it at once`)
}

/** Locks a folder; returns its release, or undefined where another process has the lock. Throws on NFS. */
export function lockFolder(path: string): (() => void) | undefined {
  const lock = lockOf(path)
  if (lock === 'impossible') throw new Error(`${path} cannot be locked`)
  return lock === 'taken' ? undefined : lock
}

/** What was removed, and what could not be. */
export interface LeftoverCount {
  removed: number
  failed: { path: string; error: unknown }[]
}

/** Removes folders whose process is gone; `beforehand` is called with each while it is locked. Never rejects. */
export async function removeUnlocked(
  root: string,
  prefix: string,
  beforehand: (path: string) => Promise<unknown> = () => Promise.resolve(),
): Promise<LeftoverCount> {
  const count: LeftoverCount = { removed: 0, failed: [] }
  const names = await readdir(root).catch(() => [] as string[])
  for (const name of names.filter((one) => one.startsWith(prefix + LOCKABLE_MARK))) {
    const path = join(root, name)
    const lock = lockOf(path)
    if (typeof lock !== 'function') continue
    try {
      await beforehand(path)
      await removeSurely(path)
      count.removed++
    } catch (error) {
      count.failed.push({ path, error })
    } finally {
      lock()
    }
  }
  return count
}

async function removeSurely(path: string): Promise<void> {
  const endsAtMs = performance.now() + REMOVE_MS_MAX
  for (;;) {
    try {
      return await removeTree(path)
    } catch (error) {
      if (statSync(path, { throwIfNoEntry: false }) === undefined) return
      if (performance.now() > endsAtMs) throw error
      await sleep(AGAIN_MS)
    }
  }
}

/** Locks it and returns the release; `taken`: another process has the lock, or had it and removed the folder. */
function lockOf(path: string): (() => void) | 'taken' | 'impossible' {
  const fd = opened(path)
  if (fd === undefined) return 'taken'
  const problem = lockDescriptor(fd)
  if (problem === 0) {
    // Between its making and its locking another process may have found it unlocked.
    if (statSync(path, { throwIfNoEntry: false })?.ino === fstatSync(fd).ino)
      return () => closeSync(fd)
    closeSync(fd)
    return 'taken'
  }
  closeSync(fd)
  return problem === EAGAIN ? 'taken' : 'impossible'
}

/** Undefined where it is gone, no folder, or another user's. */
function opened(path: string): number | undefined {
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
  try {
    return openSync(path, flags)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') return undefined
  }
  try {
    // User code may have forbidden it.
    chmodSync(path, 0o700)
    return openSync(path, flags)
  } catch {
    return undefined
  }
}
