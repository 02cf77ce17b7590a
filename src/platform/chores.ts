// What has to be done now and then, by one of all platform processes: agents that fell silent, slots
// that nobody reported, alerts that time alone moves, retention.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../host/log.ts'
import { releaseChore, takeChore } from '../store/chores.ts'
import type { Database } from '../store/database.ts'
import { isUnavailable } from '../store/database-failure.ts'

/** Something to be done again and again. */
export interface Chore {
  /** Known to the database; must not change between versions. */
  name: string
  everyMs: number
  /** Longest that one turn may take; then another process may begin it. */
  leaseMs: number
  /** Does it once. What it throws is logged, and it is tried again at the next turn. */
  run(signal: AbortSignal): Promise<void>
}

/** What chores need. */
export interface ChoreOptions {
  database: Database
  log: Log
  signal: AbortSignal
}

const LOOK_MS_MIN = 500
const LOOK_MS_MAX = 10_000

/** Does the chores until the signal fires; resolves when none is under way any more. Never rejects. */
export async function doChores(chores: readonly Chore[], options: ChoreOptions): Promise<void> {
  await Promise.all(chores.map((chore) => repeat(chore, options)))
}

async function repeat(chore: Chore, options: ChoreOptions): Promise<void> {
  const { signal } = options
  const lookMs = Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, chore.everyMs / 2))
  while (!signal.aborted) {
    await doOnce(chore, options)
    // Jitter keeps several processes from asking in step.
    await sleep(lookMs * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => undefined)
  }
}

/** Does a chore if it is due and free. Never rejects. */
export async function doOnce(chore: Chore, { database, log, signal }: ChoreOptions): Promise<void> {
  try {
    if (!(await takeChore(database, chore))) return
    let done = false
    try {
      await chore.run(AbortSignal.any([signal, AbortSignal.timeout(chore.leaseMs)]))
      done = true
    } finally {
      await releaseChore(database, chore.name, done)
    }
  } catch (error) {
    if (signal.aborted) return
    if (isUnavailable(error)) log.debug({ err: error, chore: chore.name }, 'a chore has to wait')
    else log.error({ err: error, chore: chore.name }, 'a chore failed and is tried again')
  }
}
