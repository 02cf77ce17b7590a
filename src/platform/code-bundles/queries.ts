// Statements on code bundles. A row is written before the first byte is stored, and deleted after the last byte
// is removed, so that leftovers of a crash are known.
import { BUNDLE_BOUNDS } from '../../contract/api/code-bundle.ts'
import { instantText, rowJson } from '../../database/row-json.ts'
import { pageStatement } from '../../database/page.ts'
import { execute, queryAny, queryRow, queryValues, raw, sql } from '../../database/sql.ts'
import type { Queryable } from '../../database/database.ts'

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
  entry: `${rowJson(`encode(i.sha256, 'hex') as sha256, i.bytes, ${NAMED} as checks,
    ${instantText('i.created_at')} as "createdAt"`)}::text`,
})

/** A bundle of the account. */
export const findBundle = queryRow(
  ({ accountId, sha256 }: BundleAddress) => sql<StoredBundle>('bundle-find')`
      select id, bytes, stored_as as "storedAs" from code_bundles
      where account_id = ${accountId} and sha256 = decode(${sha256}, 'hex') and state = 'stored'`,
)

/**
 * Which of these the account has. They count as used by now, so that none of them is dropped before a
 * monitor names it.
 */
export const bundlesAmong = queryValues(
  (accountId: string, hashes: string[]) => sql<{ sha256: string }>('bundles-among')`
      update code_bundles set used_at = clock_timestamp()
      where account_id = ${accountId} and state = 'stored'
        and sha256 in (select decode(hex, 'hex') from unnest(${hashes}::text[]) as hex)
      returning encode(sha256, 'hex') as sha256`,
)

/** A bundle that a monitor of the location names, or named a while ago. */
export const findBundleFor = queryRow(
  ({ accountId, locationId, sha256 }: BundleAddress & { locationId: string }) => {
    const formerS = BUNDLE_BOUNDS.formerMsMax / 1000
    return sql<StoredBundle>('bundle-for-location')`
      select b.id, b.bytes, b.stored_as as "storedAs" from code_bundles b
      where b.account_id = ${accountId} and b.sha256 = decode(${sha256}, 'hex') and b.state = 'stored'
        and exists (
          select from monitors m where m.account_id = ${accountId} and m.bundle = b.sha256
            and ${locationId}::uuid = any (m.location_ids) and m.deleted_at is null
          union all
          select from monitors m where m.account_id = ${accountId} and m.former_bundle = b.sha256
            and ${locationId}::uuid = any (m.location_ids) and m.deleted_at is null
            and m.former_bundle_at > clock_timestamp() - make_interval(secs => ${formerS}))`
  },
)

/** Notes that a bundle arrives; false when the account has as many as it may have. */
export const noteArrivingBundle = queryAny(
  ({ id, accountId, sha256, storedAs }: BundleAddress & { id: string; storedAs: string }) => {
    const { bundlesMax } = BUNDLE_BOUNDS
    return sql<{ id: string }>('bundle-arrive')`
      insert into code_bundles (id, account_id, sha256, state, stored_as)
      select ${id}, ${accountId}, decode(${sha256}, 'hex'), 'arriving', ${storedAs}
      where (select count(*) from code_bundles where account_id = ${accountId} and state <> 'leaving') < ${bundlesMax}
      returning id`
  },
)

/**
 * Makes an arrived bundle visible; false when it was given up meanwhile. Throws a failure of kind `unique`
 * when the same one was faster.
 */
export const settleBundle = queryAny(
  (id: string, bytes: number) => sql<{ id: string }>('bundle-settle')`
      update code_bundles set state = 'stored', bytes = ${bytes}, used_at = clock_timestamp()
      where id = ${id} and state = 'arriving' returning id`,
)

/** Hides a bundle, whose bytes are to be removed. */
export const hideBundle = execute(
  (id: string) => sql('bundle-leave')`
      update code_bundles set state = 'leaving' where id = ${id}`,
)

/**
 * Hides a bundle unless a monitor names it; undefined when it does not exist. Needs a transaction that locks
 * the account.
 */
export const hideUnnamedBundle = queryRow(
  ({ accountId, sha256 }: BundleAddress) => sql<{ id: string; storedAs: string; named: boolean }>(
    'bundle-leave-unnamed',
  )`
      with found as (
        select i.id, ${raw(NAMED)} > 0 as named from code_bundles i
        where i.account_id = ${accountId} and i.sha256 = decode(${sha256}, 'hex') and i.state = 'stored'
      ), gone as (
        update code_bundles b set state = 'leaving' from found
        where b.id = found.id and b.state = 'stored' and not found.named
      )
      select b.id, b.stored_as as "storedAs", found.named from found join code_bundles b using (id)`,
)

/**
 * Hides the bundles that no monitor has named for `unusedMs`; returns them, and the leftovers of uploads that
 * began more than `arrivingMsMax` ago.
 */
export async function hideStaleBundles(
  connection: Queryable,
  bounds: { unusedMs: number; arrivingMsMax: number; rowsMax: number },
): Promise<{ id: string; storedAs: string }[]> {
  await connection.query(sql('bundles-touch')`
      update code_bundles i set used_at = clock_timestamp()
      where i.state = 'stored' and i.used_at < clock_timestamp() - interval '1 hour'
        and ${raw(NAMED)} > 0`)
  const { unusedMs, arrivingMsMax, rowsMax } = bounds
  return connection.query(sql<{ id: string; storedAs: string }>('bundles-stale')`
      update code_bundles set state = 'leaving' where id in (
        select id from code_bundles
        where (state = 'leaving' and used_at < clock_timestamp() - make_interval(secs => ${arrivingMsMax / 1000}))
          or (state = 'arriving' and created_at < clock_timestamp() - make_interval(secs => ${arrivingMsMax / 1000}))
          or (state = 'stored' and used_at < clock_timestamp() - make_interval(secs => ${unusedMs / 1000}))
        limit ${rowsMax} for update skip locked)
      returning id, stored_as as "storedAs"`)
}

/** Deletes the rows of bundles whose bytes are removed. */
export const forgetBundles = execute(
  (ids: string[]) => sql('bundles-forget')`
      delete from code_bundles where id = any (${ids}::uuid[])`,
)
