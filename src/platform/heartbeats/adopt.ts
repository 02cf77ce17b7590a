// Heartbeat checks of earlier versions, which stored them and did not watch them.
import type { Heartbeat } from '../../monitors/definitions.ts'
import type { Database } from '../../database/database.ts'
import { openDefinition } from '../checks/encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'
import { unwatchedHeartbeats } from './queries/heartbeats.ts'
import { watchHeartbeats } from './queries/watch.ts'

/** Watches the heartbeat checks that nothing watches yet. */
export async function adoptHeartbeats(
  database: Database,
  cipher: Cipher,
  nowMs: number,
): Promise<void> {
  await database.transaction(async (tx) => {
    const rows = await unwatchedHeartbeats(tx)
    for (const [accountId, some] of Map.groupBy(rows, (row) => row.accountId)) {
      const watched = some.map(({ monitorId, effective, isActive }) => {
        const heartbeat = openDefinition(cipher, effective)['heartbeat'] as Heartbeat
        return { monitorId, heartbeat, isActive }
      })
      await watchHeartbeats(tx, { accountId, nowMs }, watched)
    }
  })
}
