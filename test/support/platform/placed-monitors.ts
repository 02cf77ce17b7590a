// Monitors in locations, written directly into the tables, and results as agents report them.
import { randomUUID } from 'node:crypto'
import type { WireResult } from '../../../src/contract/protocol/agent-protocol.ts'
import { type Slots, slotAtOrAfter } from '../../../src/contract/timetable.ts'
import type { Database } from '../../../src/database/database.ts'
import type { TestLocation } from './locations.ts'

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
  { id, accountId }: Pick<TestLocation, 'id' | 'accountId'>,
  { monitorId = randomUUID(), checkType = 'URL', ...placing }: Placing,
): Promise<PlacedMonitor> {
  await database.query(
    `insert into monitors (id, account_id, check_type, name, activated, muted, definition, effective)
     values ($1, $2, $3, $4, true, false, '', '') on conflict do nothing`,
    [monitorId, accountId, checkType, `monitor ${monitorId.slice(0, 8)}`],
  )
  return placeMonitor(database, id, { needs: [checkType], ...placing, monitorId })
}

/** Places a monitor that is there, and opens its first era. */
export async function placeMonitor(
  database: Database,
  locationId: string,
  placing: Placing & { monitorId: string },
): Promise<PlacedMonitor> {
  const { monitorId, fromMs, untilMs = null, everyMs = 10_000, offsetMs = 0 } = placing
  const { needs = ['URL'] } = placing
  await database.query(
    `insert into placements
       (location_id, monitor_id, revision, needs, every_ms, offset_ms, from_ms, until_ms)
     values ($1, $2, 1, $3, $4, $5, $6, $7) on conflict do nothing`,
    [locationId, monitorId, needs, everyMs, offsetMs, fromMs, untilMs],
  )
  await addEra(database, locationId, { ...placing, everyMs, offsetMs })
  return { monitorId, everyMs, offsetMs, fromMs }
}

/** Opens an era of a monitor's timing. */
export async function addEra(
  database: Database,
  locationId: string,
  { monitorId, fromMs, untilMs, openedMs = fromMs, ...era }: Placing & PlacedMonitor,
): Promise<void> {
  await database.query(
    `insert into expectations
       (location_id, monitor_id, from_ms, until_ms, every_ms, offset_ms, opened_ms)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [locationId, monitorId, fromMs, untilMs ?? null, era.everyMs, era.offsetMs, openedMs],
  )
}

/** The slot number `n`, counted from 0, of a monitor since it was placed. */
export function slotOf(monitor: PlacedMonitor, n: number): number {
  return slotAtOrAfter(monitor, monitor.fromMs) + n * monitor.everyMs
}

/** A passed result as it is sent; `changes` overrides any field. */
export function wireResult(
  changes: Partial<WireResult> & { monitorId: string; slot: number },
): WireResult {
  const startedAt = changes.slot + 2
  const measured = { durationMs: 12.34, responseTimeMs: 11.5, attempts: 1 }
  return { verdict: 'passed', startedAt, ...measured, ...changes }
}

/** The result of the slot number `n` of a monitor; a missed one is `overloaded`. */
export function resultAt(
  monitor: PlacedMonitor,
  n: number,
  changes: Partial<WireResult> = {},
): WireResult {
  const missed = changes.verdict === 'missed' && { missedReason: 'overloaded' as const }
  const slot = slotOf(monitor, n)
  return wireResult({ monitorId: monitor.monitorId, slot, ...missed, ...changes })
}
