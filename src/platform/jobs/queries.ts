// Which of several processes runs a background job that is due. A lease that its holder renews, not a lock: no
// connection is occupied meanwhile, and where the holder dies, another process goes on soon.
import { statement, type Connection } from '../../database/statement.ts'

/** A job that is leased to this process. */
export interface JobLease {
  name: string
  /** The end of the lease as the database stores it, known only to its holder: proof of ownership. */
  until: string
}

const take = statement<[string, number, number], JobLease>(
  'chore-take',
  `insert into chores as c (name, leased_until)
   values ($1, clock_timestamp() + make_interval(secs => $3::double precision / 1000))
   on conflict (name) do update set leased_until = excluded.leased_until
   where c.leased_until <= clock_timestamp()
     and c.ran_at <= clock_timestamp() - make_interval(secs => $2::double precision / 1000)
   returning name, leased_until::text as until`,
)

/** Leases the job for `leaseMs` when it is due and not leased; undefined otherwise. */
export async function acquireLease(
  connection: Connection,
  backgroundJob: { name: string; everyMs: number; leaseMs: number },
): Promise<JobLease | undefined> {
  return (
    await take(connection, backgroundJob.name, backgroundJob.everyMs, backgroundJob.leaseMs)
  )[0]
}

const renew = statement<[string, string, number], JobLease>(
  'chore-renew',
  `update chores
   set leased_until = clock_timestamp() + make_interval(secs => $3::double precision / 1000)
   where name = $1 and leased_until = $2::timestamptz
   returning name, leased_until::text as until`,
)

/** Extends the lease; undefined when another process holds the job. */
export async function renewLease(
  connection: Connection,
  { name, until }: JobLease,
  leaseMs: number,
): Promise<JobLease | undefined> {
  return (await renew(connection, name, until, leaseMs))[0]
}

const release = statement<[string, string, boolean], never>(
  'chore-release',
  `update chores set leased_until = '-infinity',
     ran_at = case when $3 then date_trunc('milliseconds', clock_timestamp()) else ran_at end
   where name = $1 and leased_until = $2::timestamptz`,
)

/** Ends the lease; when the job is not done, it is due again at once. */
export async function releaseLease(
  connection: Connection,
  { name, until }: JobLease,
  done: boolean,
): Promise<void> {
  await release(connection, name, until, done)
}
