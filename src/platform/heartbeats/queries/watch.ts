// Starts the watch of heartbeats when their checks are written: one way for the API, groups and files.
import { hash } from 'node:crypto'
import { type Heartbeat, heartbeatTiming } from '../../../monitors/definitions.ts'
import type { Database, Queryable } from '../../../database/database.ts'
import { decrypt } from '../../checks/encrypted-monitor.ts'
import type { Cipher } from '../../secrets/cipher.ts'
import { conflictOf } from '../../http/errors.ts'
import { reschedule } from '../heartbeat.ts'
import {
  internalLocation,
  lockHeartbeats,
  unwatchedHeartbeats,
  writeHeartbeats,
} from './heartbeats.ts'

/** The hexadecimal hash under which a token is stored. */
export function tokenHash(token: string): string {
  return hash('sha256', token.toLowerCase())
}

/** A heartbeat check as it holds with its group. */
export interface WatchedHeartbeat {
  monitorId: string
  heartbeat: Heartbeat
  isActive: boolean
}

/** Watches heartbeats by their definitions. Throws ApiError 409 for the token of another check. */
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
    const before = known.get(monitorId)
    const state = reschedule(before, { ...heartbeatTiming(heartbeat), isActive }, nowMs)
    return {
      ...state,
      monitorId,
      accountId,
      locationId,
      tokenHash: tokenHash(heartbeat.pingToken ?? ''),
      formerMs: before?.deadlineMs ?? null,
      slots: state.deadlineMs === null ? [] : [state.deadlineMs],
    }
  })
  const takenMessage = 'Another heartbeat check has this pingToken'
  await writeHeartbeats(tx, rows, nowMs).catch(conflictOf('heartbeats_token_taken', takenMessage))
}

/** Watches heartbeat checks of earlier versions, which stored them and did not watch them. */
export async function adoptHeartbeats(
  database: Database,
  cipher: Cipher,
  nowMs: number,
): Promise<void> {
  await database.transaction(async (tx) => {
    const rows = await unwatchedHeartbeats(tx)
    for (const [accountId, some] of Map.groupBy(rows, (row) => row.accountId)) {
      const watched = some.map(({ monitorId, effective, isActive }) => {
        const heartbeat = decrypt(cipher, effective)['heartbeat'] as Heartbeat
        return { monitorId, heartbeat, isActive }
      })
      await watchHeartbeats(tx, { accountId, nowMs }, watched)
    }
  })
}
