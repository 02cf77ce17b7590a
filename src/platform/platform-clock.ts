// The platform's time: that of its database, so that several processes on machines with clocks of their
// own agree on slots.
import type { Database } from '../store/database.ts'

/** A clock that follows the database's. */
export interface PlatformClock {
  /** Milliseconds since the Unix epoch. */
  now(): number
  /** Compares with the database; to be called now and then. Rejects when the database is away. */
  follow(): Promise<void>
}

/** Makes a clock; until it has followed once it is the machine's. */
export function createPlatformClock(database: Database): PlatformClock {
  let aheadMs = 0
  return {
    now: () => performance.timeOrigin + performance.now() + aheadMs,
    async follow() {
      const before = performance.now()
      const [row] = await database.query<{ now: number }>(
        `select (extract(epoch from clock_timestamp()) * 1000)::double precision as now`,
      )
      const between = (before + performance.now()) / 2
      if (row !== undefined) aheadMs = row.now - (performance.timeOrigin + between)
    },
  }
}
