// Effective form of a definition: the settings of its group applied, its locations, its slots in each of them,
// and the abilities that an agent needs.
import { effectiveMonitor, isPinged, needsOf } from '../../monitors/definitions.ts'
import { type CheckGroup, inheritanceProblem } from '../../contract/api/check-group.ts'
import type { Monitor } from '../../contract/monitor.ts'
import { slotsOf, turnsOf } from '../../contract/timetable.ts'
import type { WantedPlacement } from './queries/placements.ts'
import type { DraftProblem } from '../http/draft-problem.ts'
import type { Definition } from './encrypted-monitor.ts'

/** What definitions of an account may refer to. */
export interface CheckContext {
  /** Slug name → id of every private location. */
  locations: ReadonlyMap<string, string>
  groups: ReadonlyMap<number, CheckGroup>
  variables: ReadonlyMap<string, string>
}

/** A definition and what follows from it. */
export interface EffectiveCheck {
  effective: Monitor
  groupId: number | null
  /** Locations that the definition or its group names for it. */
  locationIds: string[]
  wanted: WantedPlacement[]
}

/** Computes the effective form of `definition`, or the problems of its references. */
export function effectiveCheck(
  check: { id: string; definition: Readonly<Definition> },
  { locations, groups }: CheckContext,
): EffectiveCheck | { problems: DraftProblem[] } {
  const own = { ...check.definition, id: check.id } as Monitor
  const groupId = typeof own.groupId === 'number' ? own.groupId : null
  const group = groupId === null ? undefined : groups.get(groupId)
  if (groupId !== null && group === undefined) {
    return { problems: [{ path: ['groupId'], message: `unknown group ${groupId}` }] }
  }
  const effective = effectiveMonitor(own, group)
  const slugs = [...new Set(effective.privateLocations ?? [])]
  const named = [...new Set([...(own.privateLocations ?? []), ...slugs])]
  const problems = locationProblems(named, locations)
  const isElsewhere = (effective.locations ?? []).length > 0
  if (slugs.length === 0 && !isElsewhere && !isPinged(own.checkType)) {
    const message = `no location is set, so no agent would run it; ${knownLocations(locations)}`
    problems.push({ path: ['privateLocations'], message })
  }
  const grown = inheritanceProblem(effective)
  if (grown !== undefined) problems.push({ path: [], message: grown })
  if (problems.length > 0) return { problems }
  const ids = (some: string[]) => some.map((slug) => locations.get(slug) ?? '')
  return {
    effective,
    groupId,
    locationIds: ids(named),
    wanted: wantedPlacements(effective, ids(slugs)),
  }
}

const KNOWN_SHOWN = 20

/** Problems of the locations that a definition names. */
export function locationProblems(
  slugs: readonly string[],
  locations: ReadonlyMap<string, string>,
): DraftProblem[] {
  const unknown = slugs.filter((slug) => !locations.has(slug))
  return unknown.map((slug) => ({
    path: ['privateLocations'],
    message: `unknown private location "${slug}"; ${knownLocations(locations)}`,
  }))
}

/** The locations of the account, for messages. */
function knownLocations(locations: ReadonlyMap<string, string>): string {
  const known = [...locations.keys()].toSorted().slice(0, KNOWN_SHOWN)
  return known.length === 0 ? 'there is none yet' : `there are ${known.join(', ')}`
}

function wantedPlacements(monitor: Monitor, locationIds: readonly string[]): WantedPlacement[] {
  if (!monitor.activated || isPinged(monitor.checkType)) return []
  const slots = slotsOf(monitor)
  const needs = needsOf(monitor)
  return locationIds.map((locationId, index) => ({
    locationId,
    needs,
    slots: monitor.runParallel ? slots : turnsOf(slots, index, locationIds.length),
  }))
}
