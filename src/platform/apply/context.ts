// Context of applying a file of monitors: what was applied under its name before, and the things of the account
// that its definitions may name.
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  APPLY_BOUNDS,
  type ApplyKind,
  type ApplyProblem,
  type ApplyRequest,
} from '../../contract/api/apply.ts'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { type AccountVariableRow, listAccountVariables } from '../variables/queries.ts'
import { checkGroupsOfFile } from '../groups/queries.ts'
import type { Queryable } from '../../database/database.ts'
import { monitorsOfFile, type MonitorRow } from '../checks/queries/monitors.ts'
import type { DraftProblem } from '../http/draft-problem.ts'
import {
  type MonitorParts,
  readCheckContext,
  storedCheck,
  type StoredCheck,
} from '../checks/writing.ts'
import { type NamedThings, readNamedThings } from '../checks/named-things.ts'
import { type Definition, decrypt } from '../checks/encrypted-monitor.ts'

export interface ApplyContext {
  tx: Queryable
  parts: MonitorParts
  accountId: string
  request: ApplyRequest
  /** Monitors and groups that the file brought before, by their keys in it. */
  monitors: ReadonlyMap<string, StoredCheck & { row: MonitorRow }>
  groups: ReadonlyMap<string, { id: number; name: string; definition: Definition }>
  /** All variables of the account, with their values. */
  variables: ReadonlyMap<string, { row: AccountVariableRow; value: string }>
  /** Groups of the call join it under the ids that they have, or a negative one until they have one. */
  checkContext: Awaited<ReturnType<typeof readCheckContext>>
  /** Services, alert channels and code bundles that the file may name. */
  things: NamedThings
  problems: ApplyProblem[]
}

/** Reads the stored state to compare a call with. To be called inside `changing`. */
export async function readApplyContext(
  tx: Queryable,
  parts: MonitorParts,
  accountId: string,
  request: ApplyRequest,
): Promise<ApplyContext> {
  const { cipher } = parts
  const groupIds = request.monitors
    .map(({ definition }) => definition['groupId'])
    .filter((id): id is number => Number.isSafeInteger(id))
  const around = await readCheckContext(tx, parts, { accountId, groupIds })
  const variables = await listAccountVariables(tx, accountId, API_BOUNDS.variablesMax)
  const given = [...request.groups, ...request.monitors].map(({ definition }) => definition)
  const there = await readNamedThings(tx, accountId, given)
  const announced = request.dryRun ? (request.bundles ?? []) : []
  const things = { ...there, bundles: new Set([...there.bundles, ...announced]) }
  const groups = await checkGroupsOfFile(tx, accountId, request.name)
  const monitors = new Map<string, StoredCheck & { row: MonitorRow }>()
  for (const [index, row] of (await monitorsOfFile(tx, accountId, request.name)).entries()) {
    monitors.set(row.file_key ?? '', { ...storedCheck(cipher, row), row })
    await breathe(tx, index)
  }
  return {
    tx,
    parts,
    accountId,
    request,
    monitors,
    things,
    problems: [],
    groups: new Map(
      groups.map((row) => [
        row.file_key ?? '',
        { id: row.id, name: row.name, definition: decrypt(cipher, row.definition) },
      ]),
    ),
    variables: new Map(
      variables.map((row) => [row.key, { row, value: around.variables.get(row.key) ?? '' }]),
    ),
    checkContext: around,
  }
}

const TURN_EVERY = 200
const SIGN_EVERY = 5_000

/**
 * Lets other requests have their turn during long work, and shows the database that the transaction is
 * not forgotten: it ends those that say nothing for long.
 */
export async function breathe(tx: Queryable, index: number): Promise<void> {
  if (index % TURN_EVERY === TURN_EVERY - 1) await nextTurn()
  if (index % SIGN_EVERY === SIGN_EVERY - 1) await tx.query('select 1')
}

/** Adds problems of a part of the file. */
export function object(
  { problems }: ApplyContext,
  of: { kind: ApplyKind; key: string },
  found: readonly DraftProblem[],
): void {
  for (const { path, message } of found) {
    if (problems.length < APPLY_BOUNDS.problemsMax) problems.push({ ...of, path, message })
  }
}

/** Adds problems for keys that occur twice in the file. */
export function objectToTwins(
  context: ApplyContext,
  kind: ApplyKind,
  keys: readonly string[],
): void {
  const seen = new Set<string>()
  for (const key of keys) {
    if (seen.has(key)) object(context, { kind, key }, [{ path: [], message: 'is listed twice' }])
    seen.add(key)
  }
}
