// Who of several processes does a chore that is due. A lease, not a lock: no connection is held while
// it is done, and a process that dies keeps nobody from it for long.
import { statement, type Connection } from './statement.ts'

const take = statement<[string, number, number], { name: string }>(
  'chore-take',
  `insert into chores as c (name, leased_until)
   values ($1, clock_timestamp() + make_interval(secs => $3::double precision / 1000))
   on conflict (name) do update set leased_until = excluded.leased_until
   where c.leased_until <= clock_timestamp()
     and c.ran_at <= clock_timestamp() - make_interval(secs => $2::double precision / 1000)
   returning name`,
)

/** Takes the chore for `leaseMs` when it is due and nobody has it; whether it was taken. */
export async function takeChore(
  connection: Connection,
  chore: { name: string; everyMs: number; leaseMs: number },
): Promise<boolean> {
  return (await take(connection, chore.name, chore.everyMs, chore.leaseMs)).length > 0
}

const release = statement<[string, boolean], never>(
  'chore-release',
  `update chores set leased_until = '-infinity',
     ran_at = case when $2 then clock_timestamp() else ran_at end
   where name = $1`,
)

/** Gives a chore back; when it was not done, it is due again at once. */
export async function releaseChore(
  connection: Connection,
  name: string,
  done: boolean,
): Promise<void> {
  await release(connection, name, done)
}
