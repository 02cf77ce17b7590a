// Groups of monitors: listed, made, read, replaced, changed and deleted in the public wire form.
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { CheckGroup, NO_API_CHECK_DEFAULTS } from '../../contract/api/check-group.ts'
import { CheckFields, CheckGroupInput, CheckGroupRead } from '../checks/schema.ts'
import {
  type CheckGroupRow,
  countCheckGroups,
  deleteCheckGroups,
  listCheckGroups,
  readCheckGroups,
} from './queries.ts'
import type { Queryable } from '../../database/database.ts'
import { draftGroup } from '../checks/draft.ts'
import { clientGroup } from '../checks/client-definition.ts'
import { problemText } from '../http/draft-problem.ts'
import { changing, type MonitorParts, readCheckContext } from '../checks/writing.ts'
import { ApiError } from '../http/errors.ts'
import { replaceGroup, saveGroups } from './writing.ts'
import { offsetOf } from '../http/listing.ts'
import { maskSecrets } from '../checks/masked-secrets.ts'
import { missingThings, readNamedThings } from '../checks/named-things.ts'
import type { DefinedOperation } from '../http/operation.ts'
import { assignQuery, numberParameter, textsParameter } from '../http/parameters.ts'
import { Resource } from '../http/resource.ts'
import { type Definition, decrypt } from '../checks/encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'

/** The operations on groups: `/v1` and `/v2` are the same resource. */
export function checkGroupOperations(parts: MonitorParts): DefinedOperation[] {
  return ['/v1/check-groups', '/v2/check-groups'].flatMap((path) => {
    const groups = new Resource({
      tag: 'Check Groups',
      path,
      one: { id: numberParameter('group') },
      what: 'group',
      schema: CheckGroupRead,
    })
    return [...readsAndRemoval(parts, groups), ...writes(parts, groups)]
  })
}

type Groups = Resource<{ id: ReturnType<typeof numberParameter> }>

function readsAndRemoval(parts: MonitorParts, groups: Groups): DefinedOperation[] {
  const { database, cipher } = parts
  return [
    groups.numberedPages(
      {
        summary: 'List groups of checks',
        description: 'Newest first.',
        query: { name: textsParameter('Only groups of these names') },
        lists: ['name'],
      },
      async ({ accountId, query }) => {
        const { limit, name: names = null } = query
        const ask = { accountId, limit, offset: offsetOf(query), names }
        const { rows, total } = await listCheckGroups(database, ask)
        return { entries: rows.map((row) => wireForm(cipher, row)), total }
      },
    ),
    groups.read({ summary: 'Read a group of checks' }, async ({ accountId, id }) => {
      const [row] = await readCheckGroups(database, accountId, [id])
      return row && JSON.stringify(wireForm(cipher, row))
    }),
    groups.remove(
      { summary: 'Delete a group of checks', conflict: 'The group has checks' },
      ({ accountId, id }) =>
        changing(parts, accountId, async (tx) => {
          const there = await readCheckGroups(tx, accountId, [id])
          if (there.length === 0) return false
          const gone = await deleteCheckGroups(tx, accountId, [id])
          if (gone.length > 0) return true
          throw new ApiError(409, 'The group has checks; move or delete them first')
        }),
    ),
  ]
}

function writes(parts: MonitorParts, groups: Groups): DefinedOperation[] {
  return [
    groups.create(
      {
        summary: 'Create a group of checks',
        description: 'Checks join it by their `groupId`.',
        query: assignQuery,
        body: CheckFields,
        bodyShown: CheckGroupInput,
        conflict: 'The account has as many groups as it may have',
      },
      ({ accountId, body }) => create(parts, accountId, body),
    ),
    groups.replace(
      {
        summary: 'Replace a group of checks',
        description: 'Inherited settings of its members change with it.',
        query: assignQuery,
        body: CheckFields,
        bodyShown: CheckGroupInput,
      },
      ({ accountId, id, body }) => replace(parts, { accountId, id }, () => body),
    ),
    groups.change(
      {
        summary: 'Change some fields of a group of checks',
        description:
          'A field that is given is replaced as a whole. Inherited settings of its members change with it.',
        body: CheckFields,
      },
      ({ accountId, id, body }) =>
        replace(parts, { accountId, id }, (stored) => ({ ...stored, ...body })),
    ),
  ]
}

function create(
  parts: MonitorParts,
  accountId: string,
  body: Definition,
): Promise<string | undefined> {
  return changing(parts, accountId, async (tx) => {
    const definition = await draft(tx, { accountId, body })
    if ((await countCheckGroups(tx, accountId)) >= API_BOUNDS.checkGroupsMax) {
      throw new ApiError(409, `An account has at most ${API_BOUNDS.checkGroupsMax} groups`)
    }
    const { locations } = await readCheckContext(tx, parts, { accountId, groupIds: [] })
    const groups = [{ id: null, definition, file: null }]
    const [row] = await saveGroups(tx, parts, accountId, { groups, locations })
    return row && JSON.stringify(wireForm(parts.cipher, row))
  })
}

function replace(
  parts: MonitorParts,
  { accountId, id }: { accountId: string; id: number },
  bodyOf: (stored: Definition) => Definition,
): Promise<string | undefined> {
  return changing(parts, accountId, async (tx) => {
    const [before] = await readCheckGroups(tx, accountId, [id])
    if (before === undefined) return undefined
    const stored = decrypt(parts.cipher, before.definition)
    const definition = await draft(tx, { accountId, body: bodyOf(stored), stored })
    const row = await replaceGroup(tx, parts, accountId, { id, definition })
    return row && JSON.stringify(wireForm(parts.cipher, row))
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

/** A group in the API: its definition with masked secrets. Clients rely on `apiCheckDefaults`. */
function wireForm(cipher: Cipher, row: CheckGroupRow): Definition {
  const { id, created_at, updated_at } = row
  const definition = maskSecrets(decrypt(cipher, row.definition))
  definition['apiCheckDefaults'] ??= NO_API_CHECK_DEFAULTS
  return { ...definition, id, created_at, updated_at }
}
