// A heartbeat check as an earlier version stored it: the API creates none.
import { randomUUID } from 'node:crypto'
import { changing, readCheckContext, saveChecks } from '../../../src/platform/checks/writing.ts'
import { draftCheck } from '../../../src/platform/checks/draft.ts'
import { effectiveCheck } from '../../../src/platform/checks/effective.ts'
import type { Cipher } from '../../../src/platform/secrets/cipher.ts'
import type { Database } from '../../../src/database/database.ts'

/** A definition of a heartbeat check. */
export const HEARTBEAT_BODY = {
  name: 'nightly',
  privateLocations: [],
  heartbeat: { period: 5, periodUnit: 'minutes', grace: 1, graceUnit: 'minutes' },
}

/** Stores a heartbeat check in the account; returns its id. */
export async function storeHeartbeat(
  parts: { database: Database; cipher: Cipher },
  accountId: string,
  file: { name: string; key: string } | null = null,
): Promise<string> {
  const id = randomUUID()
  const all = { ...parts, clock: Date }
  await changing(all, accountId, async (tx) => {
    const checkContext = await readCheckContext(tx, all, { accountId, groupIds: [] })
    const draft = draftCheck('HEARTBEAT', HEARTBEAT_BODY, {
      stored: undefined,
      checkContext,
    })
    if (!draft.ok) throw new Error('the heartbeat check is not as declared')
    const check = { id, checkType: 'HEARTBEAT' as const, definition: draft.definition, file }
    const settled = effectiveCheck(check, checkContext)
    if ('problems' in settled) throw new Error('the heartbeat check has no place')
    await saveChecks(tx, all, accountId, [{ ...check, settled }])
  })
  return id
}
