// Statements on files of results. A row is written before the first byte is stored, so that whatever a
// crash leaves behind is known and can be removed.
import type { ArtifactRefusal, ArtifactView } from '../../contract/api/run.ts'
import { statement, type Connection } from '../../database/statement.ts'

const list = statement<[string, string], ArtifactView>(
  'artifacts-of',
  `select case when state = 'stored' then id end as id, name, state, refusal, bytes,
     encode(sha256, 'hex') as sha256, content_type as "contentType"
   from artifacts where location_id = $1 and owner_key = $2 and state <> 'arriving'
   order by name`,
)

/** The files of a result that were stored or refused, by name. `ownerKey`: see artifactOwner(). */
export function artifactsOf(
  connection: Connection,
  locationId: string,
  ownerKey: string,
): Promise<ArtifactView[]> {
  return list(connection, locationId, ownerKey)
}

/** A file that is about to arrive. */
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

const arrive = statement<[string, string, string, string, string, string, string], never>(
  'artifact-arrive',
  `insert into artifacts (id, account_id, location_id, owner_key, name, state, content_type,
     stored_as)
   values ($1, $2, $3, $4, $5, 'arriving', $6, $7)`,
)

/** Notes that a file arrives. */
export async function noteArriving(connection: Connection, one: ArrivingArtifact): Promise<void> {
  const { id, accountId, locationId, ownerKey, name, contentType, storedAs } = one
  await arrive(connection, id, accountId, locationId, ownerKey, name, contentType, storedAs)
}

/** A file that is here already under the same name. */
export interface KnownArtifact {
  state: 'stored' | 'refused'
  bytes: number | null
  sha256: Buffer | null
}

const known = statement<[string, string, string], KnownArtifact>(
  'artifact-known',
  `select state, bytes, sha256 from artifacts
   where location_id = $1 and owner_key = $2 and name = $3 and state <> 'arriving'`,
)

/** Outcome of a previous upload under that name. */
export async function knownArtifact(
  connection: Connection,
  of: { locationId: string; ownerKey: string; name: string },
): Promise<KnownArtifact | undefined> {
  return (await known(connection, of.locationId, of.ownerKey, of.name))[0]
}

const dropRefusal = statement<[string], never>(
  'artifact-drop-refusal',
  `delete from artifacts r using artifacts a
   where a.id = $1 and r.location_id = a.location_id and r.owner_key = a.owner_key
     and r.name = a.name and r.state = 'refused'`,
)

const settle = statement<[string, number, Buffer], { id: string }>(
  'artifact-settle',
  `update artifacts set state = 'stored', bytes = $2, sha256 = $3
   where id = $1 and state = 'arriving' returning id`,
)

/**
 * Makes an arrived file visible; false when it was given up meanwhile. Throws a failure of kind `unique`
 * when another one of that name was faster. To be called in a transaction.
 */
export async function settleArtifact(
  tx: Connection,
  id: string,
  what: { bytes: number; sha256: Buffer },
): Promise<boolean> {
  await dropRefusal(tx, id)
  return (await settle(tx, id, what.bytes, what.sha256)).length > 0
}

const refuse = statement<
  [string, string, string, string, string, string, number | null, string],
  never
>(
  'artifact-refuse',
  `insert into artifacts (id, account_id, location_id, owner_key, name, state, content_type,
     stored_as, bytes, refusal)
   values ($1, $2, $3, $4, $5, 'refused', $6, '', $7, $8)
   on conflict (location_id, owner_key, name) where state <> 'arriving' do nothing`,
)

/** Notes that a file was refused, for readers of its result; a file that is here stays. */
export async function noteRefused(
  connection: Connection,
  one: Omit<ArrivingArtifact, 'storedAs'>,
  why: { refusal: ArtifactRefusal; bytes: number | null },
): Promise<void> {
  const { id, accountId, locationId, ownerKey, name, contentType } = one
  const { refusal, bytes } = why
  await refuse(
    connection,
    ...([id, accountId, locationId, ownerKey, name, contentType, bytes, refusal] as const),
  )
}

const forget = statement<[string[]], never>(
  'artifacts-forget',
  `delete from artifacts where id = any ($1::uuid[])`,
)

/** Deletes the rows of files whose bytes are removed. */
export async function forgetArtifacts(connection: Connection, ids: string[]): Promise<void> {
  await forget(connection, ids)
}

/** A file whose time is over. */
export interface StaleArtifact {
  id: string
  /** Empty when nothing was stored. */
  storedAs: string
}

const stale = statement<[number, number, number], StaleArtifact>(
  'artifacts-stale',
  `select id, stored_as as "storedAs" from artifacts
   where created_at < clock_timestamp() - make_interval(secs => $1::double precision / 1000)
   union all
   select id, stored_as from artifacts where state = 'arriving'
     and created_at < clock_timestamp() - make_interval(secs => $2::double precision / 1000)
   limit $3`,
)

/** Files older than `retentionMs`, and uploads that began more than `arrivingMsMax` ago and never ended. */
export function staleArtifacts(
  connection: Connection,
  bounds: { retentionMs: number; arrivingMsMax: number; rowsMax: number },
): Promise<StaleArtifact[]> {
  return stale(connection, bounds.retentionMs, bounds.arrivingMsMax, bounds.rowsMax)
}

/** A file that can be downloaded. */
export interface StoredArtifact {
  name: string
  bytes: number
  sha256: Buffer
  contentType: string
  storedAs: string
}

const find = statement<[string, string], StoredArtifact>(
  'artifact-find',
  `select name, bytes, sha256, content_type as "contentType", stored_as as "storedAs"
   from artifacts where id = $1 and account_id = $2 and state = 'stored'`,
)

/** A stored file of the account. */
export async function findArtifact(
  connection: Connection,
  accountId: string,
  id: string,
): Promise<StoredArtifact | undefined> {
  return (await find(connection, id, accountId))[0]
}

const count = statement<[string, string], { count: number }>(
  'artifacts-count',
  `select count(*) as count from artifacts where location_id = $1 and owner_key = $2`,
)

/** How many files of a result there are, those on their way included. */
export async function countArtifacts(
  connection: Connection,
  locationId: string,
  ownerKey: string,
): Promise<number> {
  return (await count(connection, locationId, ownerKey))[0]?.count ?? 0
}

const ofRun = statement<[string, string], { id: string }>(
  'artifact-owner-run',
  `select id from runs where id = $1 and location_id = $2`,
)

const ofSlot = statement<[string, string, number], { id: string }>(
  'artifact-owner-slot',
  `select e.monitor_id as id from expectations e join monitors m on m.id = e.monitor_id
   where e.location_id = $1 and e.monitor_id = $2 and e.from_ms <= $3
     and (e.until_ms is null or $3 < e.until_ms)
     and ($3 - e.offset_ms) % e.every_ms = 0 limit 1`,
)

/** Whether the location has such a run, or such a slot of such a monitor. */
export async function hasOwner(
  connection: Connection,
  locationId: string,
  owner: { run: string } | { monitorId: string; slotMs: number },
): Promise<boolean> {
  const rows =
    'run' in owner
      ? await ofRun(connection, owner.run, locationId)
      : await ofSlot(connection, locationId, owner.monitorId, owner.slotMs)
  return rows.length > 0
}
