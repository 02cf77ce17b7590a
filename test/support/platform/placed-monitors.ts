// Monitors in locations, written directly into the tables, and results as agents report them.
import { randomUUID } from 'node:crypto'
import type { WireResult } from '../../../src/contract/protocol/agent-protocol.ts'
import { type Slots, slotAtOrAfter } from '../../../src/contract/timetable.ts'
import type { Database } from '../../../src/database/database.ts'
import { addAccount } from './public-api.ts'

/** A location and the identity of its agents. */
export interface TestLocation {
  locationId: string
  accountId: string
  slugName: string
}

/** Makes a location, by default in a new account. */
export async function addLocation(
  database: Database,
  { accountId, slugName }: { accountId?: string; slugName?: string } = {},
): Promise<TestLocation> {
  const account = accountId ?? (await addAccount(database))
  const locationId = randomUUID()
  const slug = slugName ?? `loc-${locationId.slice(0, 8)}`
  await database.query(
    `insert into private_locations (id, account_id, name, slug_name) values ($1, $2, $3, $3)`,
    [locationId, account, slug],
  )
  return { locationId, accountId: account, slugName: slug }
}

/** A monitor in a location. */
export interface PlacedMonitor extends Slots {
  monitorId: string
  fromMs: number
}

/** Timing of a monitor in its location; times as in `expectations`. */
export interface Placing extends Partial<Slots> {
  fromMs: number
  untilMs?: number
  openedMs?: number
  needs?: string[]
  checkType?: string
  monitorId?: string
}

/** Makes a monitor in `location` from `fromMs` on; every 10 s by default. */
export async function addMonitor(
  database: Database,
  location: TestLocation,
  placing: Placing,
): Promise<PlacedMonitor> {
  const { fromMs, everyMs = 10_000, offsetMs = 0, checkType = 'URL' } = placing
  const monitorId = placing.monitorId ?? randomUUID()
  await database.query(
    `insert into monitors (id, account_id, check_type, name, activated, muted, definition, effective)
     values ($1, $2, $3, $4, true, false, '', '') on conflict do nothing`,
    [monitorId, location.accountId, checkType, `monitor ${monitorId.slice(0, 8)}`],
  )
  await database.query(
    `insert into placements
       (location_id, monitor_id, revision, needs, every_ms, offset_ms, from_ms, until_ms)
     values ($1, $2, 1, $3, $4, $5, $6, $7) on conflict do nothing`,
    [
      location.locationId,
      monitorId,
      placing.needs ?? [checkType],
      everyMs,
      offsetMs,
      fromMs,
      placing.untilMs ?? null,
    ],
  )
  await addEra(database, location, { ...placing, monitorId, everyMs, offsetMs })
  return { monitorId, everyMs, offsetMs, fromMs }
}

/** Opens an era of a monitor's timing. */
export async function addEra(
  database: Database,
  location: TestLocation,
  era: Placing & Slots & { monitorId: string },
): Promise<void> {
  await database.query(
    `insert into expectations
       (location_id, monitor_id, from_ms, until_ms, every_ms, offset_ms, opened_ms)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [
      location.locationId,
      era.monitorId,
      era.fromMs,
      era.untilMs ?? null,
      era.everyMs,
      era.offsetMs,
      era.openedMs ?? era.fromMs,
    ],
  )
}

/** The slot number `n`, counted from 0, of a monitor since it was placed. */
export function slotOf(monitor: PlacedMonitor, n: number): number {
  return slotAtOrAfter(monitor, monitor.fromMs) + n * monitor.everyMs
}

/** A passed result as it is sent; `changes` overrides any field. */
export function wireResult(changes: Partial<WireResult> & { monitorId: string; slot: number }) {
  const result: WireResult = {
    verdict: 'passed',
    startedAt: changes.slot + 2,
    durationMs: 12.34,
    responseTimeMs: 11.5,
    attempts: 1,
    ...changes,
  }
  return result
}
