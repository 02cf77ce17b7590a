// Stores files of runs in a folder that the caller of a command names.
import { chown, copyFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { diskMessage } from '../process/disk-problem.ts'
import type { FileStaging } from '../agent/sink.ts'
import type { Result } from '../contract/result.ts'
import { LIMITS } from '../contract/versions.ts'
import { makeFolder } from '../process/make-folder.ts'

/** Stores the files of one run in a folder, which is created with the first file. */
export interface StoredFiles extends FileStaging {
  /** Removes files of earlier attempts that the result does not name. Never rejects. */
  settle(result: Pick<Result, 'artifacts'>): Promise<void>
}

/** Stores the files of a run in this folder. */
export function storedFilesIn(folder: string): StoredFiles {
  const staged = new Set<string>()
  return {
    bytesMax: () => LIMITS.artifactBytesMax,
    async stage(path, { name, bytes }) {
      const target = join(folder, name)
      try {
        await makeFolder(folder, 0o777)
        await copyFile(path, target)
        // The copy would belong to the run's user, like the original.
        await chown(target, process.getuid?.() ?? -1, process.getgid?.() ?? -1)
        staged.add(name)
        return undefined
      } catch (error) {
        // A partial file would look complete.
        await rm(target, { force: true }).catch(() => {})
        return `it has ${bytes} bytes, and ${diskMessage(error)}`
      }
    },
    async settle({ artifacts }) {
      for (const { name } of artifacts) staged.delete(name)
      for (const name of staged) await rm(join(folder, name), { force: true }).catch(() => {})
    },
  }
}

/** The folder of a monitor's files in `output`: its id as the name of a file. */
export function folderOf(output: string, id: string): string {
  const name = encodeURIComponent(id.toWellFormed()).replace(/^\.+$/, (dots) =>
    '%2E'.repeat(dots.length),
  )
  return join(output, name.slice(0, NAME_CHARS_MAX))
}

const NAME_CHARS_MAX = 255
