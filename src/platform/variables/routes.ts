// Variables of an account, known to all its monitors: listed, made, read, replaced and deleted.
import { z } from '@hono/zod-openapi'
import {
  AccountVariable,
  AccountVariableChange,
  AccountVariableInput,
  VARIABLE_KEY,
} from '../../contract/api/account-variable.ts'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { SECRET_MASK } from '../../contract/api/resource.ts'
import type { Variable } from '../../contract/monitor.ts'
import {
  type AccountVariableFields,
  type AccountVariableRow,
  countAccountVariables,
  deleteAccountVariables,
  listAccountVariables,
  readAccountVariable,
  writeAccountVariables,
} from './queries.ts'
import type { Queryable } from '../../database/database.ts'
import { raiseRevisions } from '../checks/queries/placements.ts'
import { locationIdsBySlug } from '../private-locations/queries/locations.ts'
import { changing, type MonitorParts } from '../checks/writing.ts'
import { ApiError } from '../http/errors.ts'
import { offsetOf } from '../http/listing.ts'
import type { DefinedOperation } from '../http/operation.ts'
import { Resource } from '../http/resource.ts'
import type { Cipher } from '../secrets/cipher.ts'

const keyParameter = z
  .string()
  .regex(new RegExp(`^${VARIABLE_KEY}$`))
  .openapi({ description: 'Key of the variable' })
const resource = new Resource({
  tag: 'Environment Variables',
  path: '/v1/variables',
  one: { key: keyParameter },
  what: 'variable',
  schema: AccountVariable,
})

/** The operations on variables of the account. */
export function accountVariableOperations(parts: MonitorParts): DefinedOperation[] {
  const { database, cipher } = parts
  return [
    resource.numberedPages(
      { summary: 'List variables', description: 'In the order of their keys.' },
      async ({ accountId, query }) => {
        const rows = await listAccountVariables(database, accountId, query.limit, offsetOf(query))
        const total = await countAccountVariables(database, accountId)
        return { entries: rows.map((row) => wireForm(cipher, row)), total }
      },
    ),
    resource.read({ summary: 'Read a variable' }, ({ accountId, key }) =>
      readText(database, cipher, accountId, key),
    ),
    resource.create(
      {
        summary: 'Create a variable',
        description: 'Every check may use it as `{{KEY}}`.',
        body: AccountVariableInput,
        conflict: 'There is a variable of this key, or as many as there may be',
      },
      ({ accountId, body }) => create(parts, accountId, body),
    ),
    resource.replace(
      {
        summary: 'Replace a variable',
        description: `A secret value that is sent as \`${SECRET_MASK}\` stays unchanged.`,
        body: AccountVariableChange,
      },
      ({ accountId, key, body }) => replace(parts, { accountId, key }, body),
    ),
    resource.remove({ summary: 'Delete a variable' }, ({ accountId, key }) =>
      changing(parts, accountId, async (tx) => {
        const gone = await deleteAccountVariables(tx, accountId, [key])
        if (gone.length > 0) await notifyAllLocations(tx, accountId)
        return gone.length > 0
      }),
    ),
  ]
}

function create(
  parts: MonitorParts,
  accountId: string,
  { key, value, locked, secret }: z.output<typeof AccountVariableInput>,
): Promise<string | undefined> {
  const { cipher } = parts
  return changing(parts, accountId, async (tx) => {
    const there = await readAccountVariable(tx, accountId, key)
    if (there !== undefined) throw new ApiError(409, `There is a variable ${key} already`)
    if ((await countAccountVariables(tx, accountId)) >= API_BOUNDS.variablesMax) {
      throw new ApiError(409, `An account has at most ${API_BOUNDS.variablesMax} variables`)
    }
    const fields = { key, value: cipher.encrypt(value), locked, secret, fileName: null }
    await saveVariables(tx, accountId, [fields])
    return readText(tx, cipher, accountId, key)
  })
}

function replace(
  parts: MonitorParts,
  { accountId, key }: { accountId: string; key: string },
  body: z.output<typeof AccountVariableChange>,
): Promise<string | undefined> {
  const { cipher } = parts
  if (body.key !== undefined && body.key !== key) {
    throw new ApiError(400, `key: cannot change from "${key}"; create another variable`)
  }
  return changing(parts, accountId, async (tx) => {
    const before = await readAccountVariable(tx, accountId, key)
    if (before === undefined) return undefined
    const secret = body.secret ?? before.secret
    const isMasked = before.secret && body.value === SECRET_MASK
    if (isMasked && !secret) {
      throw new ApiError(400, 'value: a secret becomes a plain one only together with its value')
    }
    const value = isMasked ? before.value : cipher.encrypt(body.value)
    const fields = { key, value, locked: body.locked, secret, fileName: before.file_name }
    await saveVariables(tx, accountId, [fields])
    return readText(tx, cipher, accountId, key)
  })
}

/** All variables of an account as its monitors know them, opened. Throws DecryptionError. */
export async function openAccountVariables(
  connection: Queryable,
  cipher: Cipher,
  accountId: string,
): Promise<Variable[]> {
  const rows = await listAccountVariables(connection, accountId, API_BOUNDS.variablesMax)
  return rows.map(({ key, value, locked, secret }) => ({
    key,
    value: cipher.decrypt(value),
    locked,
    secret,
  }))
}

/** Writes variables and notifies the agents of all locations. To be called inside `changing`. */
export async function saveVariables(
  tx: Queryable,
  accountId: string,
  variables: readonly AccountVariableFields[],
): Promise<void> {
  if (variables.length === 0) return
  await writeAccountVariables(tx, accountId, variables)
  await notifyAllLocations(tx, accountId)
}

/** Makes the agents of all locations ask what changed. To be called inside `changing`. */
export async function notifyAllLocations(tx: Queryable, accountId: string): Promise<void> {
  const locations = await locationIdsBySlug(tx, accountId)
  await raiseRevisions(tx, accountId, [...locations.values()])
}

async function readText(
  connection: Queryable,
  cipher: Cipher,
  accountId: string,
  key: string,
): Promise<string | undefined> {
  const row = await readAccountVariable(connection, accountId, key)
  return row && JSON.stringify(wireForm(cipher, row))
}

function wireForm(cipher: Cipher, row: AccountVariableRow) {
  const { file_name: _, ...shown } = row
  return { ...shown, value: row.secret ? SECRET_MASK : cipher.decrypt(row.value) }
}
