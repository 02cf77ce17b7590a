// Writes groups of monitors, and works their members out anew.
import type { CheckGroup } from '../../contract/api/check-group.ts'
import { changeCheckGroups, type CheckGroupRow, insertCheckGroups } from './queries.ts'
import type { Queryable } from '../../database/database.ts'
import { monitorsOfGroups } from '../checks/queries/monitors.ts'
import { readCheckContext, resettled, saveChecks, type MonitorParts } from '../checks/writing.ts'
import { locationProblems, type CheckContext } from '../checks/effective.ts'
import { ApiError } from '../http/errors.ts'
import { problemText } from '../http/draft-problem.ts'
import { type Definition, encryptDefinition } from '../checks/encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'

/** A checked definition of a group. */
export interface GroupToSave {
  /** Null for a new one. */
  id: number | null
  definition: Definition
  /** Which file a new one came from, and its key there. */
  file: { name: string; key: string } | null
}

/**
 * Adds groups, and replaces others without a look at their members; those that the account has not are left out.
 * Throws ApiError 400 for locations that are not there.
 */
export async function saveGroups(
  tx: Queryable,
  { cipher }: MonitorParts,
  accountId: string,
  { groups, locations }: { groups: readonly GroupToSave[] } & Pick<CheckContext, 'locations'>,
): Promise<CheckGroupRow[]> {
  const rows = groups.map(({ id, definition, file }) => ({
    id,
    ...groupFields(cipher, definition, locations),
    fileName: file?.name ?? null,
    fileKey: file?.key ?? null,
  }))
  const { old = [], added = [] } = Object.groupBy(rows, ({ id }) => (id === null ? 'added' : 'old'))
  return [
    ...(await changeCheckGroups(tx, accountId, old)),
    ...(await insertCheckGroups(tx, accountId, added)),
  ]
}

/**
 * Replaces a group and all that follows for its members; undefined when the account has none of that
 * id. Throws ApiError 400 where a member could not be so. To be called inside `changing`.
 */
export async function replaceGroup(
  tx: Queryable,
  parts: MonitorParts,
  accountId: string,
  { id, definition }: { id: number; definition: Definition },
): Promise<CheckGroupRow | undefined> {
  const before = await readCheckContext(tx, parts, { accountId, groupIds: [] })
  const { locations } = before
  const changed = { groups: [{ id, definition, file: null }], locations }
  const [row] = await saveGroups(tx, parts, accountId, changed)
  if (row === undefined) return undefined
  const groups = new Map([[id, definition as CheckGroup]])
  const result = resettled(parts.cipher, await monitorsOfGroups(tx, [id]), {
    ...before,
    groups,
  })
  if ('message' in result) {
    throw new ApiError(400, `The check "${result.name}" cannot be in this group: ${result.message}`)
  }
  await saveChecks(tx, parts, accountId, result.changed)
  return row
}

/** The stored fields of a group. Throws ApiError 400 for unknown locations. */
function groupFields(
  cipher: Cipher,
  definition: Definition,
  locations: ReadonlyMap<string, string>,
): { name: string; definition: string; locationIds: string[] } {
  const { name, privateLocations } = definition as CheckGroup
  const slugs = [...new Set(privateLocations ?? [])]
  const problems = locationProblems(slugs, locations)
  if (problems.length > 0) throw new ApiError(400, problemText(problems))
  return {
    name,
    definition: encryptDefinition(cipher, definition),
    locationIds: slugs.map((slug) => locations.get(slug) ?? ''),
  }
}
