// Plan of applying a file of monitors: compares the file with the stored state.
import { randomUUID } from 'node:crypto'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import type { AppliedMonitor, PlannedChange } from '../../contract/api/apply.ts'
import type { CheckGroup } from '../../contract/api/check-group.ts'
import { SECRET_MASK } from '../../contract/api/resource.ts'
import type { Queryable } from '../../database/database.ts'
import { monitorsOfGroups, type MonitorRow } from '../checks/queries/monitors.ts'
import { type ApplyContext, breathe, object, objectToTwins } from './context.ts'
import { draftAnyCheck, draftGroup } from '../checks/draft.ts'
import { differences, differsFromStored, resettled, type SettledCheck } from '../checks/writing.ts'
import { effectiveCheck, locationProblems } from '../checks/effective.ts'
import { isPinged } from '../../monitors/definitions.ts'
import { missingThings } from '../checks/named-things.ts'
import { asStored, type Definition } from '../checks/encrypted-monitor.ts'
import type { AccountVariableFields } from '../variables/queries.ts'

/** A group to be added or changed; `id` is negative until it has one. */
export interface GroupToWrite {
  id: number
  key: string
  line: PlannedChange
  definition: Definition
}

/** A monitor to be written, and its line where it has one. */
export interface MonitorToWrite {
  check: SettledCheck
  line: PlannedChange | undefined
}

export interface ApplyPlan {
  lines: PlannedChange[]
  groups: GroupToWrite[]
  monitors: MonitorToWrite[]
  variables: Omit<AccountVariableFields, 'fileName'>[]
  gone: { groups: number[]; monitors: string[]; variables: string[] }
  /** Where the file's monitors are to be, by their ids. */
  groupOf: Map<string, number | null>
}

/** Makes the plan. Problems are added to the context; with problems the plan must not be used. */
export async function planApply(context: ApplyContext): Promise<ApplyPlan> {
  const plan: ApplyPlan = {
    lines: [],
    groups: [],
    monitors: [],
    variables: [],
    gone: { groups: [], monitors: [], variables: [] },
    groupOf: new Map(),
  }
  const { request } = context
  objectToTwins(context, 'group', keysOf(request.groups))
  objectToTwins(context, 'monitor', keysOf(request.monitors))
  objectToTwins(context, 'variable', keysOf(request.variables))
  const removed = removals(context, plan)
  const groupIds = planGroups(context, plan)
  const variables = planVariables(context, plan)
  for (const [index, one] of request.monitors.entries()) {
    planMonitor(context, plan, one, groupIds)
    await breathe(context.tx, index)
  }
  plan.lines.push(...variables, ...removed)
  await planOtherMembers(context, plan)
  await objectToMembers(context, plan)
  return plan
}

function keysOf(all: readonly { key: string }[]): string[] {
  return all.map((one) => one.key)
}

/** Plans the groups; answers with the id of each by its key. */
function planGroups(context: ApplyContext, plan: ApplyPlan): Map<string, number> {
  const ids = new Map<string, number>()
  const { locations, groups } = context.checkContext
  for (const [index, { key, definition: given }] of context.request.groups.entries()) {
    const before = context.groups.get(key)
    const id = before?.id ?? -1 - index
    ids.set(key, id)
    const draft = draftGroup(given, before?.definition)
    if (!draft.ok) {
      object(context, { kind: 'group', key }, draft.problems)
      continue
    }
    const definition = asStored(draft.definition)
    const { name, privateLocations } = definition as CheckGroup
    object(context, { kind: 'group', key }, [
      ...locationProblems(privateLocations ?? [], locations),
      ...missingThings(definition, before?.definition, context.things),
    ])
    groups.set(id, definition as CheckGroup)
    const changes = before === undefined ? [] : differences(before.definition, definition)
    const line: PlannedChange = { ...lineOf(before, changes), kind: 'group', key, name, changes }
    if (before !== undefined) line.id = before.id
    plan.lines.push(line)
    if (line.action !== 'unchanged') plan.groups.push({ id, key, line, definition })
  }
  return ids
}

function planVariables(context: ApplyContext, plan: ApplyPlan): PlannedChange[] {
  const lines = context.request.variables.map(({ key, value: given, locked, secret }) => {
    const before = context.variables.get(key)
    const isMasked = secret && given === SECRET_MASK
    if (isMasked && before?.row.secret !== true) {
      const message = `${SECRET_MASK} stands for a stored value, and there is none`
      object(context, { kind: 'variable', key }, [{ path: ['value'], message }])
    }
    const value = isMasked ? (before?.value ?? '') : given
    context.checkContext.variables.set(key, value)
    const was = before && {
      value: before.value,
      locked: before.row.locked,
      secret: before.row.secret,
    }
    const changes = was === undefined ? [] : differences(was, { value, locked, secret })
    const line = { ...lineOf(before, changes), kind: 'variable' as const, key, name: key, changes }
    if (line.action !== 'unchanged') plan.variables.push({ key, value, locked, secret })
    return line
  })
  if (context.checkContext.variables.size > API_BOUNDS.variablesMax) {
    const message = `the account would have more than ${API_BOUNDS.variablesMax} variables`
    object(context, { kind: 'variable', key: lines[0]?.key ?? '' }, [{ path: [], message }])
  }
  return lines
}

function planMonitor(
  context: ApplyContext,
  plan: ApplyPlan,
  monitor: AppliedMonitor,
  groupIds: ReadonlyMap<string, number>,
): void {
  const { key } = monitor
  const of = { kind: 'monitor' as const, key }
  const groupId = monitor.group === undefined ? undefined : groupIds.get(monitor.group)
  // Problems of its group are reported for the group.
  if (groupId !== undefined && !context.checkContext.groups.has(groupId)) return
  const given = whole(context, monitor, groupId)
  if (typeof given === 'string') return object(context, of, [{ path: ['groupId'], message: given }])
  const applied = context.monitors.get(key)
  const isSameType = applied?.checkType === given['checkType']
  const before = isSameType ? applied : undefined
  const draftContext = { stored: before?.definition, checkContext: context.checkContext }
  const draft = draftAnyCheck(given, draftContext)
  if (!draft.ok) return object(context, of, draft.problems)
  const definition = asStored(draft.definition)
  const check = {
    id: before?.id ?? randomUUID(),
    checkType: draft.checkType,
    definition,
    file: { name: context.request.name, key },
  }
  const settled = effectiveCheck(check, context.checkContext)
  object(context, of, missingThings(definition, before?.definition, context.things))
  if ('problems' in settled) return object(context, of, settled.problems)
  const changes = before === undefined ? [] : differences(before.definition, definition)
  const { name } = settled.effective
  const line: PlannedChange = { ...lineOf(before, changes), ...of, name, changes }
  if (before !== undefined) line.id = before.id
  if (applied !== undefined && !isSameType) replaceType(plan, applied.row, line)
  plan.lines.push(line)
  plan.groupOf.set(check.id, settled.groupId)
  const { cipher } = context.parts
  const differs = before === undefined || differsFromStored(cipher, before.row, settled)
  if (line.action !== 'unchanged' || differs)
    plan.monitors.push({ check: { ...check, settled }, line })
}

/** The type of a monitor never changes: with another type it is another monitor. */
function replaceType(plan: ApplyPlan, row: MonitorRow, line: PlannedChange): void {
  plan.gone.monitors.push(row.id)
  line.changes = ['checkType']
}

/** The definition with what the call says about its group and its locations; a text is a problem. */
function whole(
  { request, checkContext }: ApplyContext,
  { group: groupKey, definition }: AppliedMonitor,
  groupId: number | undefined,
): Definition | string {
  const given = { ...definition }
  if (groupKey !== undefined) {
    if (groupId === undefined) return `unknown group "${groupKey}"; the file does not define it`
    given['groupId'] = groupId
  }
  const group = checkContext.groups.get(Number(given['groupId'] ?? 0))
  const isPlaced = [given, group].some(
    (one) => names(one?.privateLocations) || names(one?.locations),
  )
  const isUnplaced = !isPlaced && !isPinged(given['checkType'])
  if (isUnplaced && request.locations.length > 0) {
    given['privateLocations'] = request.locations
  }
  return given
}

function names(locations: unknown): boolean {
  return Array.isArray(locations) && locations.length > 0
}

/** Members of changed groups that are not in the file come out otherwise, too. */
async function planOtherMembers(context: ApplyContext, plan: ApplyPlan): Promise<void> {
  if (context.problems.length > 0) return
  const { parts, checkContext, tx } = context
  const own = new Set(context.request.monitors.map((one) => context.monitors.get(one.key)?.row.id))
  const gone = new Set(plan.gone.monitors)
  const updated = plan.groups.filter(({ line }) => line.action === 'update')
  const members = await membersOf(
    tx,
    updated.map(({ id }) => id),
  )
  for (const { id, key } of updated) {
    const others = (members.get(id) ?? []).filter((row) => !own.has(row.id) && !gone.has(row.id))
    const result = resettled(parts.cipher, others, checkContext)
    if ('message' in result) {
      const message = `the check "${result.name}" cannot be in this group: ${result.message}`
      object(context, { kind: 'group', key }, [{ path: [], message }])
      return
    }
    plan.monitors.push(...result.changed.map((check) => ({ check, line: undefined })))
  }
}

async function membersOf(
  tx: Queryable,
  groupIds: number[],
): Promise<Map<number | null, MonitorRow[]>> {
  const rows = groupIds.length === 0 ? [] : await monitorsOfGroups(tx, groupIds)
  return Map.groupBy(rows, (row) => row.group_id)
}

/** Groups are deleted without members only. */
async function objectToMembers(context: ApplyContext, plan: ApplyPlan): Promise<void> {
  const { groupOf, gone, lines } = plan
  const members = await membersOf(context.tx, gone.groups)
  const removedMonitors = new Set(gone.monitors)
  for (const { kind, id, key } of lines) {
    const all = kind === 'group' && typeof id === 'number' ? (members.get(id) ?? []) : []
    const left = all.filter((row) => {
      const groupId = groupOf.get(row.id)
      return groupId === undefined ? !removedMonitors.has(row.id) : groupId === id
    })
    if (left.length === 0) continue
    const message = `is no longer in the file and still has ${left.length} checks; move them first`
    object(context, { kind: 'group', key }, [{ path: [], message }])
  }
}

/** Things that were applied under this name and are no longer in the file. */
function removals(context: ApplyContext, plan: ApplyPlan): PlannedChange[] {
  const { request } = context
  if (!request.prune) return []
  const lines: PlannedChange[] = []
  const isLeft = (all: readonly { key: string }[]) => {
    const there = new Set(keysOf(all))
    return ([key]: [string, unknown]) => !there.has(key)
  }
  const add = (kind: PlannedChange['kind'], key: string, name: string, id?: string | number) =>
    lines.push({ action: 'delete', kind, key, name, changes: [], ...(id !== undefined && { id }) })
  for (const [key, { id, name }] of [...context.groups].filter(isLeft(request.groups))) {
    plan.gone.groups.push(id)
    add('group', key, name, id)
  }
  for (const [key, { row, definition }] of [...context.monitors].filter(isLeft(request.monitors))) {
    plan.gone.monitors.push(row.id)
    add('monitor', key, String(definition['name']), row.id)
  }
  for (const [key, { row }] of [...context.variables].filter(isLeft(request.variables))) {
    if (row.file_name !== request.name) continue
    plan.gone.variables.push(key)
    context.checkContext.variables.delete(key)
    add('variable', key, key)
  }
  return lines
}

function lineOf(before: unknown, changes: readonly string[]): Pick<PlannedChange, 'action'> {
  if (before === undefined) return { action: 'create' }
  return { action: changes.length > 0 ? 'update' : 'unchanged' }
}
