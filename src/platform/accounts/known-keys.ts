// Looks keys up in the database, and notes now and then that they were used.
import type { Log } from '../../process/log.ts'
import { findActiveKey, touchApiKeys } from './queries/api-keys.ts'
import type { Database } from '../../database/database.ts'
import { findLocationKey, touchLocationKeys } from '../../database/known-location-keys.ts'
import type { HashedKey, KeySource, KnownKey, KnownLocationKey } from '../http/key-ring.ts'

const TOUCH_MS = 10_000
/** Keys that are noted at once; the others are noted when they are used again. */
const TOUCHED_MAX = 1000

/** Keys of a database. */
export interface KnownKeys<Key extends HashedKey> extends KeySource<Key> {
  /** Records the use of keys since the last time; never rejects. */
  flush(): Promise<void>
  /** Ends the noting. */
  close(): void
}

/** The keys of the public API; `close` ends a timer. */
export function createKnownKeys(database: Database, log: Log): KnownKeys<KnownKey> {
  const find = async (hash: Buffer): Promise<KnownKey | undefined> => {
    const row = await findActiveKey(database, hash)
    if (row === undefined) return undefined
    const { id, name, account_id: accountId, role } = row
    return { id, name, accountId, role, hash: row.hash }
  }
  return noting({ find }, (ids) => touchApiKeys(database, ids), log)
}

/** The keys of locations; `close` ends a timer. */
export function createKnownLocationKeys(database: Database, log: Log): KnownKeys<KnownLocationKey> {
  const find = async (hash: Buffer): Promise<KnownLocationKey | undefined> => {
    const row = await findLocationKey(database, hash)
    if (row === undefined || row.revoked) return undefined
    const { id, location_id: locationId, account_id: accountId, slug_name: slugName } = row
    return { id, locationId, accountId, slugName, hash: row.hash, agents: row.agents }
  }
  return noting({ find }, (ids) => touchLocationKeys(database, ids), log)
}

function noting<Key extends HashedKey>(
  source: KeySource<Key>,
  touch: (ids: readonly string[]) => Promise<void>,
  log: Log,
): KnownKeys<Key> {
  const used = new Set<string>()
  const flush = async () => {
    if (used.size === 0) return
    const ids = [...used]
    used.clear()
    try {
      await touch(ids)
    } catch (error) {
      log.debug({ err: error }, 'the last use of keys was not noted')
    }
  }
  const timer = setInterval(() => void flush(), TOUCH_MS)
  timer.unref()
  return {
    async find(hash: Buffer): Promise<Key | undefined> {
      const key = await source.find(hash)
      if (key !== undefined && used.size < TOUCHED_MAX) used.add(key.id)
      return key
    },
    flush,
    close: () => clearInterval(timer),
  }
}
