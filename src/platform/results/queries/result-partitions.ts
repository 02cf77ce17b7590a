// The partitions of `results`, one for each day (UTC): made ahead of time, and dropped as a whole, which
// costs nothing, when retention ends.
import type { Database, Queryable } from '../../../database/database.ts'
import { queryRows, queryValues, sql } from '../../../database/sql.ts'

const DAY_MS = 86_400_000
/** Key of the advisory lock for changing partitions; an otherwise unused constant. */
const LOCK = 0x70_61_72_74
/** Changing partitions and statements on `results` block each other; this limits the wait. */
const LOCK_WAIT_MS = 2_000

/** The start of the day of an instant. */
export function startOfDay(instantMs: number): number {
  return Math.floor(instantMs / DAY_MS) * DAY_MS
}

/** The partition of the day that starts at `dayMs`: results_YYYYMMDD. */
export function partitionName(dayMs: number): string {
  return `results_${new Date(dayMs).toISOString().slice(0, 10).replaceAll('-', '')}`
}

const listPartitions = queryRows(
  () => sql<{ name: string; isPending: boolean }>('result-partitions')`
   select c.relname as name, i.inhdetachpending as "isPending"
   from pg_inherits i join pg_class c on c.oid = i.inhrelid
   where i.inhparent = 'results'::regclass order by c.relname`,
)

/** Starts of the days that have a partition, oldest first. */
export async function partitionDays(connection: Queryable): Promise<number[]> {
  return (await listPartitions(connection)).map(({ name }) => dayOf(name))
}

function dayOf(name: string): number {
  return Date.parse(name.replace(/^results_(\d{4})(\d\d)(\d\d)$/, '$1-$2-$3'))
}

/**
 * Makes the partitions that are missing for the days of [fromMs, toMs] and answers with their days. Any
 * number of processes may call it at once. A partition is made on its own and then attached, which
 * takes no lock that a statement on `results` would have to wait for.
 */
export async function ensurePartitions(
  database: Database,
  fromMs: number,
  toMs: number,
): Promise<number[]> {
  const wanted: number[] = []
  for (let day = startOfDay(fromMs); day <= toMs; day += DAY_MS) wanted.push(day)
  const missing = async (connection: Queryable) => {
    const there = new Set(await partitionDays(connection))
    return wanted.filter((day) => !there.has(day))
  }
  if ((await missing(database)).length === 0) return []
  return database.transaction(async (tx) => {
    await tx.query(`select pg_advisory_xact_lock(${LOCK})`)
    const days = await missing(tx)
    if (days.length > 0) await tx.query(days.map(partitionSql).join(';\n'))
    return days
  })
}

function partitionSql(day: number): string {
  const name = partitionName(day)
  const [from, to] = [day, day + DAY_MS].map((instant) => new Date(instant).toISOString())
  return `create table ${name} (like results including defaults including constraints);
    alter table results attach partition ${name} for values from ('${from}') to ('${to}')`
}

/**
 * Drops the partitions of days that ended before `beforeMs`. What cannot be dropped now, because a long
 * statement reads it, is dropped the next time.
 */
export async function dropPartitions(database: Database, beforeMs: number): Promise<void> {
  const isOld = (name: string) => dayOf(name) + DAY_MS <= beforeMs
  for (const { name, isPending } of await listPartitions(database)) {
    if (!isOld(name)) continue
    // Not in a transaction: PostgreSQL uses two of its own for detaching concurrently.
    const how = isPending ? 'finalize' : 'concurrently'
    await database.query(`alter table results detach partition ${name} ${how}`)
  }
  for (const name of await listDetached(database)) {
    if (isOld(name)) await dropTable(database, name)
  }
}

/** Partitions that were detached and not dropped, perhaps by a process that died in between. */
const listDetached = queryValues(
  () => sql<{ name: string }>('result-partitions-detached')`
      select c.relname as name from pg_class c
      where c.relkind = 'r' and c.relname ~ '^results_[0-9]{8}$' and c.relnamespace = (
          select relnamespace from pg_class where oid = 'results'::regclass)
        and not exists (select from pg_inherits i where i.inhrelid = c.oid)`,
)

async function dropTable(database: Database, name: string): Promise<void> {
  await database.transaction(async (tx) => {
    await tx.query(`set local lock_timeout = ${LOCK_WAIT_MS}`)
    await tx.query(`drop table if exists ${name}`)
  })
}
