// Folders that the agent and its runs share: their owner, and whether runs reach them. What comes back from user code is
// only files, folders and links, and no other user may write to them.
import { chmod, lchown, lstat, opendir, readlink, rm, stat } from 'node:fs/promises'
import { dirname, isAbsolute, join } from 'node:path'

export interface OwnedTree {
  bytes: number
  files: number
  /** A link leads out of it. */
  leadsOut: boolean
}

/** Takes it over. Rejects with what the file system throws. */
export async function ownTree(folder: string): Promise<OwnedTree> {
  const owned: OwnedTree = { bytes: 0, files: 0, leadsOut: false }
  const counted = new Set<number>()
  const waiting = ['']
  for (let inside = waiting.pop(); inside !== undefined; inside = waiting.pop()) {
    const own = join(folder, inside)
    await ownFolder(own)
    const entries = []
    for await (const entry of await opendir(own)) entries.push(entry)
    for (let at = 0; at < entries.length; at += AT_ONCE) {
      const slice = entries.slice(at, at + AT_ONCE)
      owned.files += slice.length
      await Promise.all(
        slice.map(async (entry) => {
          const path = join(inside, entry.name)
          if (entry.isDirectory()) waiting.push(path)
          else if (entry.isFile()) {
            // Apart from the sum, which other entries change meanwhile.
            const bytes = await ownFile(join(folder, path), counted)
            owned.bytes += bytes
          } else if (entry.isSymbolicLink()) {
            if (await leadsOut(folder, path)) owned.leadsOut = true
          } else await rm(join(folder, path))
        }),
      )
    }
  }
  return owned
}

const AT_ONCE = 16

async function ownFolder(path: string): Promise<void> {
  if (isRoot()) await lchown(path, 0, 0)
  await chmod(path, 0o755)
}

async function ownFile(path: string, counted: Set<number>): Promise<number> {
  const { size, mode, uid, ino, nlink } = await lstat(path)
  // One file under several names, as package managers make them of what is the same in several packages.
  if (nlink > 1 && counted.has(ino)) return 0
  // A file of the agent's own cannot come from the code: it is a second name of something outside.
  if (isRoot() && uid === 0) {
    await rm(path)
    return 0
  }
  if (nlink > 1) counted.add(ino)
  if (isRoot()) await lchown(path, 0, 0)
  await chmod(path, (mode & 0o100) === 0 ? 0o644 : 0o755)
  return size
}

/** How many links the system follows on one path (path_resolution(7)). */
const LINKS_MAX = 40

/**
 * Whether the link leads out of the folder at any step, as the system would go: after another link, `..` is
 * where that one led. A path that does not exist counts as a folder.
 */
export async function leadsOut(root: string, path: string): Promise<boolean> {
  const at: string[] = []
  const ahead = path.split('/')
  let followed = 0
  for (let next = ahead.shift(); next !== undefined; next = ahead.shift()) {
    if (next === '' || next === '.') continue
    if (next === '..') {
      if (at.pop() === undefined) return true
      continue
    }
    at.push(next)
    const target = await readlink(join(root, ...at)).catch(() => undefined)
    if (target === undefined) continue
    if (isAbsolute(target)) return true
    if (++followed > LINKS_MAX) return false
    at.pop()
    ahead.unshift(...target.split('/'))
  }
  return false
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}

/** Hands the folder to the user. A file that has another name elsewhere stays: it is not the run's alone. */
export async function giveTree(folder: string, userId: number): Promise<void> {
  for await (const entry of await opendir(folder)) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await giveTree(path, userId)
    else if ((await lstat(path)).nlink === 1) await lchown(path, userId, userId)
  }
  await lchown(folder, userId, userId)
}

/** Whether the kernel keeps runs from writing to what is not in their own folder, even the agent's own user. */
export async function isOutOfReach(): Promise<boolean> {
  if (process.getuid?.() === 0) return true
  const { landlockVersion } = await import('../network/native/syscalls.ts')
  return landlockVersion() > 0
}

/** Whether users that are not the agent's, as runs of root's agent have, get to the folder when it is named to them. */
export async function isReachable(folder: string): Promise<boolean> {
  if (process.getuid?.() !== 0) return true
  const { mayMount } = await import('./supervisor/mounts.ts')
  return mayMount() || isOpenToAll(folder)
}

/** Whether every user may pass to the folder. */
export async function isOpenToAll(folder: string): Promise<boolean> {
  for (let at = folder; ; at = dirname(at)) {
    if (((await stat(at)).mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}
