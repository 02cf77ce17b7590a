// Keys of the public API. The database knows a key by its hash alone.
import type { Role } from '../../../contract/api/account.ts'
import { sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'
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

const COLUMNS = 'id, account_id, name, role, suffix, created_at, last_used_at, revoked_at'

/** Adds a key. Throws a duplicate of `api_keys_hash_key` when the key exists. */
export async function createApiKey(database: Queryable, key: NewApiKey): Promise<ApiKeyRow> {
  const [row] = await database.query<ApiKeyRow>(
    `insert into api_keys (account_id, name, role, hash, suffix)
     values ($1, $2, $3, $4, $5)
     returning ${COLUMNS}`,
    [key.accountId, key.name, key.role, key.hash, key.suffix],
  )
  return row as ApiKeyRow
}

/** Adds a key unless one with its hash exists; returns the stored one. */
export async function ensureApiKey(database: Queryable, key: NewApiKey): Promise<ApiKeyRow> {
  await database.query(
    `insert into api_keys (account_id, name, role, hash, suffix)
     values ($1, $2, $3, $4, $5)
     on conflict on constraint api_keys_hash_key do nothing`,
    [key.accountId, key.name, key.role, key.hash, key.suffix],
  )
  const [row] = await database.query<ApiKeyRow>(`select ${COLUMNS} from api_keys where hash = $1`, [
    key.hash,
  ])
  return row as ApiKeyRow
}

/** The key with this hash, unless it was revoked. Notes that it was used, at most once a minute. */
export async function findActiveKey(
  database: Queryable,
  hash: Buffer,
): Promise<KnownKey | undefined> {
  const [row] = await database.query(sql<KnownKey>('api-key-find')`
    with used as (
      update api_keys set last_used_at = now()
      where hash = ${hash} and revoked_at is null
        and (last_used_at is null or last_used_at < now() - interval '1 minute')
    )
    select id, account_id as "accountId", name, role, hash from api_keys
    where hash = ${hash} and revoked_at is null`)
  return row
}

/** Keys of all accounts, or of one, oldest first, revoked ones included; `limit` at most. */
export function listApiKeys(
  database: Queryable,
  { accountId, limit }: { accountId?: string; limit: number },
): Promise<ApiKeyRow[]> {
  return database.query<ApiKeyRow>(
    `select ${COLUMNS} from api_keys
     where $1::uuid is null or account_id = $1
     order by created_at, id limit $2`,
    [accountId ?? null, limit],
  )
}

/** Whether an account has a key of this role that is not revoked. */
export async function hasKey(database: Queryable, accountId: string, role: Role): Promise<boolean> {
  const rows = await database.query(
    `select from api_keys where account_id = $1 and role = $2 and revoked_at is null limit 1`,
    [accountId, role],
  )
  return rows.length > 0
}

/** The channel on which a trigger announces every change of a key. */
export const KEYS_CHANNEL = 'vedette_keys'

/** Revokes a key for good; undefined when it does not exist. Idempotent. */
export async function revokeApiKey(
  database: Queryable,
  id: string,
): Promise<ApiKeyRow | undefined> {
  const [row] = await database.query<ApiKeyRow>(
    `update api_keys set revoked_at = coalesce(revoked_at, now())
     where id = $1 returning ${COLUMNS}`,
    [id],
  )
  return row
}
