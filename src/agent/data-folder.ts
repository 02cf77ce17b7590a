// Whether the agent can write to its data folder: checked at the start, and again after a failed write until it
// works. One warning and one line when it is over, however many runs suffer from it meanwhile.
import { randomUUID } from 'node:crypto'
import { open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Result } from '../contract/result.ts'
import type { Log } from '../process/log.ts'
import { makeFolder } from '../process/make-folder.ts'
import { DATA_DIR_CODE, diskProblem } from '../process/disk-problem.ts'
import type { ResultSink } from './sink.ts'

export interface DataFolder {
  /** Tries it now. Never rejects. */
  look(): Promise<void>
  /** A write failed; checks whether all writes fail. */
  failed(error: unknown): void
  /** The sink, whose results, warnings and facts include the folder. */
  watched(sink: ResultSink): ResultSink
  /** Tries no more. */
  stop(): void
}

const LOOK_EVERY_MS = 15_000
/** A full disk accepts the name of a file, but no content. */
const PROBE_BYTES = 64 * 1024

/** DATA_DIR and the folder of runs in it; without it the folder for temporary files. */
export function createDataFolder(
  { dataDir, workRoot }: { dataDir: string | undefined; workRoot: string },
  log: Log,
  lookEveryMs = LOOK_EVERY_MS,
): DataFolder {
  let standing: { problem: string; since: Date } | undefined
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> | undefined
  let isStopped = false

  const set = (problem: string | undefined) => {
    if (problem === undefined && standing !== undefined) {
      log.info({ since: standing.since.toISOString() }, 'DATA_DIR can be written to again')
    }
    if (problem !== undefined && standing === undefined) {
      log.warn({ code: DATA_DIR_CODE }, problem)
    }
    standing = problem === undefined ? undefined : { problem, since: standing?.since ?? new Date() }
    clearTimeout(timer)
    if (standing !== undefined && !isStopped)
      timer = setTimeout(() => void data.look(), lookEveryMs).unref()
  }
  const data: DataFolder = {
    look() {
      looking ??= problemOf(dataDir ?? tmpdir(), workRoot)
        .then(set)
        .finally(() => (looking = undefined))
      return looking
    },
    failed(error) {
      const problem = diskProblem(error, dataDir ?? tmpdir())
      if (problem === undefined) log.warn({ err: error }, 'slots cannot be kept for a restart')
      else set(problem)
    },
    watched: (sink) => ({
      ...sink,
      deliver(result: Result) {
        const code = DATA_DIR_CODE
        if (standing === undefined && result.failures.some((one) => one.code === code))
          void data.look()
        return sink.deliver(result)
      },
      warnings() {
        const own = standing && [`${standing.problem} (${DATA_DIR_CODE})`]
        return [...(own ?? []), ...(sink.warnings?.() ?? [])]
      },
      facts: () => ({
        dataDir:
          standing === undefined
            ? null
            : { problem: DATA_DIR_CODE, since: standing.since.toISOString() },
        ...sink.facts?.(),
      }),
    }),
    stop() {
      isStopped = true
      clearTimeout(timer)
    },
  }
  return data
}

async function problemOf(folder: string, workRoot: string): Promise<string | undefined> {
  return (await problemIn(folder, 0o711)) ?? (await problemIn(workRoot, 0o777))
}

async function problemIn(folder: string, mode: number): Promise<string | undefined> {
  const path = join(folder, `.probe-${randomUUID()}`)
  try {
    await makeFolder(folder, mode)
    const file = await open(path, 'wx', 0o600)
    try {
      await file.writeFile(Buffer.alloc(PROBE_BYTES, 1))
    } finally {
      await file.close()
      await rm(path, { force: true })
    }
    return undefined
  } catch (error) {
    return diskProblem(error, folder)
  }
}
