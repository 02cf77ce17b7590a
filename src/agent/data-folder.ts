// Whether the agent can write to its data folder: checked at the start, and again after a failed write until it works.
import { randomUUID } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DATA_DIR_CODE, diskProblem } from '../process/disk-problem.ts'
import type { Log } from '../process/log.ts'
import { makeFolder } from '../process/make-folder.ts'
import { OwnProblem } from './own-problem.ts'

const LOOK_EVERY_MS = 15_000
/** A full disk accepts the name of a file, but no content. */
const PROBE_BYTES = 64 * 1024

/** DATA_DIR and the folder of runs in it; without it the folder for temporary files. */
export function createDataFolder(
  { dataDir, workRoot }: { dataDir: string | undefined; workRoot: string },
  log: Log,
): OwnProblem {
  return new OwnProblem(log, {
    signs: [DATA_DIR_CODE],
    async look() {
      const problem =
        (await problemIn(dataDir ?? tmpdir(), 0o711)) ?? (await problemIn(workRoot, 0o777))
      return problem === undefined ? undefined : { code: DATA_DIR_CODE, message: problem }
    },
    everyMs: LOOK_EVERY_MS,
    over: 'DATA_DIR can be written to again',
  })
}

async function problemIn(folder: string, mode: number): Promise<string | undefined> {
  const path = join(folder, `.probe-${randomUUID()}`)
  try {
    await makeFolder(folder, mode)
    await writeFile(path, Buffer.alloc(PROBE_BYTES, 1), { flag: 'wx', mode: 0o600 })
    return undefined
  } catch (error) {
    return diskProblem(error, folder)
  } finally {
    await rm(path, { force: true }).catch(() => undefined)
  }
}
