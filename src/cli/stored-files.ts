// Files of runs that a command keeps for whoever called it, in a folder.
import { chown, copyFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { diskMessage } from '../agent/delivery/spool/disk-message.ts'
import type { FileKeep } from '../agent/sink.ts'
import type { Result } from '../contract/result.ts'
import { LIMITS } from '../contract/versions.ts'
import { makeFolder } from '../process/make-folder.ts'

/** Keeps the files of one run in a folder, which is made for the first of them. */
export interface KeptFiles extends FileKeep {
  /** Removes what earlier attempts have left there and the result does not name. Never rejects. */
  settle(result: Pick<Result, 'artifacts'>): Promise<void>
}

/** Keeps the files of a run in this folder. */
export function keepIn(folder: string): KeptFiles {
  const staged = new Set<string>()
  return {
    bytesMax: () => LIMITS.artifactBytesMax,
    async stage(path, { name, bytes }) {
      const kept = join(folder, name)
      try {
        await makeFolder(folder, 0o777)
        await copyFile(path, kept)
        // A copy belongs to whom the original does, which is the run's user.
        await chown(kept, process.getuid?.() ?? -1, process.getgid?.() ?? -1)
        staged.add(name)
        return undefined
      } catch (error) {
        // Half a file would pass for it.
        await rm(kept, { force: true }).catch(() => {})
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
