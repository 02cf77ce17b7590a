// Aim: slots whose results a full spool dropped are missed for that reason, exactly as many as the agent counts,
// whether its process was started anew meanwhile or the slots had been filled in for another reason.
import { randomBytes } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import type { DeliveryLink } from '../../../src/agent/delivery/result-sender.ts'
import { PlatformLink } from '../../../src/agent/platform/link.ts'
import { sweep } from '../../../src/platform/results/sweep.ts'
import { accountOf } from '../../../src/platform/results/queries/accounting.ts'
import { ensurePartitions } from '../../../src/platform/results/queries/result-partitions.ts'
import { useAgentsApi } from '../../support/platform/agents-api.ts'
import { eventually } from '../../support/eventually.ts'
import { addLocation } from '../../support/platform/locations.ts'
import { addMonitor, slotOf, type PlacedMonitor } from '../../support/platform/placed-monitors.ts'
import { aResult } from '../../support/results.ts'
import {
  hurried,
  platformOf,
  started,
  type Started,
} from '../../support/agent/delivery/started-delivery.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const { database: use, api } = useAgentsApi()
const DAY_MS = 86_400_000
const SLOTS = 400
const SPOOL_BYTES = 64 * 1024

beforeAll(() => ensurePartitions(use().database, Date.now() - DAY_MS, Date.now() + DAY_MS))

/** A failed result that cannot be compressed. */
function failed({ monitorId, ...monitor }: PlacedMonitor, n: number) {
  const slot = slotOf({ monitorId, ...monitor }, n)
  const message = randomBytes(200).toString('base64')
  const failures = [{ code: 'CONNECT_REFUSED' as const, message }]
  return aResult({ monitorId, slot, startedAt: slot, verdict: 'failed', failures })
}

/** How many results this process lost because the spool was full, as its metrics say. */
async function droppedBy({ metrics }: Started): Promise<number> {
  const text = await metrics()
  return Number(/dropped_results_total\{reason="full"\} (\d+)/.exec(text)?.[1])
}

test('are reported by the agent, for each of its processes', async () => {
  const { database } = use()
  const here = await addLocation(database)
  const fromMs = Math.floor(Date.now() / 1000) * 1000 - 3_600_000
  const era = { fromMs, untilMs: fromMs + SLOTS * 1000, everyMs: 1000 }
  const monitors = await Promise.all(
    [1, 2, 3].map((n) => addMonitor(database, here, { ...era, offsetMs: n })),
  )
  const way = new PlatformLink({ platformUrl: api.url, apiKey: here.secret })
  let isAway = true
  const link: DeliveryLink = {
    request: (ask) =>
      isAway
        ? Promise.reject(Object.assign(new Error('away'), { code: 'UNREACHABLE' }))
        : way.request(ask),
  }
  const dataDir = temporaryFolder()
  const start = async () =>
    started(dataDir, await platformOf(), {
      link,
      spoolBytesMax: SPOOL_BYTES,
      memoryBounds: { results: 20, bytes: SPOOL_BYTES / 8, unsafeBytes: SPOOL_BYTES },
    })
  const produce = async ({ delivery }: Started, first: number, last: number) => {
    for (let n = first; n < last; n++) {
      await Promise.all(monitors.map((one) => delivery.deliver(failed(one, n))))
    }
  }
  const sweepNow = () =>
    sweep({ database, now: Date.now, retentionMs: DAY_MS }, AbortSignal.timeout(60_000))

  const first = await start()
  await produce(first, 0, SLOTS / 2)
  await first.end(0)
  const ofFirst = await droppedBy(first)
  // No agent has reported for long: everything is filled in.
  await sweepNow()
  const second = await start()
  await produce(second, SLOTS / 2, SLOTS)
  isAway = false
  hurried(second.delivery)
  await eventually(() => second.facts()['waiting'] === 0)
  const dropped = ofFirst + (await droppedBy(second))
  expect(ofFirst).toBeGreaterThan(100)
  expect(dropped).toBeGreaterThan(ofFirst + 100)
  const account = async () => {
    const { locations } = await accountOf(database, { fromMs: 0, toMs: Date.now() })
    return locations.find(({ id }) => id === here.id)
  }
  const expected = 3 * SLOTS
  const even = { expected, recorded: expected, missing: 0, unexpected: 0 }
  await eventually(async () => (await account())?.byReason['spool-full'] === dropped)
  expect(await account()).toMatchObject({
    ...even,
    byVerdict: { failed: expected - dropped, missed: dropped },
    byReason: { 'spool-full': dropped },
  })
  expect(await second.folder.read('dropped')).toEqual(Buffer.from('[]'))
  way.close()
})
