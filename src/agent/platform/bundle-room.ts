// Keeps the folder of code bundles within its bound: removes the least recently used first.
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** A bundle that was used within this time may still be in use, and always stays. */
const IN_USE_MS = 600_000
/** A file of an interrupted download. */
const PART_MS_MAX = 7_200_000

interface CachedBundle {
  path: string
  bytes: number
  usedAt: number
}

/** Removes files until those that stay have at most `bytesMax` bytes. Never rejects. */
export async function makeRoom(folder: string, bytesMax: number, now = Date.now()): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  const bundles: CachedBundle[] = []
  for (const name of names) {
    const path = join(folder, name)
    const found = await stat(path).catch(() => undefined)
    if (found?.isFile() !== true) continue
    if (name.endsWith('.part')) {
      if (now - found.mtimeMs > PART_MS_MAX) await rm(path, { force: true }).catch(() => undefined)
    } else if (name.endsWith('.tar.gz')) {
      bundles.push({ path, bytes: found.size, usedAt: found.mtimeMs })
    }
  }
  let bytes = bundles.reduce((sum, one) => sum + one.bytes, 0)
  for (const one of bundles.toSorted((a, b) => a.usedAt - b.usedAt)) {
    if (bytes <= bytesMax || now - one.usedAt < IN_USE_MS) return
    await rm(one.path, { force: true }).catch(() => undefined)
    bytes -= one.bytes
  }
}
