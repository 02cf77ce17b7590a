// Looks keys up in the database, and notes now and then that they were used.
import type { Log } from '../host/log.ts'
import { findActiveKey, touchApiKeys } from '../store/api-keys.ts'
import type { Database } from '../store/database.ts'
import type { KeySource, KnownKey } from './auth.ts'

const TOUCH_MS = 10_000
/** Keys that are noted at once; the others are noted when they are used again. */
const TOUCHED_MAX = 1000

/** Keys of a database. */
export interface KnownKeys extends KeySource {
  /** Notes what was used since the last time; never rejects. */
  flush(): Promise<void>
  /** Ends the noting. */
  close(): void
}

/** Makes the source of keys; `close` ends its timer. */
export function createKnownKeys(database: Database, log: Log): KnownKeys {
  const used = new Set<string>()
  const flush = async () => {
    if (used.size === 0) return
    const ids = [...used]
    used.clear()
    try {
      await touchApiKeys(database, ids)
    } catch (error) {
      log.debug({ err: error }, 'the last use of keys was not noted')
    }
  }
  const timer = setInterval(() => void flush(), TOUCH_MS)
  timer.unref()
  return {
    async find(hash: Buffer): Promise<KnownKey | undefined> {
      const row = await findActiveKey(database, hash)
      if (row === undefined) return undefined
      if (used.size < TOUCHED_MAX) used.add(row.id)
      return {
        id: row.id,
        name: row.name,
        accountId: row.account_id,
        role: row.role,
        hash: row.hash,
      }
    },
    flush,
    close: () => clearInterval(timer),
  }
}
