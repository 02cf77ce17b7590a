// Programs of ours that work in the processes of a run: its reporter, what watches it, and what starts its scripts.
import { copyFile, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PROGRAMS = fileURLToPath(new URL('./in-run', import.meta.url))
/**
 * Files of a package, since Playwright looks for the place of an error in all other files. A folder of the package is
 * needed: Node.js 24.13 never finishes colouring a stack with a file that lies in `node_modules` itself.
 */
const FOLDER = '.vedette/node_modules/vedette'

/** Copies them into the folder of a run, whose user need not be able to reach the place where this code lies. */
export async function copyOwnPrograms(folder: string): Promise<void> {
  await mkdir(join(folder, FOLDER), { recursive: true })
  for (const name of await readdir(PROGRAMS)) {
    await copyFile(join(PROGRAMS, name), ownProgram(folder, name))
  }
}

/** The path of one of them in the folder of a run. */
export function ownProgram(folder: string, name: string): string {
  return join(folder, FOLDER, name)
}
