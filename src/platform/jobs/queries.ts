// Which of several processes runs a background job that is due. A lease that its holder renews, not a lock: no
// connection is occupied meanwhile, and where the holder dies, another process goes on soon. The table keeps its
// former name.
import { execute, queryRow, sql } from '../../database/sql.ts'

/** A job that is leased to this process. */
export interface JobLease {
  name: string
  /** The end of the lease as the database stores it, known only to its holder: proof of ownership. */
  until: string
}

/** Leases the job for `leaseMs` when it is due and not leased; undefined otherwise. */
export const acquireLease = queryRow(
  (backgroundJob: { name: string; everyMs: number; leaseMs: number }) => sql<JobLease>('job-take')`
      insert into chores as c (name, leased_until)
      values (${backgroundJob.name}, clock_timestamp() + make_interval(secs => ${backgroundJob.leaseMs}::double precision / 1000))
      on conflict (name) do update set leased_until = excluded.leased_until
      where c.leased_until <= clock_timestamp()
        and c.ran_at <= clock_timestamp() - make_interval(secs => ${backgroundJob.everyMs}::double precision / 1000)
      returning name, leased_until::text as until`,
)

/** Extends the lease; undefined when another process holds the job. */
export const renewLease = queryRow(
  ({ name, until }: JobLease, leaseMs: number) => sql<JobLease>('job-renew')`
      update chores
      set leased_until = clock_timestamp() + make_interval(secs => ${leaseMs}::double precision / 1000)
      where name = ${name} and leased_until = ${until}::timestamptz
      returning name, leased_until::text as until`,
)

/** Ends the lease; when the job is not done, it is due again at once. */
export const releaseLease = execute(
  ({ name, until }: JobLease, done: boolean) => sql('job-release')`
      update chores set leased_until = '-infinity',
        ran_at = case when ${done} then date_trunc('milliseconds', clock_timestamp()) else ran_at end
      where name = ${name} and leased_until = ${until}::timestamptz`,
)
