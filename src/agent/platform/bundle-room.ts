// Keeps the folder of code bundles within its bound: those that were not used for the longest go first.
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** What was used within this time may be in somebody's hands still, and stays whatever it costs. */
const IN_USE_MS = 600_000
/** What a download has left that did not come to its end. */
const PART_MS_MAX = 7_200_000

interface Kept {
  path: string
  bytes: number
  usedAt: number
}

/** Removes files until those that stay have at most `bytesMax` bytes. Never rejects. */
export async function makeRoom(folder: string, bytesMax: number, now = Date.now()): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  const kept: Kept[] = []
  for (const name of names) {
    const path = join(folder, name)
    const found = await stat(path).catch(() => undefined)
    if (found?.isFile() !== true) continue
    if (name.endsWith('.part')) {
      if (now - found.mtimeMs > PART_MS_MAX) await rm(path, { force: true }).catch(() => undefined)
    } else if (name.endsWith('.tar.gz')) {
      kept.push({ path, bytes: found.size, usedAt: found.mtimeMs })
    }
  }
  let bytes = kept.reduce((sum, one) => sum + one.bytes, 0)
  for (const one of kept.toSorted((a, b) => a.usedAt - b.usedAt)) {
    if (bytes <= bytesMax || now - one.usedAt < IN_USE_MS) return
    await rm(one.path, { force: true }).catch(() => undefined)
    bytes -= one.bytes
  }
}
