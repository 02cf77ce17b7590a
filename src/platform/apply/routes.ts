// Makes a whole file of monitors, groups and variables true in one call, all of it or nothing.
import { APPLY_BOUNDS, ApplyAnswer, ApplyRequest } from '../../contract/api/apply.ts'
import { LIMITS } from '../../contract/versions.ts'
import { deleteAccountVariables } from '../variables/queries.ts'
import { deleteCheckGroups } from '../groups/queries.ts'
import { countMonitors } from '../checks/queries/monitors.ts'
import { saveVariables, notifyAllLocations } from '../variables/routes.ts'
import { type ApplyContext, readApplyContext } from './context.ts'
import { type ApplyPlan, planApply } from './plan.ts'
import { changing, type MonitorParts, removeChecks, saveChecks } from '../checks/writing.ts'
import { ApiError } from '../http/errors.ts'
import { saveGroups } from '../groups/writing.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'

const BODY_MS = 60_000

/** The operation that applies a file. */
export function applyOperation(parts: MonitorParts): DefinedOperation {
  return defineOperation({
    tag: 'Apply',
    summary: 'Apply a file of checks',
    description:
      'Creates and changes the resources of the file. With `prune` it also deletes those that were applied from it and are no longer in it. All or nothing; the same call again changes nothing. The body may be compressed with gzip.',
    method: 'post',
    path: '/v1/apply',
    body: ApplyRequest,
    bodyBounds: { bodyBytesMax: APPLY_BOUNDS.bodyBytesMax, bodyMs: BODY_MS, gzip: true },
    answers: { status: 200, schema: ApplyAnswer, description: 'The plan, or the problems' },
    conflict: 'The account would have more checks than it may have',
    async answer({ key: { accountId }, body }) {
      const answer = await apply(parts, accountId, body)
      return JSON.stringify(answer)
    },
  })
}

function apply(
  parts: MonitorParts,
  accountId: string,
  request: ApplyRequest,
): Promise<ApplyAnswer> {
  return changing(parts, accountId, async (tx) => {
    const context = await readApplyContext(tx, parts, accountId, request)
    const plan = await planApply(context)
    const { problems } = context
    if (problems.length > 0) return { plan: [], applied: false, problems }
    if (request.dryRun) return { plan: plan.lines, applied: false, problems }
    await carryOut(context, plan)
    return { plan: plan.lines, applied: true, problems }
  })
}

async function carryOut(context: ApplyContext, plan: ApplyPlan): Promise<void> {
  const { tx, parts, accountId, request } = context
  await removeChecks(tx, parts, accountId, plan.gone.monitors)
  await writeGroups(context, plan)
  await saveChecks(
    tx,
    parts,
    accountId,
    plan.monitors.map((one) => one.check),
  )
  for (const { check, line } of plan.monitors) if (line !== undefined) line.id = check.id
  if ((await countMonitors(tx, accountId)) > LIMITS.monitorsMax) {
    throw new ApiError(409, `An account has at most ${LIMITS.monitorsMax} checks`)
  }
  await deleteCheckGroups(tx, accountId, plan.gone.groups)
  const { cipher } = parts
  await saveVariables(
    tx,
    accountId,
    plan.variables.map((one) => ({
      ...one,
      value: cipher.encrypt(one.value),
      fileName: request.name,
    })),
  )
  const dropped = await deleteAccountVariables(tx, accountId, plan.gone.variables)
  if (dropped.length > 0) await notifyAllLocations(tx, accountId)
}

/** Writes groups; monitors that were planned with a group that had no id yet get its id. */
async function writeGroups(context: ApplyContext, plan: ApplyPlan): Promise<void> {
  const { tx, parts, accountId, request } = context
  const { locations } = context.checkContext
  const groups = plan.groups.map(({ id, key, definition }) => ({
    id: id < 0 ? null : id,
    definition,
    file: { name: request.name, key },
  }))
  const rows = await saveGroups(tx, parts, accountId, { groups, locations })
  const idOf = new Map(rows.map((row) => [row.file_key, row.id]))
  const ids = new Map<number, number>()
  for (const { id, key, line } of plan.groups) {
    line.id = idOf.get(key) ?? id
    ids.set(id, line.id)
  }
  for (const { check } of plan.monitors) {
    const id = ids.get(check.settled.groupId ?? 0)
    if (id === undefined) continue
    check.definition['groupId'] = id
    check.settled.effective.groupId = id
    check.settled.groupId = id
  }
}
