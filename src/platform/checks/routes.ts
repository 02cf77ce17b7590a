// Monitors: listed, made, read, replaced, changed and deleted in the public wire form.
import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { DEFINED_TYPES, type DefinedType, definitionOf } from '../../monitors/definitions.ts'
import { AnyCheckInput, Check, CHECK_INPUTS, CheckFields } from './schema.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { Queryable } from '../../database/database.ts'
import { countMonitors, listMonitors, readMonitor, type MonitorRow } from './queries/monitors.ts'
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
import { ApiError } from '../http/errors.ts'
import { offsetOf } from '../http/listing.ts'
import { maskSecrets } from './masked-secrets.ts'
import { missingThings, readNamedThings } from './named-things.ts'
import type { DefinedOperation } from '../http/operation.ts'
import { assignQuery, booleanParameter, idParameter, textsParameter } from '../http/parameters.ts'
import { Resource } from '../http/resource.ts'
import { type Definition, decrypt } from './encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'

const PATH = '/v1/checks'
const kind = { tag: 'Checks', one: { id: idParameter('check') }, what: 'check', schema: Check }
const checks = new Resource({ ...kind, path: PATH })
const applyGroupSettings = booleanParameter('Checks as they hold with the settings of their group')
const PLACES =
  'It runs in the private locations that it or its group names; `locations` (public regions) are kept and do not exist on a platform of your own. Fields of other types are accepted and dropped; a null list is empty.'

const filters = {
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
}

/** The operations on monitors. */
export function checkOperations(parts: MonitorParts): DefinedOperation[] {
  return [
    ...reads(parts),
    ...DEFINED_TYPES.flatMap((checkType) => ofType(parts, checkType)),
    ...changes(parts),
  ]
}

function reads({ database, cipher }: MonitorParts): DefinedOperation[] {
  return [
    checks.numberedPages(
      {
        summary: 'List checks',
        description: 'Newest first.',
        query: { ...filters, applyGroupSettings },
        lists: ['tag'],
      },
      async ({ accountId, query }) => {
        const { limit, tag: tags = null, groupId = null, checkType = null, status } = query
        const { search = null, name = null } = query
        const ids = status === undefined ? null : await idsInState(database, accountId, status)
        const { rows, total } = await listMonitors(database, {
          accountId,
          limit,
          offset: offsetOf(query),
          filters: { tags, groupId, checkType, search, name, ids },
        })
        const entries = rows.map((row) => wireForm(cipher, row, query.applyGroupSettings))
        return { entries, total }
      },
    ),
    checks.read(
      { summary: 'Read a check', query: { applyGroupSettings } },
      async ({ accountId, id, query }) => {
        const row = await readMonitor(database, accountId, id)
        return row && JSON.stringify(wireForm(cipher, row, query.applyGroupSettings))
      },
    ),
  ]
}

function ofType(parts: MonitorParts, checkType: DefinedType): DefinedOperation[] {
  const ofThisType = new Resource({ ...kind, path: `${PATH}/${definitionOf(checkType).path}` })
  const common = {
    query: assignQuery,
    body: CheckFields,
    bodyShown: CHECK_INPUTS.get(checkType),
    conflict: 'The account has as many checks as it may have, or another has the pingToken',
  }
  return [
    ofThisType.create(
      {
        ...common,
        summary: `Create a check of type ${checkType}`,
        description: PLACES,
      },
      ({ accountId, body }) => create(parts, accountId, checkType, body),
    ),
    ofThisType.replace(
      {
        ...common,
        summary: `Replace a check of type ${checkType}`,
        description: `${PLACES} A secret value that is sent back masked stays unchanged.`,
      },
      ({ accountId, id, body }) => replace(parts, { accountId, id, checkType }, () => body),
    ),
  ]
}

function changes(parts: MonitorParts): DefinedOperation[] {
  return [
    checks.replace(
      {
        summary: 'Replace a check of any type',
        query: assignQuery,
        body: CheckFields,
        bodyShown: AnyCheckInput,
      },
      ({ accountId, id, body }) => replace(parts, { accountId, id }, () => body),
    ),
    checks.change(
      {
        summary: 'Change some fields of a check',
        description: 'A field that is given is replaced as a whole, `request` too.',
        body: CheckFields,
      },
      ({ accountId, id, body }) =>
        replace(parts, { accountId, id }, (stored) => ({ ...stored, ...body })),
    ),
    checks.remove(
      {
        summary: 'Delete a check',
        description: 'Its results stay until their retention ends.',
      },
      async ({ accountId, id }) => {
        const gone = await changing(parts, accountId, (tx) =>
          removeChecks(tx, parts, accountId, [id]),
        )
        return gone.length > 0
      },
    ),
  ]
}

async function create(
  parts: MonitorParts,
  accountId: string,
  checkType: DefinedType,
  body: Definition,
): Promise<string | undefined> {
  return changing(parts, accountId, async (tx) => {
    if ((await countMonitors(tx, accountId)) >= LIMITS.monitorsMax) {
      throw new ApiError(409, `An account has at most ${LIMITS.monitorsMax} checks; delete some`)
    }
    const check = { id: randomUUID(), checkType, definition: {}, file: null }
    return draftAndSave(tx, parts, { accountId, check, body })
  })
}

/** Replaces a check by `bodyOf` what is stored; undefined where there is none, or one of another type. */
function replace(
  parts: MonitorParts,
  of: { accountId: string; id: string; checkType?: DefinedType },
  bodyOf: (stored: Definition) => Definition,
): Promise<string | undefined> {
  const { accountId, id } = of
  return changing(parts, accountId, async (tx) => {
    const before = await readMonitor(tx, accountId, id)
    const isOther = of.checkType !== undefined && before?.check_type !== of.checkType
    if (before === undefined || isOther) return undefined
    const check = storedCheck(parts.cipher, before)
    return draftAndSave(tx, parts, { accountId, check, body: bodyOf(check.definition) })
  })
}

/** Stores `body` as the definition of a new or existing check, and answers with it. */
async function draftAndSave(
  tx: Queryable,
  parts: MonitorParts,
  { accountId, check, body: sent }: { accountId: string; check: StoredCheck; body: Definition },
): Promise<string | undefined> {
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
  const row = await readMonitor(tx, accountId, check.id)
  return row && JSON.stringify(wireForm(parts.cipher, row))
}

/** A monitor in the API: its own definition, or the effective one with its group; secret values masked. */
function wireForm(cipher: Cipher, row: MonitorRow, withGroup = false): Definition {
  const { id, created_at, updated_at } = row
  const definition = maskSecrets(decrypt(cipher, withGroup ? row.effective : row.definition))
  return { ...definition, id, created_at, updated_at }
}
