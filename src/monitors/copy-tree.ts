// Copies a folder: a project into the folder of its run, packages into the cache and out of it. Whatever is in
// there, nothing outside of the two folders is read or written.
import { constants } from 'node:fs'
import { chmod, copyFile, link, lstat, mkdir, opendir, readlink, symlink } from 'node:fs/promises'
import { dirname, isAbsolute, join, normalize } from 'node:path'

/** What is copied, and how much of it there may be. */
export interface CopyOrder {
  from: string
  /** Made where it is missing. */
  to: string
  /** Names of files and folders that stay behind, wherever they are. */
  without?: ReadonlySet<string>
  /** Gives files a second name instead of copying them: quick, and only for files that nobody changes. */
  linked?: boolean
  bytesMax: number
  filesMax: number
  signal: AbortSignal
}

/** What was copied. */
export interface Copied {
  bytes: number
  files: number
  /** Links that lead out of the folder, by their paths in it; they are copied as they are. */
  outward: string[]
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
const OUTWARD_MAX = 20

/**
 * Copies all files, folders and links of a folder; pipes, sockets and devices stay behind. Files keep whether
 * they may be run, and nothing else of their rights. Rejects with CopyTooLargeError, with what the file
 * system throws, or with the signal's reason.
 */
export async function copyTree(order: CopyOrder): Promise<Copied> {
  const copied: Copied = { bytes: 0, files: 0, outward: [] }
  const waiting: (() => Promise<void>)[] = [() => folder('')]
  const { from, to, without = NOTHING, signal } = order

  const folder = async (inside: string): Promise<void> => {
    await mkdir(join(to, inside), { recursive: true, mode: 0o755 })
    for await (const entry of await opendir(join(from, inside))) {
      if (without.has(entry.name)) continue
      const path = inside === '' ? entry.name : `${inside}/${entry.name}`
      if (++copied.files > order.filesMax) {
        throw new CopyTooLargeError(`it has more than ${order.filesMax} files`)
      }
      if (entry.isDirectory()) waiting.push(() => folder(path))
      else if (entry.isFile()) waiting.push(() => file(path))
      else if (entry.isSymbolicLink()) await copyLink(order, path, copied)
    }
  }
  const file = async (path: string): Promise<void> => {
    copied.bytes += await copyOne(order, path, copied.bytes)
  }

  while (waiting.length > 0) {
    signal.throwIfAborted()
    // All of them end before the first failure is passed on: nothing is written after that.
    const ended = await Promise.allSettled(waiting.splice(-AT_ONCE).map((one) => one()))
    const failed = ended.find((one) => one.status === 'rejected')
    if (failed !== undefined) throw failed.reason
  }
  return copied
}

const NOTHING: ReadonlySet<string> = new Set()

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

async function copyLink({ from, to }: CopyOrder, path: string, copied: Copied): Promise<void> {
  const target = await readlink(join(from, path))
  if (leadsOut(path, target) && copied.outward.length < OUTWARD_MAX) copied.outward.push(path)
  await symlink(target, join(to, path))
}

function leadsOut(path: string, target: string): boolean {
  const inside = normalize(join(dirname(path), target))
  return isAbsolute(target) || inside === '..' || inside.startsWith('../')
}
