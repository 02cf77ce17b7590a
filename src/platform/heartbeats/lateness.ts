// Finds heartbeats whose deadline has passed. Every platform process looks each second, so that one that dies delays
// nothing; a lock on each row lets one of them report it.
import { setTimeout as sleep } from 'node:timers/promises'
import { isUnavailable } from '../../database/database-failure.ts'
import type { Log } from '../../process/log.ts'
import { expireDeadline } from './heartbeat.ts'
import type { PingParts } from './pings.ts'
import { lockLate } from './queries/heartbeats.ts'
import { recordMoves } from './recording.ts'

const EVERY_MS = 1_000
const AT_ONCE_MAX = 500

/** Looks for late heartbeats until the signal fires. Never rejects. */
export async function watchDeadlines(
  parts: PingParts,
  { log, signal }: { log: Log; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    try {
      while ((await reportLate(parts)) === AT_ONCE_MAX) signal.throwIfAborted()
    } catch (error) {
      if (signal.aborted) return
      const level = isUnavailable(error) ? 'debug' : 'error'
      log[level]({ err: error }, 'late heartbeats were not reported; retrying')
    }
    await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined)
  }
}

/** Reports heartbeats whose deadline has passed; returns how many. */
export async function reportLate({ database, now, onRecorded }: PingParts): Promise<number> {
  const nowMs = Math.floor(now())
  return database.transaction(async (tx) => {
    const rows = await lockLate(tx, nowMs, AT_ONCE_MAX)
    const moves = rows.map((row) => ({ row, ...expireDeadline(row, nowMs) }))
    await recordMoves(tx, moves, { nowMs, onRecorded })
    return rows.length
  })
}
