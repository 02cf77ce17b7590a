// Since when some platform process has been there without a pause, for agents to report to.
import { statement, type Connection } from './statement.ts'

const beat = statement<[number], { since: Date }>(
  'platform-beat',
  `insert into platform_pulse as p (since, last) values (clock_timestamp(), clock_timestamp())
   on conflict (one) do update set last = clock_timestamp(),
     since = case when p.last < clock_timestamp() - make_interval(secs => $1)
       then clock_timestamp() else p.since end
   returning since`,
)

/** Heartbeat of a platform process; after a pause of more than `pauseS` seconds a new period begins. */
export async function beatPulse(connection: Connection, pauseS: number): Promise<void> {
  await beat(connection, pauseS)
}
