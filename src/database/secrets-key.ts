// Statements on the mark of the key under which secrets are encrypted.
import type { Queryable } from './database.ts'

/** The lock under which one of several first starts leaves its mark. */
const LOCK = 0x76_65_64_73

/** Locks the fingerprint for the rest of the transaction. */
export async function lockSecretsKey(tx: Queryable): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(${LOCK})`)
}

/** The stored fingerprint of the key, or undefined. */
export async function readFingerprint(tx: Queryable): Promise<Buffer | undefined> {
  const [row] = await tx.query<{ fingerprint: Buffer }>('select fingerprint from secrets_key')
  return row?.fingerprint
}

/** Remembers the fingerprint of the key. */
export async function writeFingerprint(tx: Queryable, fingerprint: Buffer): Promise<void> {
  await tx.query('insert into secrets_key (fingerprint) values ($1)', [fingerprint])
}
