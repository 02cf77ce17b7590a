// Monitors: listed, made, read, replaced, changed and deleted in the public wire form.
import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { DEFINED_TYPES, type DefinedType, definitionOf } from '../../monitors/definitions.ts'
import { Check, CheckFields, checkInput } from './schema.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { Queryable } from '../../database/database.ts'
import {
  countListedMonitors,
  countMonitors,
  listMonitors,
  readMonitor,
  type MonitorRow,
} from './queries/monitors.ts'
import { draftCheck } from './draft.ts'
import { clientCheck } from './client-definition.ts'
import { problemText } from '../http/draft-problem.ts'
import {
  changing,
  storedCheck,
  type StoredCheck,
  type MonitorParts,
  readCheckContext,
  removeChecks,
  saveChecks,
} from './writing.ts'
import { effectiveCheck } from './effective.ts'
import { CHECK_STATES, idsInState } from '../results/statuses.ts'
import { notFound, ApiError } from '../http/errors.ts'
import { offsetOf, pagedAnswer, pagedParameters } from '../http/listing.ts'
import { maskSecrets } from './masked-secrets.ts'
import { missingThings, readNamedThings } from './named-things.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { assignQuery, booleanParameter, idParameter, textsParameter } from '../http/parameters.ts'
import { type Definition, decrypt } from './encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'

const TAG = 'Checks'
const PATH = '/v1/checks'
const ONE = `${PATH}/{id}`
const params = { id: idParameter('check') }
const answers = { status: 200 as const, schema: Check, description: 'The check' }
const applyGroupSettings = booleanParameter('Checks as they hold with the settings of their group')
const PLACES =
  'It runs in the private locations that it or its group names; `locations` (public regions) are kept and do not exist on a platform of your own. Fields of other types are accepted and dropped; a null list is empty.'

/** The operations on monitors. */
export function checkOperations(parts: MonitorParts): DefinedOperation[] {
  return [
    list(parts),
    ...DEFINED_TYPES.flatMap((checkType) => ofType(parts, checkType)),
    read(parts),
    ...changes(parts),
    remove(parts),
  ]
}

function list({ database, cipher }: MonitorParts): DefinedOperation {
  return defineOperation({
    operationId: 'getV1Checks',
    tag: TAG,
    summary: 'List checks',
    description: 'Newest first.',
    method: 'get',
    path: PATH,
    action: 'read',
    query: {
      ...pagedParameters(),
      tag: textsParameter('Only checks with at least one of these tags'),
      groupId: z
        .string()
        .regex(/^\d{1,15}$/, 'must be the number of a group')
        .transform(Number)
        .optional()
        .openapi({ type: 'integer', description: 'Only checks of this group' }),
      checkType: z.enum(DEFINED_TYPES).optional().openapi({ description: 'Only checks of a type' }),
      search: z.string().min(1).optional().openapi({ description: 'Part of the name' }),
      name: z.string().min(1).optional().openapi({ description: 'The whole name, exactly' }),
      status: z.enum(CHECK_STATES).optional().openapi({
        description:
          'Only checks in this state: `failing` has failures or errors, `degraded` neither, `passing` passed',
      }),
      applyGroupSettings,
    },
    lists: ['tag'],
    answers: {
      status: 200,
      schema: z.array(Check),
      description: 'A page of checks',
      hasContentRange: true,
    },
    async answer({ key: { accountId }, query }) {
      const { limit, tag: tags = null, groupId = null, checkType = null } = query
      const { search = null, name = null } = query
      const ids =
        query.status === undefined ? null : await idsInState(database, accountId, query.status)
      const filters = { tags, groupId, checkType, search, name, ids }
      const rows = await listMonitors(database, {
        accountId,
        limit,
        offset: offsetOf(query),
        filters,
      })
      const total = await countListedMonitors(database, accountId, filters)
      return pagedAnswer(
        query,
        rows.map((row) => wireForm(cipher, row, query.applyGroupSettings)),
        total,
      )
    },
  })
}

function ofType(parts: MonitorParts, checkType: DefinedType): DefinedOperation[] {
  const part = definitionOf(checkType).path
  const common = {
    tag: TAG,
    action: 'write' as const,
    body: CheckFields,
    bodyShown: checkInput(checkType),
    conflict: 'The account has as many checks as it may have, or another has the pingToken',
  }
  return [
    defineOperation({
      ...common,
      operationId: `postV1Checks${capitalized(part)}`,
      summary: `Create a check of type ${checkType}`,
      description: PLACES,
      method: 'post',
      path: `${PATH}/${part}`,
      query: assignQuery,
      answers: { ...answers, status: 201 },
      answer: async ({ key: { accountId }, body }) => ({
        status: 201,
        json: await create(parts, accountId, checkType, body),
      }),
    }),
    defineOperation({
      ...common,
      operationId: `putV1Checks${capitalized(part)}Id`,
      summary: `Replace a check of type ${checkType}`,
      description: `${PLACES} A secret value that is sent back masked stays unchanged.`,
      method: 'put',
      path: `${PATH}/${part}/{id}`,
      params,
      query: assignQuery,
      answers,
      answer: ({ key: { accountId }, params: { id }, body }) =>
        replace(parts, { accountId, id, checkType }, () => body),
    }),
  ]
}

function read({ database, cipher }: MonitorParts): DefinedOperation {
  return defineOperation({
    operationId: 'getV1ChecksId',
    tag: TAG,
    summary: 'Read a check',
    method: 'get',
    path: ONE,
    action: 'read',
    params,
    query: { applyGroupSettings },
    answers,
    async answer({ key, params: { id }, query }) {
      const row = await readMonitor(database, key.accountId, id)
      if (row === undefined) throw notFound('check')
      const shown = wireForm(cipher, row, query.applyGroupSettings)
      return { status: 200, json: JSON.stringify(shown) }
    },
  })
}

function changes(parts: MonitorParts): DefinedOperation[] {
  const common = {
    tag: TAG,
    path: ONE,
    action: 'write' as const,
    params,
    body: CheckFields,
    answers,
  }
  return [
    defineOperation({
      ...common,
      operationId: 'putV1ChecksId',
      summary: 'Replace a check of any type',
      method: 'put',
      query: assignQuery,
      answer: ({ key: { accountId }, params: { id }, body }) =>
        replace(parts, { accountId, id }, () => body),
    }),
    defineOperation({
      ...common,
      operationId: 'patchV1ChecksId',
      summary: 'Change some fields of a check',
      description: 'A field that is given is replaced as a whole, `request` too.',
      method: 'patch',
      answer: ({ key: { accountId }, params: { id }, body }) =>
        replace(parts, { accountId, id }, (stored) => ({ ...stored, ...body })),
    }),
  ]
}

function remove(parts: MonitorParts): DefinedOperation {
  return defineOperation({
    operationId: 'deleteV1ChecksId',
    tag: TAG,
    summary: 'Delete a check',
    description: 'Its results stay until their retention ends.',
    method: 'delete',
    path: ONE,
    action: 'write',
    params,
    answers: { status: 204, description: 'The check is deleted' },
    async answer({ key: { accountId }, params: { id } }) {
      const gone = await changing(parts, accountId, (tx) =>
        removeChecks(tx, parts, accountId, [id]),
      )
      if (gone.length === 0) throw notFound('check')
      return { status: 204 }
    },
  })
}

async function create(
  parts: MonitorParts,
  accountId: string,
  checkType: DefinedType,
  body: Definition,
): Promise<string> {
  const id = randomUUID()
  const row = await changing(parts, accountId, async (tx) => {
    if ((await countMonitors(tx, accountId)) >= LIMITS.monitorsMax) {
      throw new ApiError(409, `An account has at most ${LIMITS.monitorsMax} checks; delete some`)
    }
    const check = { id, checkType, definition: {}, file: null }
    await draftAndSave(tx, parts, { accountId, check, body })
    return readMonitor(tx, accountId, id)
  })
  return row === undefined ? '' : JSON.stringify(wireForm(parts.cipher, row))
}

async function replace(
  parts: MonitorParts,
  of: { accountId: string; id: string; checkType?: DefinedType },
  bodyOf: (stored: Definition) => Definition,
): Promise<{ status: 200; json: string }> {
  const { accountId, id } = of
  const row = await changing(parts, accountId, async (tx) => {
    const before = await readMonitor(tx, accountId, id)
    const isOther = of.checkType !== undefined && before?.check_type !== of.checkType
    if (before === undefined || isOther) throw notFound('check')
    const check = storedCheck(parts.cipher, before)
    const body = bodyOf(check.definition)
    await draftAndSave(tx, parts, { accountId, check, body })
    return readMonitor(tx, accountId, id)
  })
  return { status: 200, json: row === undefined ? '' : JSON.stringify(wireForm(parts.cipher, row)) }
}

/** Stores `body` as the definition of a new or existing check. */
async function draftAndSave(
  tx: Queryable,
  parts: MonitorParts,
  { accountId, check, body: sent }: { accountId: string; check: StoredCheck; body: Definition },
): Promise<void> {
  const body = clientCheck(sent, definitionOf(check.checkType).schema)
  const { groupId } = body
  const groupIds = typeof groupId === 'number' && Number.isSafeInteger(groupId) ? [groupId] : []
  const checkContext = await readCheckContext(tx, parts, { accountId, groupIds })
  const draft = draftCheck(check.checkType, body, { stored: check.definition, checkContext })
  if (!draft.ok) throw new ApiError(400, problemText(draft.problems))
  const drafted = { ...check, definition: draft.definition }
  const settled = effectiveCheck(drafted, checkContext)
  const things = await readNamedThings(tx, accountId, [draft.definition])
  const missing = missingThings(draft.definition, check.definition, things)
  const problems = 'problems' in settled ? [...settled.problems, ...missing] : missing
  if ('problems' in settled || problems.length > 0) throw new ApiError(400, problemText(problems))
  await saveChecks(tx, parts, accountId, [{ ...drafted, settled }])
}

/** A monitor in the API: its own definition, or the effective one with its group; secret values masked. */
export function wireForm(cipher: Cipher, row: MonitorRow, withGroup = false): Definition {
  return {
    ...maskSecrets(decrypt(cipher, withGroup ? row.effective : row.definition)),
    id: row.id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at?.toISOString() ?? null,
  }
}

function capitalized(name: string): string {
  return `${name[0]?.toUpperCase()}${name.slice(1)}`
}
