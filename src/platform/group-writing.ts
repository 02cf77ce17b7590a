// Writes groups of monitors, and works their members out anew.
import type { CheckGroup } from '../contract/check-group.ts'
import { changeCheckGroup, type CheckGroupRow, insertCheckGroup } from '../store/check-groups.ts'
import type { Queryable } from '../store/database.ts'
import { monitorsOfGroup } from '../store/monitors.ts'
import { readSurroundings, resettled, saveChecks, type MonitorParts } from './check-writing.ts'
import { locationProblems, type Surroundings } from './effective-check.ts'
import { ApiError } from './errors.ts'
import { problemWords } from './check-draft.ts'
import { type Definition, openSealed, sealDefinition } from './sealed-monitor.ts'
import type { Sealer } from './sealing.ts'

/** A checked definition of a group. */
export interface KeptGroup {
  definition: Definition
  /** Which file it came from, and its key there. */
  file: { name: string; key: string } | null
}

/** Adds a group, which has no members yet. Throws ApiError 400 for locations that are not there. */
export async function addGroup(
  inside: Queryable,
  { sealer }: MonitorParts,
  accountId: string,
  { definition, file, locations }: KeptGroup & Pick<Surroundings, 'locations'>,
): Promise<CheckGroupRow> {
  return insertCheckGroup(inside, accountId, {
    ...groupFields(sealer, definition, locations),
    fileName: file?.name ?? null,
    fileKey: file?.key ?? null,
  })
}

/**
 * Replaces a group without a look at its members; undefined when the account has none of that id.
 * Throws ApiError 400 for locations that are not there.
 */
export function changeGroup(
  inside: Queryable,
  { sealer }: MonitorParts,
  accountId: string,
  group: { id: number; definition: Definition } & Pick<Surroundings, 'locations'>,
): Promise<CheckGroupRow | undefined> {
  const { id, definition, locations } = group
  const fields = groupFields(sealer, definition, locations)
  return changeCheckGroup(inside, accountId, { id, ...fields })
}

/**
 * Replaces a group and all that follows for its members; undefined when the account has none of that
 * id. Throws ApiError 400 where a member could not be so. To be called inside `changing`.
 */
export async function replaceGroup(
  inside: Queryable,
  parts: MonitorParts,
  accountId: string,
  { id, definition }: { id: number; definition: Definition },
): Promise<CheckGroupRow | undefined> {
  const before = await readSurroundings(inside, parts, { accountId, groupIds: [] })
  const { locations } = before
  const row = await changeGroup(inside, parts, accountId, { id, definition, locations })
  if (row === undefined) return undefined
  const groups = new Map([[id, definition as CheckGroup]])
  const result = resettled(parts.sealer, await monitorsOfGroup(inside, id), { ...before, groups })
  if ('message' in result) {
    throw new ApiError(400, `The check "${result.name}" cannot be in this group: ${result.message}`)
  }
  await saveChecks(inside, parts, accountId, result.changed)
  return row
}

/** What the database keeps of a group. Throws ApiError 400 for locations that are not there. */
function groupFields(
  sealer: Sealer,
  definition: Definition,
  locations: ReadonlyMap<string, string>,
): { name: string; definition: string; locationIds: string[] } {
  const { name, privateLocations } = definition as CheckGroup
  const slugs = [...new Set(privateLocations ?? [])]
  const problems = locationProblems(slugs, locations)
  if (problems.length > 0) throw new ApiError(400, problemWords(problems))
  return {
    name,
    definition: sealDefinition(sealer, definition),
    locationIds: slugs.map((slug) => locations.get(slug) ?? ''),
  }
}

/** The definition of a group's row. */
export function groupDefinition(sealer: Sealer, row: CheckGroupRow): Definition {
  return openSealed(sealer, row.definition)
}
