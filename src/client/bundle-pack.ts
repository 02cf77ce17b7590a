// Packs the folder of a check suite into a tar.gz that is the same for the same files, byte for byte, so that
// its hash shows whether anything changed.
import { createReadStream, createWriteStream, type Stats } from 'node:fs'
import { lstat, opendir, readlink } from 'node:fs/promises'
import { createHash } from 'node:crypto'
import { dirname, isAbsolute, join, normalize } from 'node:path'
import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { pack, type Pack } from 'tar-stream'
import { isLeftOut } from '../suites/source.ts'

export interface PackedBundle {
  path: string
  /** Hex. */
  sha256: string
  bytes: number
  files: number
}

/** The folder cannot be packed; the message says why. */
export class BundlePackError extends Error {}

export interface PackBounds {
  bytesMax: number
  filesMax: number
}

interface Item {
  /** From the folder, with slashes. */
  path: string
  found: Stats
}

/** Packs `folder` into the file `target`. Rejects with BundlePackError, or what the file system throws. */
export async function packBundle(
  folder: string,
  target: string,
  bounds: PackBounds,
): Promise<PackedBundle> {
  const items = await itemsOf(folder, bounds)
  const tar = pack()
  const hash = createHash('sha256')
  let bytes = 0
  const counted = new PassThrough()
  counted.on('data', (piece: Buffer) => {
    hash.update(piece)
    bytes += piece.length
  })
  // The header of gzip has neither the time nor the system of the packing machine.
  const written = pipeline(tar, createGzip({ level: 9 }), counted, createWriteStream(target))
  await Promise.all([addAll(tar, folder, items), written])
  if (bytes > bounds.bytesMax) {
    throw new BundlePackError(
      `packed, it has ${bytes} bytes; at most ${bounds.bytesMax} are allowed`,
    )
  }
  return { path: target, sha256: hash.digest('hex'), bytes, files: items.length }
}

async function itemsOf(folder: string, { filesMax }: PackBounds): Promise<Item[]> {
  const items: Item[] = []
  const visit = async (relativePath: string): Promise<void> => {
    for await (const { name } of await opendir(join(folder, relativePath))) {
      if (isLeftOut(name)) continue
      const path = relativePath === '' ? name : `${relativePath}/${name}`
      const found = await lstat(join(folder, path))
      if (items.length >= filesMax) {
        throw new BundlePackError(`${folder} contains more than ${filesMax} files`)
      }
      if (found.isDirectory()) {
        await visit(path)
        continue
      }
      // Sockets and pipes belong to a running process.
      if (!found.isFile() && !found.isSymbolicLink()) continue
      items.push({ path, found })
    }
  }
  await visit('')
  return items.sort((a, b) => (a.path < b.path ? -1 : 1))
}

const NO_TIME = new Date(0)

async function addAll(tar: Pack, folder: string, items: readonly Item[]): Promise<void> {
  try {
    for (const item of items) await add(tar, folder, item)
    tar.finalize()
  } catch (error) {
    tar.destroy(error as Error)
    throw error
  }
}

async function add(tar: Pack, folder: string, { path, found }: Item) {
  const source = join(folder, path)
  if (found.isSymbolicLink()) {
    const linkname = await readlink(source)
    const linkTarget = normalize(join(dirname(path), linkname))
    if (isAbsolute(linkname) || linkTarget === '..' || linkTarget.startsWith('../')) {
      throw new BundlePackError(`the link ${path} points outside of ${folder}`)
    }
    tar.entry({ name: path, type: 'symlink', linkname, mtime: NO_TIME })
    return
  }
  const { size } = found
  const mode = (found.mode & 0o100) === 0 ? 0o644 : 0o755
  const entry = tar.entry({ name: path, size, mode, mtime: NO_TIME })
  // A file that grows while it is read is cut to what the header says; one that shrinks is an error.
  await pipeline(size === 0 ? [] : createReadStream(source, { end: size - 1 }), entry)
}
