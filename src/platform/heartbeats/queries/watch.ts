// Starts and ends the watch of heartbeats when their checks are written: one way for the API, groups and files.
import { createHash } from 'node:crypto'
import { type Heartbeat, heartbeatTiming } from '../../../monitors/definitions.ts'
import { isDuplicate } from '../../../database/database-failure.ts'
import type { Queryable } from '../../../database/database.ts'
import { ApiError } from '../../http/errors.ts'
import { reschedule } from '../heartbeat.ts'
import {
  deleteHeartbeats,
  expectSlots,
  internalLocation,
  lockHeartbeats,
  type HeartbeatSlot,
  writeHeartbeats,
} from './heartbeats.ts'

/** The hexadecimal hash under which a token is stored. */
export function tokenHash(token: string): string {
  return createHash('sha256').update(token.toLowerCase()).digest('hex')
}

/** A heartbeat check as it holds with its group. */
export interface WatchedHeartbeat {
  monitorId: string
  heartbeat: Heartbeat
  isActive: boolean
}

/** Watches heartbeats by their definitions. A token of another check is a duplicate of `heartbeats_token_taken`. */
export async function watchHeartbeats(
  tx: Queryable,
  { accountId, nowMs }: { accountId: string; nowMs: number },
  watched: readonly WatchedHeartbeat[],
): Promise<void> {
  if (watched.length === 0) return
  const locationId = await internalLocation(tx, accountId)
  const known = await lockHeartbeats(
    tx,
    watched.map(({ monitorId }) => monitorId),
  )
  const rows = watched.map(({ monitorId, heartbeat, isActive }) => {
    const to = { ...heartbeatTiming(heartbeat), isActive }
    const state = reschedule(known.get(monitorId), to, nowMs)
    const hash = tokenHash(heartbeat.pingToken ?? '')
    return { ...state, monitorId, accountId, locationId, tokenHash: hash }
  })
  await writeHeartbeats(tx, rows, nowMs).catch((error: unknown) => {
    if (!isDuplicate(error, 'heartbeats_token_taken')) throw error
    throw new ApiError(409, 'Another heartbeat check has this pingToken')
  })
  const slot = (monitorId: string, slotMs: number | null | undefined): HeartbeatSlot[] =>
    slotMs == null ? [] : [{ locationId, monitorId, slotMs }]
  const changed = rows.filter((row) => known.get(row.monitorId)?.deadlineMs !== row.deadlineMs)
  await expectSlots(tx, {
    gone: changed.flatMap(({ monitorId }) => slot(monitorId, known.get(monitorId)?.deadlineMs)),
    come: changed.flatMap(({ monitorId, deadlineMs }) => slot(monitorId, deadlineMs)),
  })
}

/** Ends the watch of deleted checks; those of other types are left alone. */
export async function forgetHeartbeats(
  tx: Queryable,
  monitorIds: readonly string[],
): Promise<void> {
  await expectSlots(tx, { gone: await deleteHeartbeats(tx, monitorIds), come: [] })
}
