// The windows in which requests are counted, in the database that all processes share.
import type { Database } from '../../../database/database.ts'
import { returnPermits, sweepWindows, acquirePermits } from './queries.ts'
import type { WindowSource } from './rate-limit.ts'

const SWEEP_MS = 600_000

/** Windows of the database; now and then those that ended long ago are dropped. */
export function windowsOf(database: Database): WindowSource {
  let sweptAt = -Infinity
  return {
    take(ask) {
      if (performance.now() - sweptAt > SWEEP_MS) {
        sweptAt = performance.now()
        // Windows that are not deleted now are deleted the next time.
        sweepWindows(database).catch(() => {})
      }
      return acquirePermits(database, ask)
    },
    giveBack: (permits) => returnPermits(database, permits),
  }
}
