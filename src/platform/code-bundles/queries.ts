// Statements on code bundles. A row is written before the first byte is stored, and deleted after the last byte
// is removed, so that leftovers of a crash are known.
import { BUNDLE_BOUNDS } from '../../contract/api/code-bundle.ts'
import { instantJson } from '../../database/json-text.ts'
import { pageStatement } from '../../database/page.ts'
import { statement, type Connection } from '../../database/statement.ts'

/** A bundle of an account. */
export interface BundleAddress {
  accountId: string
  /** Hex. */
  sha256: string
}

/** A bundle that can be had. */
export interface StoredBundle {
  id: string
  bytes: number
  storedAs: string
}

const NAMED = `(select count(*) from monitors m where m.account_id = i.account_id
  and m.bundle = i.sha256 and m.deleted_at is null)`

/** The bundles of an account. */
export const listBundles = pageStatement({
  name: 'bundles-page',
  from: 'code_bundles',
  where: `account_id = $1::uuid and state = 'stored'`,
  json: `'{"sha256":"' || encode(i.sha256, 'hex') || '","bytes":' || i.bytes
    || ',"checks":' || ${NAMED} || ',"createdAt":' || ${instantJson('i.created_at')} || '}'`,
})

const find = statement<[string, string], StoredBundle>(
  'bundle-find',
  `select id, bytes, stored_as as "storedAs" from code_bundles
   where account_id = $1 and sha256 = decode($2, 'hex') and state = 'stored'`,
)

/** A bundle of the account. */
export async function findBundle(
  connection: Connection,
  { accountId, sha256 }: BundleAddress,
): Promise<StoredBundle | undefined> {
  return (await find(connection, accountId, sha256))[0]
}

const among = statement<[string, string[]], { sha256: string }>(
  'bundles-among',
  `update code_bundles set used_at = clock_timestamp()
   where account_id = $1 and state = 'stored'
     and sha256 in (select decode(hex, 'hex') from unnest($2::text[]) as hex)
   returning encode(sha256, 'hex') as sha256`,
)

/**
 * Which of these the account has. They count as used by now, so that none of them is dropped before a
 * monitor names it.
 */
export async function bundlesAmong(
  connection: Connection,
  accountId: string,
  hashes: string[],
): Promise<string[]> {
  return (await among(connection, accountId, hashes)).map(({ sha256 }) => sha256)
}

const forLocation = statement<[string, string, string, number], StoredBundle>(
  'bundle-for-location',
  `select b.id, b.bytes, b.stored_as as "storedAs" from code_bundles b
   where b.account_id = $1 and b.sha256 = decode($2, 'hex') and b.state = 'stored'
     and exists (
       select from monitors m where m.account_id = $1 and m.bundle = b.sha256
         and $3::uuid = any (m.location_ids) and m.deleted_at is null
       union all
       select from monitors m where m.account_id = $1 and m.former_bundle = b.sha256
         and $3::uuid = any (m.location_ids) and m.deleted_at is null
         and m.former_bundle_at > clock_timestamp() - make_interval(secs => $4))`,
)

/** A bundle that a monitor of the location names, or named a while ago. */
export async function findBundleFor(
  connection: Connection,
  { accountId, locationId, sha256 }: BundleAddress & { locationId: string },
): Promise<StoredBundle | undefined> {
  const formerS = BUNDLE_BOUNDS.formerMsMax / 1000
  return (await forLocation(connection, accountId, sha256, locationId, formerS))[0]
}

const arrive = statement<[string, string, string, string, number], { id: string }>(
  'bundle-arrive',
  `insert into code_bundles (id, account_id, sha256, state, stored_as)
   select $1, $2, decode($3, 'hex'), 'arriving', $4
   where (select count(*) from code_bundles where account_id = $2 and state <> 'leaving') < $5
   returning id`,
)

/** Notes that a bundle arrives; false when the account has as many as it may have. */
export async function noteArrivingBundle(
  connection: Connection,
  { id, accountId, sha256, storedAs }: BundleAddress & { id: string; storedAs: string },
): Promise<boolean> {
  const { bundlesMax } = BUNDLE_BOUNDS
  return (await arrive(connection, id, accountId, sha256, storedAs, bundlesMax)).length > 0
}

const settle = statement<[string, number], { id: string }>(
  'bundle-settle',
  `update code_bundles set state = 'stored', bytes = $2, used_at = clock_timestamp()
   where id = $1 and state = 'arriving' returning id`,
)

/**
 * Makes an arrived bundle visible; false when it was given up meanwhile. Throws a failure of kind `unique`
 * when the same one was faster.
 */
export async function settleBundle(
  connection: Connection,
  id: string,
  bytes: number,
): Promise<boolean> {
  return (await settle(connection, id, bytes)).length > 0
}

const leave = statement<[string], never>(
  'bundle-leave',
  `update code_bundles set state = 'leaving' where id = $1`,
)

/** Hides a bundle, whose bytes are to be removed. */
export async function hideBundle(connection: Connection, id: string): Promise<void> {
  await leave(connection, id)
}

const leaveUnnamed = statement<[string, string], { id: string; storedAs: string; named: boolean }>(
  'bundle-leave-unnamed',
  `with found as (
     select i.id, ${NAMED} > 0 as named from code_bundles i
     where i.account_id = $1 and i.sha256 = decode($2, 'hex') and i.state = 'stored'
   ), gone as (
     update code_bundles b set state = 'leaving' from found
     where b.id = found.id and b.state = 'stored' and not found.named
   )
   select b.id, b.stored_as as "storedAs", found.named from found join code_bundles b using (id)`,
)

/**
 * Hides a bundle unless a monitor names it; undefined when it does not exist. Needs a transaction that locks
 * the account.
 */
export async function hideUnnamedBundle(
  tx: Connection,
  { accountId, sha256 }: BundleAddress,
): Promise<{ id: string; storedAs: string; named: boolean } | undefined> {
  return (await leaveUnnamed(tx, accountId, sha256))[0]
}

const touch = statement<[], never>(
  'bundles-touch',
  `update code_bundles i set used_at = clock_timestamp()
   where i.state = 'stored' and i.used_at < clock_timestamp() - interval '1 hour'
     and ${NAMED} > 0`,
)

const stale = statement<[number, number, number], { id: string; storedAs: string }>(
  'bundles-stale',
  `update code_bundles set state = 'leaving' where id in (
     select id from code_bundles
     where (state = 'leaving' and used_at < clock_timestamp() - make_interval(secs => $2))
       or (state = 'arriving' and created_at < clock_timestamp() - make_interval(secs => $2))
       or (state = 'stored' and used_at < clock_timestamp() - make_interval(secs => $1))
     limit $3 for update skip locked)
   returning id, stored_as as "storedAs"`,
)

/**
 * Hides the bundles that no monitor has named for `unusedMs`; returns them, and the leftovers of uploads that
 * began more than `arrivingMsMax` ago.
 */
export async function hideStaleBundles(
  connection: Connection,
  bounds: { unusedMs: number; arrivingMsMax: number; rowsMax: number },
): Promise<{ id: string; storedAs: string }[]> {
  await touch(connection)
  const { unusedMs, arrivingMsMax, rowsMax } = bounds
  return stale(connection, unusedMs / 1000, arrivingMsMax / 1000, rowsMax)
}

const forget = statement<[string[]], never>(
  'bundles-forget',
  `delete from code_bundles where id = any ($1::uuid[])`,
)

/** Deletes the rows of bundles whose bytes are removed. */
export async function forgetBundles(connection: Connection, ids: string[]): Promise<void> {
  await forget(connection, ids)
}
