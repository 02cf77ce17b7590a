// Writes monitors, and puts them where they belong: one way for the API, for groups and for whole files.
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import type { CheckGroup } from '../../contract/api/check-group.ts'
import type { DefinedType, Heartbeat } from '../../monitors/definitions.ts'
import { lockAccount } from '../accounts/queries/accounts.ts'
import { readCheckGroups } from '../groups/queries.ts'
import type { Database, Queryable } from '../../database/database.ts'
import { deleteMonitors, writeMonitors, type MonitorRow } from './queries/monitors.ts'
import { place, type Placing } from './queries/placements.ts'
import { deleteHeartbeats } from '../heartbeats/queries/heartbeats.ts'
import { watchHeartbeats } from '../heartbeats/queries/watch.ts'
import { listAccountVariables } from '../variables/queries.ts'
import { locationIdsBySlug } from '../private-locations/queries/locations.ts'
import { bundleOf } from './named-things.ts'
import { type EffectiveCheck, effectiveCheck, type CheckContext } from './effective.ts'
import type { PlatformClock } from '../../database/platform-clock.ts'
import { asStored, type Definition, decrypt, encryptDefinition } from './encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'

export interface MonitorParts {
  database: Database
  cipher: Cipher
  clock: Pick<PlatformClock, 'now'>
}

/** A checked definition under the id that it has or is to have. */
export interface StoredCheck {
  id: string
  checkType: DefinedType
  definition: Definition
  /** Which file it came from, and its key there. */
  file: { name: string; key: string } | null
}

/** A monitor to be written, with all that follows from it. */
export interface SettledCheck extends StoredCheck {
  settled: EffectiveCheck
}

const CHANGE_STATEMENT_MS = 60_000

/** Runs `work` in a transaction that locks the account against other changes of its monitors. */
export function changing<T>(
  { database }: MonitorParts,
  accountId: string,
  work: (tx: Queryable) => Promise<T>,
): Promise<T> {
  return database.transaction(
    async (tx) => {
      await lockAccount(tx, accountId)
      return work(tx)
    },
    { statementTimeoutMs: CHANGE_STATEMENT_MS },
  )
}

/** What definitions of the account may name: its locations and variables, the groups of `groupIds`. */
export async function readCheckContext(
  tx: Queryable,
  { cipher }: Pick<MonitorParts, 'cipher'>,
  ask: { accountId: string; groupIds: readonly number[] },
): Promise<CheckContext & { groups: Map<number, CheckGroup>; variables: Map<string, string> }> {
  const locations = await locationIdsBySlug(tx, ask.accountId)
  const ids = [...new Set(ask.groupIds)]
  const rows = ids.length === 0 ? [] : await readCheckGroups(tx, ask.accountId, ids)
  const groups = new Map(rows.map((row) => [row.id, decrypt(cipher, row.definition) as CheckGroup]))
  const variables = await listAccountVariables(tx, ask.accountId, API_BOUNDS.variablesMax)
  return {
    locations,
    groups,
    variables: new Map(variables.map((row) => [row.key, cipher.decrypt(row.value)])),
  }
}

/** Writes monitors and places them. To be called inside `changing`. */
export async function saveChecks(
  tx: Queryable,
  { cipher, clock }: MonitorParts,
  accountId: string,
  checks: readonly SettledCheck[],
): Promise<void> {
  await writeMonitors(
    tx,
    accountId,
    checks.map(({ id, checkType, definition, file, settled }) => ({
      id,
      name: settled.effective.name,
      activated: settled.effective.activated,
      muted: settled.effective.muted,
      tags: settled.effective.tags,
      checkType,
      groupId: settled.groupId,
      definition: encryptDefinition(cipher, definition),
      effective: encryptDefinition(cipher, settled.effective),
      locationIds: settled.locationIds,
      bundle: bundleOf(settled.effective) ?? null,
      fileName: file?.name ?? null,
      fileKey: file?.key ?? null,
    })),
  )
  const pinged = checks.filter(({ checkType }) => checkType === 'HEARTBEAT')
  const placed = checks.filter(({ checkType }) => checkType !== 'HEARTBEAT')
  const monitors: Placing[] = placed.map(({ id, settled }) => ({
    monitorId: id,
    wanted: settled.wanted,
  }))
  const nowMs = Math.ceil(clock.now())
  await place(tx, { accountId, nowMs, monitors })
  const watched = pinged.map(({ id, settled: { effective } }) => ({
    monitorId: id,
    heartbeat: effective['heartbeat'] as Heartbeat,
    isActive: effective.activated,
  }))
  await watchHeartbeats(tx, { accountId, nowMs }, watched)
}

/** Deletes monitors and removes them from their locations; returns the ids of the existing ones. */
export async function removeChecks(
  tx: Queryable,
  { clock }: MonitorParts,
  accountId: string,
  ids: readonly string[],
): Promise<string[]> {
  const gone = await deleteMonitors(tx, accountId, ids)
  await deleteHeartbeats(tx, gone)
  const monitors = gone.map((monitorId) => ({ monitorId, wanted: [] }))
  await place(tx, { accountId, nowMs: clock.now(), monitors })
  return gone
}

/** A row as it was written. */
export function storedCheck(cipher: Cipher, row: MonitorRow): StoredCheck {
  const { id, check_type: checkType, file_name: name, file_key: key } = row
  return {
    id,
    checkType: checkType as DefinedType,
    definition: decrypt(cipher, row.definition),
    file: name === null || key === null ? null : { name, key },
  }
}

/** Whether the effective form of a monitor differs from the stored one, by its group or an older version. */
export function differsFromStored(
  cipher: Cipher,
  row: MonitorRow,
  settled: EffectiveCheck,
): boolean {
  const was = decrypt(cipher, row.effective)
  const differs = differences(was, asStored(settled.effective)).length > 0
  return differs || row.location_ids.join() !== settled.locationIds.join()
}

/**
 * Works members of changed groups out anew: those that come out as they were are left alone. Answers
 * with what is to be saved, or the first member that cannot be with the group as it now is.
 */
export function resettled(
  cipher: Cipher,
  members: readonly MonitorRow[],
  checkContext: CheckContext,
): { changed: SettledCheck[] } | { name: string; message: string } {
  const changed: SettledCheck[] = []
  for (const row of members) {
    const check = storedCheck(cipher, row)
    const settled = effectiveCheck(check, checkContext)
    if ('problems' in settled) {
      const name = String(check.definition['name'])
      return { name, message: settled.problems[0]?.message ?? '' }
    }
    if (differsFromStored(cipher, row, settled)) changed.push({ ...check, settled })
  }
  return { changed }
}

const PLACES_MAX = 50

/**
 * The places at which `after` differs from `before`, like `request.url`; the first 50 of them. Never values:
 * they may be secret.
 */
export function differences(before: unknown, after: unknown): string[] {
  const places: string[] = []
  compare(before, after, '', places)
  return places.slice(0, PLACES_MAX)
}

function compare(before: unknown, after: unknown, at: string, places: string[]): void {
  if (before === after || places.length > PLACES_MAX) return
  if (!isOpen(before) || !isOpen(after) || Array.isArray(before) !== Array.isArray(after)) {
    places.push(at)
    return
  }
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    compare(before[key], after[key], at === '' ? key : `${at}.${key}`, places)
  }
}

function isOpen(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
