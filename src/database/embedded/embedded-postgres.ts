// The database of a platform that was given none: a real PostgreSQL in DATA_DIR, a child of this process
// on a unix socket. Started, watched, started again when it dies, and stopped with us.
import { setTimeout as sleep } from 'node:timers/promises'
import { FolderLockedError, type FolderLock, lockFolder } from '../../process/folder-lock.ts'
import type { Log } from '../../process/log.ts'
import { makeFolderSync } from '../../process/make-folder.ts'
import type { DatabaseAddress } from '../database.ts'
import { EmbeddedPostgresError } from './embedded-postgres-error.ts'
import { findPostgresBinaries } from './binaries.ts'
import { POSTGRES_ROLE, postgresFolder, type PostgresFolder, prepareFolder } from './folder.ts'
import { endLeftover, PostgresProcess, type PostgresRun } from './process.ts'
import { choosePostgresUser } from './user.ts'

export interface EmbeddedPostgresOptions {
  dataDir: string
  log: Log
  signal?: AbortSignal
  /** Another process has locked the folder: nothing may be written any more, and the process should end. */
  onLockLost?: () => void
}

const DATABASE = 'vedette'
const LOCK = 'postgres.lock'
const RESTART_MS_MIN = 100
const RESTART_MS_MAX = 10_000
/** A run that lasted this long was a good one, and the next failure starts with a short wait again. */
const STEADY_MS = 30_000
/** Starts that may fail before the first that works. */
const FIRST_STARTS_MAX = 4

/** Address of the embedded database of `dataDir` while it runs. */
export function embeddedAddress(dataDir: string): DatabaseAddress {
  return addressOf(postgresFolder(dataDir))
}

function addressOf(folder: PostgresFolder): DatabaseAddress {
  return { socketFolder: folder.run, user: POSTGRES_ROLE, database: DATABASE }
}

/** Starts it. Rejects with EmbeddedPostgresError, or the signal's reason. */
export async function startEmbeddedPostgres(
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  const { dataDir, log } = options
  const binaries = findPostgresBinaries()
  makeFolder(dataDir)
  const lock = await lockDataFolder(dataDir, () => options.onLockLost?.())
  try {
    const folder = postgresFolder(dataDir)
    const user = choosePostgresUser(folder.root, binaries.postgres)
    await prepareFolder(folder, user, binaries)
    const run: PostgresRun = { binaries, user, folder, log }
    const supervised = new EmbeddedPostgres(run, lock)
    await supervised.start(options.signal ?? new AbortController().signal)
    log.info({ folder: folder.root, user: user.name }, 'embedded PostgreSQL is running')
    return supervised
  } catch (error) {
    lock.release()
    throw error
  }
}

function makeFolder(dataDir: string): void {
  try {
    // Others may pass through, as PostgreSQL's user has to; each thing inside guards itself.
    makeFolderSync(dataDir, 0o755)
  } catch (error) {
    throw folderError(`cannot create the folder ${dataDir} (DATA_DIR)`, error)
  }
}

async function lockDataFolder(dataDir: string, onLost: () => void): Promise<FolderLock> {
  try {
    return await lockFolder(dataDir, LOCK, onLost)
  } catch (error) {
    if (error instanceof FolderLockedError) {
      const message =
        `the folder ${dataDir} (DATA_DIR) is in use: ${error.message}; stop that process, give this ` +
        'another folder, or run several platforms on one PostgreSQL with DATABASE_URL'
      throw new EmbeddedPostgresError('LOCKED', message, { cause: error })
    }
    throw folderError(`cannot use the folder ${dataDir} (DATA_DIR)`, error)
  }
}

function folderError(what: string, cause: unknown): EmbeddedPostgresError {
  const { code, message } = cause as NodeJS.ErrnoException
  const kind = code === 'ENOSPC' ? 'START' : 'FOLDER'
  return new EmbeddedPostgresError(kind, `${what}: ${message}`, { cause })
}

/** A supervised PostgreSQL: it is restarted when it ends. */
export class EmbeddedPostgres {
  readonly address: DatabaseAddress
  readonly #run: PostgresRun
  readonly #lock: FolderLock
  readonly #stopping = new AbortController()
  #process: PostgresProcess | undefined
  #watch: Promise<void> = Promise.resolve()
  #stopped: Promise<void> | undefined
  /** How often it was running again after its end; starts that failed do not count. */
  restarts = 0

  constructor(run: PostgresRun, lock: FolderLock) {
    this.address = addressOf(run.folder)
    this.#run = run
    this.#lock = lock
  }

  /** Number of its main process; undefined between two runs. */
  get pid(): number | undefined {
    return this.#process?.end === undefined ? this.#process?.pid : undefined
  }

  async start(signal: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#begin(signal)
        break
      } catch (error) {
        signal.throwIfAborted()
        // The last sessions of one that was killed may hold on to its memory for a moment.
        if (attempt >= FIRST_STARTS_MAX) throw error
        await sleep(RESTART_MS_MIN * 2 ** attempt, undefined, { signal })
      }
    }
    this.#watch = this.#keepRunning()
  }

  /** Starts a run, and stops it again where it does not become ready. */
  async #begin(signal: AbortSignal): Promise<void> {
    await endLeftover(this.#run.folder, this.#run.log)
    const run = new PostgresProcess(this.#run)
    this.#process = run
    try {
      await run.ready(DATABASE, signal)
    } catch (error) {
      await run.stop()
      throw error
    }
  }

  async #keepRunning(): Promise<void> {
    const { log } = this.#run
    const { signal } = this.#stopping
    let waitMs = RESTART_MS_MIN
    let since = performance.now()
    while (!signal.aborted) {
      const run = this.#process as PostgresProcess
      const end = await run.ended
      if (signal.aborted) return
      if (performance.now() - since > STEADY_MS) waitMs = RESTART_MS_MIN
      log.error(
        { ...end, finalMessage: run.finalMessage, waitMs },
        'PostgreSQL ended; starting it again',
      )
      const isStopped = await sleep(waitMs, false, { signal }).catch(() => true)
      if (isStopped) return
      waitMs = Math.min(waitMs * 2, RESTART_MS_MAX)
      since = performance.now()
      try {
        await this.#begin(signal)
        this.restarts++
        // As loud as its end, for readers of that line alone.
        log.warn({ pid: this.pid }, 'PostgreSQL is running again')
      } catch (error) {
        if (signal.aborted) return
        const isKnown = error instanceof EmbeddedPostgresError
        log.error(isKnown ? { reason: error.message } : { err: error }, 'PostgreSQL did not start')
      }
    }
  }

  /** Ends it and gives its folder back. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    this.#stopping.abort(new Error('stopping'))
    await this.#process?.stop()
    await this.#watch
    // A run that began in the very moment of the stop.
    await this.#process?.stop()
    this.#lock.release()
  }
}
