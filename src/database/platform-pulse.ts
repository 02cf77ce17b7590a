// Since when some platform process has been there without a pause, for agents to report to.
import { sql } from './sql.ts'
import type { Queryable } from './database.ts'

/** Heartbeat of a platform process; after a pause of more than `pauseS` seconds a new period begins. */
export async function beatPulse(connection: Queryable, pauseS: number): Promise<void> {
  await connection.query(sql('platform-beat')`
      insert into platform_pulse as p (since, last) values (clock_timestamp(), clock_timestamp())
      on conflict (one) do update set last = clock_timestamp(),
        since = case when p.last < clock_timestamp() - make_interval(secs => ${pauseS})
          then clock_timestamp() else p.since end
      returning since`)
}
