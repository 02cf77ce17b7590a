// Folder for the installation of shared packages: it has the inputs that determine them, and nothing else of the
// project can be read from it.
import { chmod, lstat, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { removeTree } from '../../sandbox/remove-tree.ts'

/** A place for an installation. */
export interface InstallPlace {
  /** All that it may read and write. */
  folder: string
  /** The project, or its substitute. */
  project: string
  /** Removes what was made for it alone. */
  remove(): Promise<void>
}

/** One for these files, by their paths from the project, in the folder of a run. */
export async function openStage(
  runFolder: string,
  ownProject: string,
  files: ReadonlyMap<string, Buffer>,
): Promise<InstallPlace> {
  const folder = join(runFolder, 'install')
  const project = join(folder, 'project')
  await mkdir(project, { recursive: true })
  for (const [path, bytes] of files) {
    await mkdir(dirname(join(project, path)), { recursive: true })
    await writeFile(join(project, path), bytes)
  }
  // The user of the installation goes through the run's folder; where no kernel keeps it out of the project, this does.
  const modes = [await setMode(runFolder, 0o711), await setMode(ownProject, 0o700)]
  return {
    folder,
    project,
    async remove() {
      await Promise.all([chmod(runFolder, modes[0] ?? 0o700), chmod(ownProject, modes[1] ?? 0o755)])
      await removeTree(folder)
    },
  }
}

/** The mode that it had. */
async function setMode(folder: string, mode: number): Promise<number> {
  const before = (await lstat(folder)).mode & 0o777
  await chmod(folder, mode)
  return before
}
