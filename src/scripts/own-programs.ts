// Programs of ours that work in the processes of a run: its reporter, what watches it, and what starts its scripts.
import { copyFile, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PROGRAMS = fileURLToPath(new URL('./in-run', import.meta.url))
/** Of this name, since Playwright looks for the place of an error in files of all other folders. */
const FOLDER = '.vedette/node_modules'

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
