// Makes a folder and those above it that are missing. Node's own recursive mkdir never ends where a parent is
// there and the system says ENOENT all the same, as below /proc.
import { mkdirSync, statSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Resolves when the folder exists; created ones get `mode`. Rejects with the system's error. */
export async function makeFolder(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode })
  } catch (error) {
    const parent = dirname(path)
    if (isThere(error) && (await stat(path)).isDirectory()) return
    if (!isMissing(error) || (await exists(parent))) throw error
    await makeFolder(parent, mode)
    await makeFolder(path, mode)
  }
}

/** As `makeFolder`, before anything else runs. */
export function makeFolderSync(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    const parent = dirname(path)
    if (isThere(error) && statSync(path).isDirectory()) return
    if (!isMissing(error) || statSync(parent, { throwIfNoEntry: false }) !== undefined) throw error
    makeFolderSync(parent, mode)
    makeFolderSync(path, mode)
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

function isThere(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EEXIST'
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT'
}
