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
import { notFound, ApiError } from '../http/errors.ts'
import { offsetOf, pagedAnswer, pagedParameters } from '../http/listing.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import type { Cipher } from '../secrets/cipher.ts'

const TAG = 'Environment Variables'
const PATH = '/v1/variables'
const ONE = `${PATH}/{key}`
const looks = { key: VARIABLE_KEY }
const params = {
  key: z
    .string()
    .regex(new RegExp(`^${VARIABLE_KEY}$`))
    .openapi({ description: 'Key of the variable' }),
}
const answers = { status: 200 as const, schema: AccountVariable, description: 'The variable' }

/** The operations on variables of the account. */
export function accountVariableOperations(parts: MonitorParts): DefinedOperation[] {
  return [...reads(parts), create(parts), replace(parts), remove(parts)]
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

function reads({ database, cipher }: MonitorParts): DefinedOperation[] {
  return [
    defineOperation({
      operationId: 'getV1Variables',
      tag: TAG,
      summary: 'List variables',
      description: 'In the order of their keys.',
      method: 'get',
      path: PATH,
      action: 'read',
      query: pagedParameters(),
      answers: {
        status: 200,
        schema: z.array(AccountVariable),
        description: 'The variables',
        hasContentRange: true,
      },
      async answer({ key: { accountId }, query }) {
        const offset = offsetOf(query)
        const rows = await listAccountVariables(database, accountId, query.limit, offset)
        const total = await countAccountVariables(database, accountId)
        return pagedAnswer(
          query,
          rows.map((row) => wireForm(cipher, row)),
          total,
        )
      },
    }),
    defineOperation({
      operationId: 'getV1VariablesKey',
      tag: TAG,
      summary: 'Read a variable',
      method: 'get',
      path: ONE,
      action: 'read',
      params,
      looks,
      answers,
      answer: async ({ key, params: of }) => ({
        status: 200,
        json: textOf(cipher, await readAccountVariable(database, key.accountId, of.key)),
      }),
    }),
  ]
}

function create(parts: MonitorParts): DefinedOperation {
  const { cipher } = parts
  return defineOperation({
    operationId: 'postV1Variables',
    tag: TAG,
    summary: 'Create a variable',
    description: 'Every check may use it as `{{KEY}}`.',
    method: 'post',
    path: PATH,
    action: 'write',
    body: AccountVariableInput,
    answers: { ...answers, status: 201 },
    conflict: 'There is a variable of this key, or as many as there may be',
    async answer({ key: { accountId }, body }) {
      const { key, locked, secret } = body
      const row = await changing(parts, accountId, async (tx) => {
        const there = await readAccountVariable(tx, accountId, key)
        if (there !== undefined) throw new ApiError(409, `There is a variable ${key} already`)
        if ((await countAccountVariables(tx, accountId)) >= API_BOUNDS.variablesMax) {
          throw new ApiError(409, `An account has at most ${API_BOUNDS.variablesMax} variables`)
        }
        const value = cipher.encrypt(body.value)
        await saveVariables(tx, accountId, [{ key, value, locked, secret, fileName: null }])
        return readAccountVariable(tx, accountId, key)
      })
      return { status: 201, json: textOf(cipher, row) }
    },
  })
}

function replace(parts: MonitorParts): DefinedOperation {
  const { cipher } = parts
  return defineOperation({
    operationId: 'putV1VariablesKey',
    tag: TAG,
    summary: 'Replace a variable',
    description: `A secret value that is sent as it reads, \`${SECRET_MASK}\`, is kept.`,
    method: 'put',
    path: ONE,
    action: 'write',
    params,
    looks,
    body: AccountVariableChange,
    answers,
    async answer({ key: { accountId }, params: { key }, body }) {
      if (body.key !== undefined && body.key !== key) {
        throw new ApiError(400, `key: must stay "${key}"; make another variable`)
      }
      const row = await changing(parts, accountId, async (tx) => {
        const before = await readAccountVariable(tx, accountId, key)
        if (before === undefined) throw notFound('variable')
        const secret = body.secret ?? before.secret
        const isMasked = before.secret && body.value === SECRET_MASK
        if (isMasked && !secret) {
          throw new ApiError(
            400,
            'value: a secret becomes a plain one only together with its value',
          )
        }
        const value = isMasked ? before.value : cipher.encrypt(body.value)
        const fields = { key, value, locked: body.locked, secret, fileName: before.file_name }
        await saveVariables(tx, accountId, [fields])
        return readAccountVariable(tx, accountId, key)
      })
      return { status: 200, json: textOf(cipher, row) }
    },
  })
}

function remove(parts: MonitorParts): DefinedOperation {
  return defineOperation({
    operationId: 'deleteV1VariablesKey',
    tag: TAG,
    summary: 'Delete a variable',
    method: 'delete',
    path: ONE,
    action: 'write',
    params,
    looks,
    answers: { status: 204, description: 'The variable is deleted' },
    async answer({ key: { accountId }, params: { key } }) {
      await changing(parts, accountId, async (tx) => {
        const gone = await deleteAccountVariables(tx, accountId, [key])
        if (gone.length === 0) throw notFound('variable')
        await notifyAllLocations(tx, accountId)
      })
      return { status: 204 }
    },
  })
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

function textOf(cipher: Cipher, row: AccountVariableRow | undefined): string {
  if (row === undefined) throw notFound('variable')
  return JSON.stringify(wireForm(cipher, row))
}

function wireForm(cipher: Cipher, row: AccountVariableRow): AccountVariable {
  return {
    key: row.key,
    value: row.secret ? SECRET_MASK : cipher.decrypt(row.value),
    locked: row.locked,
    secret: row.secret,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at?.toISOString() ?? null,
  }
}
