// Keys of the public API. The database knows a key by its hash alone.
import type { Role } from '../../../contract/api/account.ts'
import { queryAny, queryAs, queryRow, queryRows, raw, sql } from '../../../database/sql.ts'
import type { KnownKey } from '../../http/keys.ts'

/** A key as people may see it. */
export interface ApiKeyRow {
  id: string
  account_id: string
  name: string
  role: Role
  suffix: string
  created_at: Date
  last_used_at: Date | null
  revoked_at: Date | null
}

export interface NewApiKey {
  accountId: string
  name: string
  role: Role
  /** SHA-256 of the key. */
  hash: Buffer
  suffix: string
}

const COLUMNS = raw('id, account_id, name, role, suffix, created_at, last_used_at, revoked_at')

/**
 * Adds a key unless one with its hash exists; answers with the stored one. A key that is not random needs a lock around
 * it: one that another transaction adds meanwhile is not seen.
 */
export const ensureApiKey = queryAs(
  (key: NewApiKey) => sql<ApiKeyRow>('api-key-ensure')`
    with made as (
      insert into api_keys (account_id, name, role, hash, suffix)
      values (${key.accountId}, ${key.name}, ${key.role}, ${key.hash}, ${key.suffix})
      on conflict on constraint api_keys_hash_key do nothing returning ${COLUMNS})
    select * from made union all select ${COLUMNS} from api_keys where hash = ${key.hash} limit 1`,
  ([row]) => row as ApiKeyRow,
)

/** The key with this hash, unless it was revoked. Notes that it was used, at most once a minute. */
export const findActiveKey = queryRow(
  (hash: Buffer) => sql<KnownKey>('api-key-find')`
    with used as (
      update api_keys set last_used_at = now()
      where hash = ${hash} and revoked_at is null
        and (last_used_at is null or last_used_at < now() - interval '1 minute')
    )
    select id, account_id as "accountId", name, role, hash from api_keys
    where hash = ${hash} and revoked_at is null`,
)

/** Keys of all accounts, or of one, oldest first, revoked ones included; `limit` at most. */
export const listApiKeys = queryRows(
  ({ accountId = null, limit }: { accountId?: string | null; limit: number }) => sql<ApiKeyRow>(
    'api-keys-list',
  )`
    select ${COLUMNS} from api_keys
    where ${accountId}::uuid is null or account_id = ${accountId}
    order by created_at, id limit ${limit}`,
)

/** Whether an account has a key of this role that is not revoked. */
export const hasKey = queryAny(
  (accountId: string, role: Role) => sql('api-key-of-role')`
    select id from api_keys
    where account_id = ${accountId} and role = ${role} and revoked_at is null limit 1`,
)

/** The channel on which a trigger announces every change of a key. */
export const KEYS_CHANNEL = 'vedette_keys'

/** Revokes a key for good; undefined when it does not exist. Idempotent. */
export const revokeApiKey = queryRow(
  (id: string) => sql<ApiKeyRow>('api-key-revoke')`
    update api_keys set revoked_at = coalesce(revoked_at, now())
    where id = ${id} returning ${COLUMNS}`,
)
