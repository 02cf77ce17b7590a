// The platform's time: that of its database, so that several processes on machines with clocks of their
// own agree on slots.
import type { Database } from './database.ts'

/** A clock that follows the database's. */
export interface PlatformClock {
  /** Milliseconds since the Unix epoch. */
  now(): number
  /**
   * Compares the clock with the database; adjusts it by a difference larger than the duration of the query.
   * To be called now and then. Rejects when the database is away.
   */
  follow(): Promise<void>
}

/** Makes a clock; until it has followed once it is the machine's. */
export function createPlatformClock(database: Database): PlatformClock {
  let aheadMs = 0
  return {
    now: () => machineMs() + aheadMs,
    async follow() {
      const before = machineMs()
      const [row] = await database.query<{ now: number }>(
        `select (extract(epoch from clock_timestamp()) * 1000)::double precision as now`,
      )
      if (row === undefined) return
      // The database read its clock at some moment in between. A slow answer proves little.
      const leastMs = row.now - machineMs()
      const mostMs = row.now - before
      if (aheadMs < leastMs || aheadMs > mostMs) aheadMs = (leastMs + mostMs) / 2
    },
  }
}

/** A monotonic clock that starts at the machine's time. */
function machineMs(): number {
  return performance.timeOrigin + performance.now()
}
