// Statements on epochs: the agents of a location, from a slot on. Written under the lock of the location.
import { AGENTS_CHANNEL } from './agents.ts'
import { execute, queryRows, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

export interface EpochMember {
  id: string
  version: string
  abilities: string[]
}

/** Why an epoch began. */
export interface EpochCause {
  /** `change`: an agent can run other things than before. */
  kind: 'join' | 'leave' | 'lost' | 'change'
  /** The agents that joined, left or changed. */
  agents: string[]
  /** Time of detection, which may be before the epoch begins. */
  atMs: number
  /** When departed agents stopped; null: unknown. Not set: no agent departed. */
  goneAtMs?: number | null
  /** Monitor → its first slot that the leaving agent did not start. */
  notStarted?: Record<string, number>
}

/** An epoch: from `fromMs` on, the location has these members. */
export interface Epoch {
  epoch: number
  fromMs: number
  members: EpochMember[]
  cause: EpochCause
}

/** A locked location, with the database's time and its newest epoch. */
export interface LockedLocation {
  id: string
  nowMs: number
  epoch: number
  /** When the newest epoch begins or began; -Infinity before the first. */
  fromMs: number
  members: EpochMember[]
}

/** Locks a location until the transaction ends; undefined when it does not exist. */
export async function lockLocation(
  tx: Queryable,
  locationId: string,
): Promise<LockedLocation | undefined> {
  await tx.query(sql('location-lock')`
      select from private_locations where id = ${locationId} for no key update`)
  // Another statement, since another process may have begun an epoch while this one waited for the lock.
  const [row] = await tx.query(sql<Omit<LockedLocation, 'fromMs'> & { fromMs: number | null }>(
    'location-present',
  )`
      select l.id, ceil(extract(epoch from clock_timestamp()) * 1000)::bigint as "nowMs", l.epoch,
        e.from_ms as "fromMs", coalesce(e.members, '[]') as members
      from private_locations l
      left join location_epochs e on e.location_id = l.id and e.epoch = l.epoch
      where l.id = ${locationId}`)
  return row && { ...row, fromMs: row.fromMs ?? -Infinity }
}

/** Begins an epoch with the agents that are live, and notifies them all at the commit. */
export const beginEpoch = execute(
  (locationId: string, { epoch, fromMs, cause }: Omit<Epoch, 'members'>) => sql('epoch-begin')`
      with begun as (
        insert into location_epochs (location_id, epoch, from_ms, members, cause)
        select ${locationId}, ${epoch}, ${fromMs}, coalesce((select jsonb_agg(
          jsonb_build_object('id', id, 'version', version, 'abilities', abilities) order by id)
          from agents where location_id = ${locationId} and state = 'live'), '[]'),
          ${JSON.stringify(cause)}::jsonb
        returning epoch, members
      )
      update private_locations l set epoch = begun.epoch,
        absent_since = case when begun.members <> '[]' then null
          when exists (select from placements where location_id = l.id and until_ms is null)
          then coalesce(absent_since, clock_timestamp()) end
      from begun where l.id = ${locationId}
      returning pg_notify('${raw(AGENTS_CHANNEL)}', l.id::text)::text as notified`,
)

/** Notifies the agents of a location when the transaction commits. */
export const announceNews = execute(
  (locationId: string) => sql('location-announce')`
      select pg_notify('${raw(AGENTS_CHANNEL)}', ${locationId}::text)::text as notified`,
)

/**
 * The epochs of a location since `epoch` or since the one valid at `sinceMs`, whichever is older; oldest first.
 */
export const readEpochs = queryRows(
  (locationId: string, since: { epoch: number; sinceMs: number }) => sql<Epoch>('epochs-read')`
      select epoch, from_ms as "fromMs", members, cause from location_epochs
      where location_id = ${locationId} and (epoch >= ${since.epoch} or epoch >= coalesce((
        select max(epoch) from location_epochs
        where location_id = ${locationId} and from_ms <= ${Math.floor(since.sinceMs)}), 0))
      order by epoch`,
)

/** Drops epochs that ended more than `retentionMs` ago, once their slots are accounted for. */
export const forgetEpochs = execute(
  (retentionMs: number) => sql('epochs-forget')`
      delete from location_epochs e using location_epochs next
      where next.location_id = e.location_id and next.epoch = e.epoch + 1
        and next.from_ms < least(
          (extract(epoch from clock_timestamp()) * 1000)::bigint - ${retentionMs}::bigint,
          coalesce((select swept_until_ms from accounting), 0))`,
)

/** Updates `absent_since` where monitors were added to or removed from a location without agents. */
export const markAbsences = execute(() => {
  // A location counts as absent when it has placements and no live agent.
  return sql('locations-mark-absent')`
      update private_locations l set absent_since = case when x.absent then clock_timestamp() end
      from (
        select id, not exists (select from agents a where a.location_id = o.id and a.state = 'live')
          and exists (select from placements p where p.location_id = o.id and p.until_ms is null)
          as absent
        from private_locations o where not o.is_internal
      ) x
      where x.id = l.id and x.absent <> (l.absent_since is not null)`
})
