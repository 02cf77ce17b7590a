// Statements on files of results. A row is written before the first byte is stored, so that whatever a
// crash leaves behind is known and can be removed.
import type { ArtifactRefusal, ArtifactView } from '../../contract/api/run.ts'
import { execute, queryCount, queryRow, queryRows, sql } from '../../database/sql.ts'
import type { Queryable } from '../../database/database.ts'
import type { StoredFile } from './transfer.ts'

/** The files of a result that were stored or refused, by name. `ownerKey`: see artifactOwner(). */
export const artifactsOf = queryRows(
  (locationId: string, ownerKey: string) => sql<ArtifactView>('artifacts-of')`
      select case when state = 'stored' then id end as id, name, state, refusal, bytes,
        encode(sha256, 'hex') as sha256, content_type as "contentType"
      from artifacts where location_id = ${locationId} and owner_key = ${ownerKey} and state <> 'arriving'
      order by name`,
)

export interface ArrivingArtifact {
  id: string
  accountId: string
  locationId: string
  ownerKey: string
  name: string
  contentType: string
  /** Its key in the store. */
  storedAs: string
}

/** Notes that a file arrives. */
export const noteArriving = execute((one: ArrivingArtifact) => {
  const { id, accountId, locationId, ownerKey, name, contentType, storedAs } = one
  return sql('artifact-arrive')`
      insert into artifacts (id, account_id, location_id, owner_key, name, state, content_type,
        stored_as)
      values (${id}, ${accountId}, ${locationId}, ${ownerKey}, ${name}, 'arriving', ${contentType}, ${storedAs})`
})

/** A file that is here already under the same name. */
export interface KnownArtifact {
  state: 'stored' | 'refused'
  bytes: number | null
  sha256: Buffer | null
}

/** Outcome of a previous upload under that name. */
export const knownArtifact = queryRow(
  (of: { locationId: string; ownerKey: string; name: string }) => sql<KnownArtifact>(
    'artifact-known',
  )`
      select state, bytes, sha256 from artifacts
      where location_id = ${of.locationId} and owner_key = ${of.ownerKey} and name = ${of.name} and state <> 'arriving'`,
)

/**
 * Makes an arrived file visible; false when it was given up meanwhile. Throws a failure of kind `unique`
 * when another one of that name was faster. To be called in a transaction.
 */
export async function settleArtifact(
  tx: Queryable,
  id: string,
  what: { bytes: number; sha256: Buffer },
): Promise<boolean> {
  await tx.query(sql('artifact-drop-refusal')`
      delete from artifacts r using artifacts a
      where a.id = ${id} and r.location_id = a.location_id and r.owner_key = a.owner_key
        and r.name = a.name and r.state = 'refused'`)
  const rows = await tx.query(sql<{ id: string }>('artifact-settle')`
      update artifacts set state = 'stored', bytes = ${what.bytes}, sha256 = ${what.sha256}
      where id = ${id} and state = 'arriving' returning id`)
  return rows.length > 0
}

/** Notes that a file was refused, for readers of its result; a file that is here stays. */
export const noteRefused = execute(
  (
    one: Omit<ArrivingArtifact, 'storedAs'>,
    why: { refusal: ArtifactRefusal; bytes: number | null },
  ) => {
    const { id, accountId, locationId, ownerKey, name, contentType } = one
    const { refusal, bytes } = why
    return sql('artifact-refuse')`
      insert into artifacts (id, account_id, location_id, owner_key, name, state, content_type,
        stored_as, bytes, refusal)
      values (${id}, ${accountId}, ${locationId}, ${ownerKey}, ${name}, 'refused', ${contentType}, '',
        ${bytes}, ${refusal})
      on conflict (location_id, owner_key, name) where state <> 'arriving' do nothing`
  },
)

/** Deletes the rows of files whose bytes are removed. */
export const forgetArtifacts = execute(
  (ids: string[]) => sql('artifacts-forget')`
      delete from artifacts where id = any (${ids}::uuid[])`,
)

/** Files, some of them refused, older than `retentionMs`, and uploads that began more than `arrivingMsMax` ago and never ended. */
export const staleArtifacts = queryRows(
  (bounds: { retentionMs: number; arrivingMsMax: number; rowsMax: number }) => sql<StoredFile>(
    'artifacts-stale',
  )`
      select id, stored_as as "storedAs" from artifacts
      where created_at < clock_timestamp() - make_interval(secs => ${bounds.retentionMs}::double precision / 1000)
      union all
      select id, stored_as from artifacts where state = 'arriving'
        and created_at < clock_timestamp() - make_interval(secs => ${bounds.arrivingMsMax}::double precision / 1000)
      limit ${bounds.rowsMax}`,
)

export interface StoredArtifact {
  name: string
  bytes: number
  sha256: Buffer
  contentType: string
  storedAs: string
}

/** A stored file of the account. */
export const findArtifact = queryRow(
  (accountId: string, id: string) => sql<StoredArtifact>('artifact-find')`
      select name, bytes, sha256, content_type as "contentType", stored_as as "storedAs"
      from artifacts where id = ${id} and account_id = ${accountId} and state = 'stored'`,
)

/** How many files of a result there are, those on their way included. */
export const countArtifacts = queryCount(
  (locationId: string, ownerKey: string) => sql<{ count: number }>('artifacts-count')`
      select count(*) as count from artifacts where location_id = ${locationId} and owner_key = ${ownerKey}`,
)

/** Whether the location has such a run, or such a slot of such a monitor. */
export async function hasOwner(
  connection: Queryable,
  locationId: string,
  owner: { run: string } | { monitorId: string; slotMs: number },
): Promise<boolean> {
  const rows =
    'run' in owner
      ? await connection.query(sql<{ id: string }>('artifact-owner-run')`
      select id from runs where id = ${owner.run} and location_id = ${locationId}`)
      : await connection.query(sql<{ id: string }>('artifact-owner-slot')`
      select e.monitor_id as id from expectations e join monitors m on m.id = e.monitor_id
      where e.location_id = ${locationId} and e.monitor_id = ${owner.monitorId} and e.from_ms <= ${owner.slotMs}
        and (e.until_ms is null or ${owner.slotMs} < e.until_ms)
        and (${owner.slotMs} - e.offset_ms) % e.every_ms = 0 limit 1`)
  return rows.length > 0
}
