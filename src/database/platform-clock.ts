// The platform's time: that of its database, so that several processes on machines with clocks of their
// own agree on slots.
import type { Database } from './database.ts'

/** A clock that follows the database's. */
export interface PlatformClock {
  /** Milliseconds since the Unix epoch. */
  now(): number
  /**
   * Compares with the database, and moves where the difference is more than the time that asking took explains.
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

/** The machine's clock as it was at the start, which nobody can set. */
function machineMs(): number {
  return performance.timeOrigin + performance.now()
}
