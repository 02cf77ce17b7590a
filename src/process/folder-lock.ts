// Keeps a folder for one process. The lock is a file that names its holder; a holder that is gone is
// recognised at once, and one that cannot be seen (another container) by whether it still renews the file.
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

/** Who holds a lock. */
export interface LockHolder extends ProcessIdentity {
  host: string
  since: string
  /** Distinguishes two locks of one process. */
  token: string
}

/** A lock that is held. */
export interface FolderLock {
  /** Gives it back. Safe to call twice. */
  release(): void
}

/** Somebody else holds the lock. */
export class FolderLockedError extends Error {
  readonly code = 'LOCKED'
  readonly holder: LockHolder

  constructor(file: string, holder: LockHolder) {
    super(`process ${holder.pid} on ${holder.host} has held it since ${holder.since} (${file})`)
    this.name = 'FolderLockedError'
    this.holder = holder
  }
}

/** How often a holder renews its file. */
const RENEW_MS = 1000
/** A holder that cannot be seen and renews nothing for this long is gone. */
const RESPONSE_TIMEOUT_MS = 5000
const WATCH_MS = 250
const ATTEMPTS_MAX = 5

/**
 * Takes the lock `name` of a folder that exists. Rejects with FolderLockedError, or with what the file
 * system throws. `onLost` is called when somebody takes the lock away, which only happens after this
 * process stood still for seconds.
 */
export async function lockFolder(
  folder: string,
  name: string,
  onLost: () => void,
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
    if (await isHeld(file, found)) throw new FolderLockedError(file, found)
    discard(file, found)
  }
  throw new Error(`the lock ${file} keeps changing hands`)
}

/** Makes the file with its whole content or not at all: a link never replaces what is there. */
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
    // A file that a full disk cut short names nobody.
    return { pid: 0, startedTicks: '', space: '', host: 'unknown', since: 'unknown', token: '' }
  }
}

async function isHeld(file: string, holder: LockHolder): Promise<boolean> {
  const alive = isAlive(holder)
  if (alive !== undefined) return alive
  const before = renewedAt(file)
  for (let waited = 0; waited < RESPONSE_TIMEOUT_MS; waited += WATCH_MS) {
    await sleep(WATCH_MS)
    if (renewedAt(file) !== before) return true
  }
  return false
}

function renewedAt(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs
}

/** Moves the file of a holder that is gone out of the way, unless somebody did so in the meantime. */
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
    // A third process was quicker; it holds the lock now.
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
      // A disk that fails for a moment takes no lock away.
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
