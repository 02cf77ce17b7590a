// Copies a folder: a project into the folder of its run, packages into the cache and out of it. Whatever is in
// there, nothing outside of the two folders is read or written.
import { constants } from 'node:fs'
import {
  chmod,
  copyFile,
  link,
  lstat,
  mkdir,
  opendir,
  readlink,
  realpath,
  symlink,
} from 'node:fs/promises'
import { join, relative } from 'node:path'

export interface CopyOrder {
  from: string
  /** Made where it is missing. */
  to: string
  /** Whether files and folders of a name stay behind, wherever they are. */
  without?: (name: string) => boolean
  /** Folders that stay behind where they are inside, as the copy itself always does. */
  apart?: readonly string[]
  /** Gives files a second name instead of copying them: quick, and only for files that nobody changes. */
  linked?: boolean
  bytesMax: number
  filesMax: number
  signal: AbortSignal
}

/** There is more than may be copied; the message says so. */
export class CopyTooLargeError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'CopyTooLargeError'
  }
}

/** Files under way at a time: enough to keep a disk busy, few enough for the rest of the agent. */
const AT_ONCE = 8

/**
 * Copies all files, folders and links of a folder; pipes, sockets and devices stay behind. Files keep whether
 * they may be run, and nothing else of their rights. Resolves with the paths of links, which are copied as they are.
 * Rejects with CopyTooLargeError, with what the file
 * system throws, or with the signal's reason.
 */
export async function copyTree(order: CopyOrder): Promise<string[]> {
  let [bytes, files] = [0, 0]
  const links: string[] = []
  const waiting: (() => Promise<void>)[] = [() => folder('')]
  const { from, to, without, apart = [], signal } = order
  await mkdir(to, { recursive: true, mode: 0o755 })
  const behind = await insideOf(from, [to, ...apart])

  const folder = async (inside: string): Promise<void> => {
    await mkdir(join(to, inside), { recursive: true, mode: 0o755 })
    for await (const entry of await opendir(join(from, inside))) {
      if (without?.(entry.name)) continue
      const path = inside === '' ? entry.name : `${inside}/${entry.name}`
      if (behind.has(path)) continue
      if (++files > order.filesMax) {
        throw new CopyTooLargeError(`it has more than ${order.filesMax} files`)
      }
      if (entry.isDirectory()) waiting.push(() => folder(path))
      else if (entry.isFile()) waiting.push(() => file(path))
      else if (entry.isSymbolicLink()) {
        await symlink(await readlink(join(from, path)), join(to, path))
        links.push(path)
      }
    }
  }
  const file = async (path: string): Promise<void> => {
    const size = await copyOne(order, path, bytes)
    bytes += size
  }

  while (waiting.length > 0) {
    signal.throwIfAborted()
    // All of them end before the first failure is passed on: nothing is written after that.
    const ended = await Promise.allSettled(waiting.splice(-AT_ONCE).map((one) => one()))
    const failed = ended.find((one) => one.status === 'rejected')
    if (failed !== undefined) throw failed.reason
  }
  return links
}

/** The paths in the folder of those that are in there, by whatever name they are known. */
async function insideOf(from: string, folders: readonly string[]): Promise<ReadonlySet<string>> {
  const real = (path: string) => realpath(path).catch(() => path)
  const root = await real(from)
  return new Set(await Promise.all(folders.map(async (one) => relative(root, await real(one)))))
}

async function copyOne(
  { from, to, linked = false, bytesMax }: CopyOrder,
  path: string,
  bytesBefore: number,
): Promise<number> {
  const [source, target] = [join(from, path), join(to, path)]
  const { size, mode } = await lstat(source)
  if (bytesBefore + size > bytesMax) {
    throw new CopyTooLargeError(`it has more than ${bytesMax} bytes`)
  }
  if (linked && (await couldLink(source, target))) return size
  // Where the file system can, both share their blocks until one is changed.
  await copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
  await chmod(target, (mode & 0o100) === 0 ? 0o644 : 0o755)
  return size
}

async function couldLink(source: string, target: string): Promise<boolean> {
  try {
    await link(source, target)
    return true
  } catch {
    // Another file system, or too many names already.
    return false
  }
}
