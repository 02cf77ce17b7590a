// The key under which secrets are encrypted: given by SECRETS_KEY, or created once and stored in DATA_DIR. The
// database knows its fingerprint, so that another key is refused at the start and not at the first use.
import { randomBytes } from 'node:crypto'
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolderSync } from '../../process/make-folder.ts'
import type { Database } from '../../database/database.ts'
import { createCipher, type Cipher } from './cipher.ts'

/** The lock under which one of several first starts leaves its mark. */
const LOCK = 0x76_65_64_73

/** A given key has to be as hard to guess as it can be expected to be. */
export const SECRETS_KEY_CHARACTERS_MIN = 32

/** The key does not match the secrets of the database, or cannot be stored. */
export class SecretsKeyError extends Error {
  readonly code = 'SECRETS_KEY'

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'SecretsKeyError'
  }
}

export interface SecretsKeyOptions {
  /** SECRETS_KEY; undefined: `secrets.key` in `dataDir`, made where it is not there. */
  secretsKey: string | undefined
  dataDir: string
}

/**
 * The cipher of this database; at the first start its key is made and its fingerprint written down.
 * Throws SecretsKeyError, or what the database does.
 */
export function ensureCipher(database: Database, options: SecretsKeyOptions): Promise<Cipher> {
  return database.transaction(async (tx) => {
    await tx.query(`select pg_advisory_xact_lock(${LOCK})`)
    const [known] = await tx.query<{ fingerprint: Buffer }>('select fingerprint from secrets_key')
    const cipher = createCipher(keyOf(options, known !== undefined))
    const { fingerprint } = cipher
    if (known === undefined) {
      await tx.query('insert into secrets_key (fingerprint) values ($1)', [fingerprint])
    } else if (!known.fingerprint.equals(fingerprint)) throw otherKey(options)
    return cipher
  })
}

function otherKey({ secretsKey, dataDir }: SecretsKeyOptions): SecretsKeyError {
  const name = secretsKey === undefined ? join(dataDir, 'secrets.key') : 'SECRETS_KEY'
  return new SecretsKeyError(
    `${name} is not the key that the secrets in this database were encrypted under; ` +
      'give every process of the platform the key of its first start',
  )
}

function keyOf({ secretsKey, dataDir }: SecretsKeyOptions, isMarked: boolean): string {
  if (secretsKey !== undefined) return secretsKey
  const path = join(dataDir, 'secrets.key')
  const stored = readKey(path)
  if (stored !== undefined) return stored
  if (isMarked) {
    throw new SecretsKeyError(
      `${path} is missing, and the secrets in this database were encrypted under a key; ` +
        'restore the file, or set SECRETS_KEY to that key',
    )
  }
  return makeKey(dataDir, path)
}

function readKey(path: string): string | undefined {
  let key: string
  try {
    key = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return undefined
    throw new SecretsKeyError(`${path} cannot be read: ${messageOf(error)}`, { cause: error })
  }
  if (key.length >= SECRETS_KEY_CHARACTERS_MIN) return key
  throw new SecretsKeyError(`${path} contains no key; restore it from a copy, or set SECRETS_KEY`)
}

/** Whole or not at all, and never over one that another process made meanwhile. */
function makeKey(dataDir: string, path: string): string {
  const key = randomBytes(32).toString('base64url')
  const draft = `${path}.${process.pid}.new`
  try {
    makeFolderSync(dataDir, 0o755)
    rmSync(draft, { force: true })
    writeFileSync(draft, `${key}\n`, { mode: 0o600, flag: 'wx', flush: true })
    try {
      linkSync(draft, path)
    } finally {
      rmSync(draft, { force: true })
    }
    return key
  } catch (error) {
    if ((error as { code?: unknown }).code === 'EEXIST') return readKey(path) ?? key
    throw new SecretsKeyError(
      `a key for secrets cannot be stored in ${path}: ${messageOf(error)}; set SECRETS_KEY`,
      { cause: error },
    )
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
