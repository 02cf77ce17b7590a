// Folder lock: reserves a folder for one process. The lock is a file that names its holder. A holder that
// ended is recognised at once; one in another container is checked by whether it still renews the file.
import { randomUUID } from 'node:crypto'
import {
  linkSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAlive, ownIdentity, type ProcessIdentity } from './process-identity.ts'

export interface LockHolder extends ProcessIdentity {
  host: string
  since: string
  /** Distinguishes two locks of one process. */
  token: string
}

export interface FolderLock {
  /** Gives it back. Safe to call twice. */
  release(): void
}

export class FolderLockedError extends Error {
  readonly code = 'LOCKED'
  readonly holder: LockHolder

  constructor(file: string, holder: LockHolder) {
    super(`locked by process ${holder.pid} on ${holder.host} since ${holder.since} (${file})`)
    this.name = 'FolderLockedError'
    this.holder = holder
  }
}

const RENEW_MS = 1000
/** A holder in another container that renews nothing for this long has ended. */
const RESPONSE_TIMEOUT_MS = 5000
const WATCH_MS = 250
const ATTEMPTS_MAX = 5

/**
 * Acquires the lock `name` of an existing folder. Rejects with FolderLockedError or an error of the file
 * system. `onLost` is called when another process acquires the lock, which only happens after this process
 * was paused for seconds.
 */
export async function lockFolder(
  folder: string,
  name: string,
  onLost: () => void,
  responseTimeoutMs = RESPONSE_TIMEOUT_MS,
): Promise<FolderLock> {
  const file = join(folder, name)
  const token = randomUUID()
  const holder: LockHolder = {
    ...ownIdentity(),
    host: hostname(),
    since: new Date().toISOString(),
    token,
  }
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    if (create(file, holder)) return renewed(file, token, onLost)
    const found = read(file)
    if (found === undefined) continue
    if (await isHolderAlive(file, found, responseTimeoutMs))
      throw new FolderLockedError(file, found)
    discard(file, found)
  }
  throw new Error(`the lock ${file} is repeatedly taken by other processes`)
}

/** Creates the file atomically with its content: a link never replaces an existing file. */
function create(file: string, holder: LockHolder): boolean {
  const draft = `${file}.${holder.token}`
  writeFileSync(draft, `${JSON.stringify(holder)}\n`, { mode: 0o644 })
  try {
    linkSync(draft, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

function read(file: string): LockHolder | undefined {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    return JSON.parse(text) as LockHolder
  } catch {
    // A file that a full disk truncated names no holder.
    return { pid: 0, startedTicks: '', space: '', host: 'unknown', since: 'unknown', token: '' }
  }
}

async function isHolderAlive(
  file: string,
  holder: LockHolder,
  timeoutMs: number,
): Promise<boolean> {
  const alive = isAlive(holder)
  if (alive !== undefined) return alive
  const before = renewedAt(file)
  for (let waited = 0; waited < timeoutMs; waited += WATCH_MS) {
    await sleep(WATCH_MS)
    if (renewedAt(file) !== before) return true
  }
  return false
}

function renewedAt(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs
}

/** Moves the file of an ended holder aside, unless another process has done so. */
function discard(file: string, gone: LockHolder): void {
  const aside = `${file}.${randomUUID()}`
  try {
    renameSync(file, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  try {
    if (read(aside)?.token !== gone.token) linkSync(aside, file)
  } catch {
    // A third process was faster; it holds the lock now.
  } finally {
    rmSync(aside, { force: true })
  }
}

function renewed(file: string, token: string, onLost: () => void): FolderLock {
  const timer = setInterval(() => {
    try {
      if (read(file)?.token === token) {
        const now = new Date()
        utimesSync(file, now, now)
        return
      }
    } catch {
      // A temporary failure of the disk does not end the lock.
      return
    }
    clearInterval(timer)
    onLost()
  }, RENEW_MS)
  timer.unref()
  return {
    release() {
      clearInterval(timer)
      if (read(file)?.token === token) rmSync(file, { force: true })
    },
  }
}
