// Removes a folder that user code has filled: of any depth, size and permissions, and never following a link out
// of it.
import { randomBytes } from 'node:crypto'
import { chmod, opendir, rename, rm, rmdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'

/** Removes a folder in which nothing runs any more. One that is gone already is no error. */
export async function removeTree(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true })
  } catch {
    await removeObstinate(folder)
  }
}

/** Takes back what was forbidden, and moves folders up, so that no path is longer than the system takes. */
async function removeObstinate(folder: string): Promise<void> {
  const waiting = [folder]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const inside = await emptied(next, folder)
    if (inside.length === 0) await rmdir(next)
    else waiting.push(next, ...inside)
  }
}

/** Removes the files of a folder; its folders now stand below `top`, as returned. */
async function emptied(next: string, top: string): Promise<string[]> {
  await chmod(next, 0o700)
  const inside: string[] = []
  for await (const entry of await opendir(next, { bufferSize: 256 })) {
    const path = join(next, entry.name)
    if (!entry.isDirectory()) await unlink(path)
    else if (next === top) inside.push(path)
    else inside.push(await moved(path, top))
  }
  return inside
}

async function moved(path: string, top: string): Promise<string> {
  // Only who may write to a folder may move it.
  await chmod(path, 0o700)
  const target = join(top, `removed-${randomBytes(12).toString('hex')}`)
  await rename(path, target)
  return target
}
