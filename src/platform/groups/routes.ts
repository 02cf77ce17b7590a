// Groups of monitors: listed, made, read, replaced, changed and deleted in the public wire form.
import * as z from 'zod'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { CheckGroup, NO_API_CHECK_DEFAULTS } from '../../contract/api/check-group.ts'
import { CheckFields, CheckGroupInput, CheckGroupRead } from '../checks/schema.ts'
import {
  type CheckGroupRow,
  countCheckGroups,
  countListedGroups,
  deleteCheckGroups,
  listCheckGroups,
  readCheckGroups,
} from './queries.ts'
import type { Queryable } from '../../database/database.ts'
import { draftGroup } from '../checks/draft.ts'
import { clientGroup } from '../checks/client-definition.ts'
import { problemText } from '../http/draft-problem.ts'
import { changing, type MonitorParts, readCheckContext } from '../checks/writing.ts'
import { notFound, ApiError } from '../http/errors.ts'
import { addGroups, groupDefinition, replaceGroup } from './writing.ts'
import { offsetOf, pagedAnswer, pagedParameters } from '../http/listing.ts'
import { maskSecrets } from '../checks/masked-secrets.ts'
import { missingThings, readNamedThings } from '../checks/named-things.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { assignQuery, NUMBER_LIKE, numberParameter, textsParameter } from '../http/parameters.ts'
import type { Definition } from '../checks/encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'

const TAG = 'Check Groups'
/** Versions of the same resource. */
const VERSIONS = ['v1', 'v2'] as const
type Version = (typeof VERSIONS)[number]
const pathOf = (version: Version) => `/${version}/check-groups`
const onePathOf = (version: Version) => `${pathOf(version)}/{id}`
/** How ids of operations begin: `getV1Checkgroups`. */
const named = (verb: string, version: Version) => `${verb}${version.toUpperCase()}Checkgroups`
const params = { id: numberParameter('group') }
const looks = { id: NUMBER_LIKE }
const answers = { status: 200 as const, schema: CheckGroupRead, description: 'The group' }

/** The operations on groups, the same for each version. */
export function checkGroupOperations(parts: MonitorParts): DefinedOperation[] {
  return VERSIONS.flatMap((version) => [
    ...reads(parts, version),
    ...writes(parts, version),
    remove(parts, version),
  ])
}

function reads({ database, cipher }: MonitorParts, version: Version): DefinedOperation[] {
  return [
    defineOperation({
      operationId: named('get', version),
      tag: TAG,
      summary: 'List groups of checks',
      description: 'Newest first.',
      method: 'get',
      path: pathOf(version),
      action: 'read',
      query: { ...pagedParameters(), name: textsParameter('Only groups of these names') },
      lists: ['name'],
      answers: {
        status: 200,
        schema: z.array(CheckGroupRead),
        description: 'A page of groups',
        hasContentRange: true,
      },
      async answer({ key: { accountId }, query }) {
        const ask = {
          accountId,
          limit: query.limit,
          offset: offsetOf(query),
          names: query.name ?? null,
        }
        const rows = await listCheckGroups(database, ask)
        const total = await countListedGroups(database, accountId, query.name ?? null)
        return pagedAnswer(
          query,
          rows.map((row) => wireForm(cipher, row)),
          total,
        )
      },
    }),
    defineOperation({
      operationId: `${named('get', version)}Id`,
      tag: TAG,
      summary: 'Read a group of checks',
      method: 'get',
      path: onePathOf(version),
      action: 'read',
      params,
      looks,
      answers,
      async answer({ key, params: { id } }) {
        const [row] = await readCheckGroups(database, key.accountId, [id])
        return found(cipher, row)
      },
    }),
  ]
}

function writes(parts: MonitorParts, version: Version): DefinedOperation[] {
  const { cipher } = parts
  const common = {
    tag: TAG,
    action: 'write' as const,
    body: CheckFields,
    bodyShown: CheckGroupInput,
  }
  const onOne = { path: onePathOf(version), params, looks, answers }
  return [
    defineOperation({
      ...common,
      operationId: named('post', version),
      summary: 'Create a group of checks',
      description: 'Checks join it by their `groupId`.',
      method: 'post',
      path: pathOf(version),
      query: assignQuery,
      conflict: 'The account has as many groups as it may have',
      answers: { ...answers, status: 201 },
      async answer({ key: { accountId }, body }) {
        const row = await changing(parts, accountId, async (tx) => {
          const definition = await draft(tx, { accountId, body })
          if ((await countCheckGroups(tx, accountId)) >= API_BOUNDS.checkGroupsMax) {
            throw new ApiError(409, `An account has at most ${API_BOUNDS.checkGroupsMax} groups`)
          }
          const ask = { accountId, groupIds: [] }
          const { locations } = await readCheckContext(tx, parts, ask)
          const groups = [{ definition, file: null }]
          return (await addGroups(tx, parts, accountId, { groups, locations }))[0]
        })
        return { status: 201, json: row === undefined ? '' : JSON.stringify(wireForm(cipher, row)) }
      },
    }),
    defineOperation({
      ...common,
      ...onOne,
      operationId: `${named('put', version)}Id`,
      summary: 'Replace a group of checks',
      description: 'What its members take over from it changes with it.',
      method: 'put',
      query: assignQuery,
      answer: ({ key: { accountId }, params: { id }, body }) =>
        replace(parts, { accountId, id }, () => body),
    }),
    defineOperation({
      ...common,
      ...onOne,
      bodyShown: CheckFields,
      operationId: `${named('patch', version)}Id`,
      summary: 'Change some fields of a group of checks',
      description:
        'A field that is given is replaced as a whole. What its members take over from it changes with it.',
      method: 'patch',
      answer: ({ key: { accountId }, params: { id }, body }) =>
        replace(parts, { accountId, id }, (stored) => ({ ...stored, ...body })),
    }),
  ]
}

async function replace(
  parts: MonitorParts,
  { accountId, id }: { accountId: string; id: number },
  bodyOf: (stored: Definition) => Definition,
): Promise<{ status: 200; json: string }> {
  const row = await changing(parts, accountId, async (tx) => {
    const [before] = await readCheckGroups(tx, accountId, [id])
    if (before === undefined) throw notFound('group')
    const stored = groupDefinition(parts.cipher, before)
    const definition = await draft(tx, { accountId, body: bodyOf(stored), stored })
    return replaceGroup(tx, parts, accountId, { id, definition })
  })
  return found(parts.cipher, row)
}

function remove(parts: MonitorParts, version: Version): DefinedOperation {
  return defineOperation({
    operationId: `${named('delete', version)}Id`,
    tag: TAG,
    summary: 'Delete a group of checks',
    method: 'delete',
    path: onePathOf(version),
    action: 'write',
    params,
    looks,
    answers: { status: 204, description: 'The group is deleted' },
    conflict: 'The group has checks',
    async answer({ key: { accountId }, params: { id } }) {
      await changing(parts, accountId, async (tx) => {
        const there = await readCheckGroups(tx, accountId, [id])
        if (there.length === 0) throw notFound('group')
        const gone = await deleteCheckGroups(tx, accountId, [id])
        if (gone.length === 0) {
          throw new ApiError(409, 'The group has checks; move or delete them first')
        }
      })
      return { status: 204 }
    },
  })
}

async function draft(
  tx: Queryable,
  { accountId, body, stored }: { accountId: string; body: Definition; stored?: Definition },
): Promise<Definition> {
  const made = draftGroup(clientGroup(body, CheckGroup), stored)
  if (!made.ok) throw new ApiError(400, problemText(made.problems))
  const things = await readNamedThings(tx, accountId, [made.definition])
  const problems = missingThings(made.definition, stored, things)
  if (problems.length > 0) throw new ApiError(400, problemText(problems))
  return made.definition
}

function found(cipher: Cipher, row: CheckGroupRow | undefined): { status: 200; json: string } {
  if (row === undefined) throw notFound('group')
  return { status: 200, json: JSON.stringify(wireForm(cipher, row)) }
}

/** A group in the API: its definition with masked secrets. Clients rely on `apiCheckDefaults`. */
function wireForm(cipher: Cipher, row: CheckGroupRow): Definition {
  const definition = maskSecrets(groupDefinition(cipher, row))
  return {
    ...definition,
    apiCheckDefaults: definition['apiCheckDefaults'] ?? NO_API_CHECK_DEFAULTS,
    id: row.id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at?.toISOString() ?? null,
  }
}
