// Unpacks the bundle of a check suite: a tar.gz that came from outside, so nothing in it may lead out of the
// folder, exceed its size limit, or become anything but files, folders and links among them.
import { createReadStream } from 'node:fs'
import { chmod, mkdir, open, symlink } from 'node:fs/promises'
import { dirname, isAbsolute, join, normalize } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { extract, type Extract, type Header } from 'tar-stream'
import { leadsOut } from '../sandbox/trees.ts'

export interface BundleBounds {
  unpackedBytesMax: number
  filesMax: number
}

/** The bundle cannot be used; the message says why. */
export class BundleError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'BundleError'
  }
}

type Entry = Extract extends AsyncIterable<infer T> ? T : never

const PATH_BYTES_MAX = 1000

/** Unpacks a tar.gz into an empty folder. Rejects with BundleError when it holds what it must not. */
export async function unpackBundle(
  path: string,
  folder: string,
  bounds: BundleBounds,
  signal: AbortSignal,
): Promise<void> {
  const tar = extract()
  const unpacked = unpackAll(tar, folder, bounds)
  const [fed, done] = await Promise.allSettled([
    pipeline(createReadStream(path), createGunzip(), tar, { signal }),
    unpacked,
  ])
  signal.throwIfAborted()
  // What the entries hold says more than that reading them was given up.
  if (done.status === 'rejected' && isOurs(done.reason)) throw damaged(done.reason)
  if (fed.status === 'rejected') throw damaged(fed.reason)
  if (done.status === 'rejected') throw damaged(done.reason)
}

async function unpackAll(
  entries: AsyncIterable<Entry>,
  folder: string,
  { unpackedBytesMax, filesMax }: BundleBounds,
): Promise<void> {
  let bytes = 0
  let files = 0
  // Links come last: nothing is ever written through one.
  const links = new Map<string, string>()
  for await (const entry of entries) {
    const { header } = entry
    const path = pathOf(header)
    if (++files > filesMax) throw new BundleError(`it contains more than ${filesMax} files`)
    bytes += header.size
    if (bytes > unpackedBytesMax) {
      throw new BundleError(`decompressed, it has more than ${unpackedBytesMax} bytes`)
    }
    if (header.type === 'symlink') links.set(path, header.linkname ?? '')
    await place(entry, join(folder, path))
  }
  await makeLinks(links, folder)
}

async function makeLinks(links: ReadonlyMap<string, string>, folder: string): Promise<void> {
  for (const [path, target] of links) {
    for (let at = dirname(path); at !== '.'; at = dirname(at)) {
      if (links.has(at)) throw new BundleError(`${shown(path)} is below a link`)
    }
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await symlink(target, join(folder, path))
  }
  for (const path of links.keys()) {
    if (await leadsOut(folder, path))
      throw new BundleError(`the link ${shown(path)} points outside of it`)
  }
}

/** Writes the entry; whatever it is, its bytes are read. */
async function place(entry: Entry, path: string): Promise<void> {
  const { type, mode } = entry.header
  if (type === 'directory') await mkdir(path, { recursive: true })
  if (type !== 'file' && type !== 'contiguous-file') {
    entry.resume()
    return
  }
  await mkdir(dirname(path), { recursive: true })
  // A second file of the same path is a mistake or an attack.
  const file = await open(path, 'wx', 0o644)
  await pipeline(entry, file.createWriteStream())
  if ((mode & 0o100) !== 0) await chmod(path, 0o755)
}

const KINDS: ReadonlySet<unknown> = new Set(['file', 'contiguous-file', 'directory', 'symlink'])

function pathOf({ name, type }: Header): string {
  if (!KINDS.has(type)) throw new BundleError(`${shown(name)} is a ${type}`)
  const path = normalize(name)
  if (isAbsolute(path) || path === '..' || path.startsWith('../') || path.includes('\0')) {
    throw new BundleError(`${shown(name)} points outside of it`)
  }
  if (Buffer.byteLength(path) > PATH_BYTES_MAX) throw new BundleError(`${shown(name)} is too long`)
  return path
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 200))
}

function isOurs(error: unknown): boolean {
  if (error instanceof BundleError) return true
  const code = (error as NodeJS.ErrnoException).code ?? ''
  return code.startsWith('E') && !code.startsWith('ERR_')
}

/** What tar-stream and zlib say of bad bytes, as what it means. */
function damaged(error: unknown): unknown {
  if (isOurs(error)) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'EEXIST' ? new BundleError('it contains two files with the same path') : error
  }
  return new BundleError(`it is not a tar.gz, or it is damaged (${(error as Error).message})`)
}
