// Aim: eras of expected slots never overlap and have no gaps while a monitor is placed in a location.
import { randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Slots } from '../../../src/contract/timetable.ts'
import { createAccount, lockAccount } from '../../../src/platform/accounts/queries/accounts.ts'
import { writeMonitors } from '../../../src/platform/checks/queries/monitors.ts'
import { place, type WantedPlacement } from '../../../src/platform/checks/queries/placements.ts'
import { insertPrivateLocation } from '../../../src/platform/private-locations/queries/locations.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'

interface Era {
  from_ms: number
  until_ms: number | null
  every_ms: number
  offset_ms: number
}

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const database = useDatabase(server)
  const accountId = randomUUID()
  const north = randomUUID()
  const south = randomUUID()

  beforeAll(async () => {
    const { database: open } = database()
    await createAccount(open, { id: accountId, name: 'Acme' })
    for (const id of [north, south]) {
      const fields = { id, accountId, name: id, icon: 'location', proxyUrl: null }
      await insertPrivateLocation(open, fields, id)
    }
  })

  const addMonitor = async (): Promise<string> => {
    const id = randomUUID()
    const rest = { groupId: null, bundle: null, locationIds: [], fileName: null, fileKey: null }
    const definition = { definition: 'encrypted', effective: 'encrypted', tags: [] }
    await writeMonitors(database().database, accountId, [
      { id, checkType: 'URL', name: 'm', activated: true, muted: false, ...definition, ...rest },
    ])
    return id
  }
  const put = (monitorId: string, nowMs: number, wanted: WantedPlacement[]) =>
    database().database.transaction(async (tx) => {
      await lockAccount(tx, accountId)
      await place(tx, { accountId, nowMs, monitors: [{ monitorId, wanted }] })
    })
  const eras = (monitorId: string, locationId: string) =>
    database().database.query<Era>(
      `select from_ms, until_ms, every_ms, offset_ms from expectations
       where monitor_id = $1 and location_id = $2 order by from_ms`,
      [monitorId, locationId],
    )
  const placement = async (monitorId: string, locationId: string) => {
    const sql = 'select * from placements where monitor_id = $1 and location_id = $2'
    return (await database().database.query(sql, [monitorId, locationId]))[0]
  }
  /** The revisions of both locations. */
  const revisions = async (): Promise<[north: number, south: number]> => {
    const rows = await database().database.query<{ revision: number }>(
      'select revision from private_locations where id = any ($1) order by id = $2',
      [[north, south], south],
    )
    return [rows[0]?.revision ?? 0, rows[1]?.revision ?? 0]
  }
  const needs = ['URL']
  const at = (locationId: string, slots: Slots): WantedPlacement => ({ locationId, slots, needs })

  /** Maximum time after a change until slots are expected again. */
  const SETTLED_MS = 10_000
  const minute = { everyMs: 60_000, offsetMs: 7_000 }
  const twice = { everyMs: 30_000, offsetMs: 7_000 }
  const often = (everyMs: number, offsetMs: number) => ({ everyMs, offsetMs })
  /** The steps as times of changes and slots; the eras as `from–until by interval`. */
  const CASES: [sentence: string, steps: (number | Slots | null)[], expected: string][] = [
    ['is expected from the newest slot that has passed', [100_000, minute], '67000– by 60000'],
    ['or where the next slot comes soon, from that one on', [120_000, minute], '127000– by 60000'],
    [
      'also where it is due before agents receive the change: they run it late',
      [126_500, often(10_000, 7_000)],
      '127000– by 10000',
    ],
    [
      'but not from a slot that would be missed before agents receive the change',
      [126_000, often(1_000, 500)],
      '128500– by 1000',
    ],
    [
      'keeps the era by another definition with the same timing',
      [100_000, minute, 200_000, minute],
      '67000– by 60000',
    ],
    [
      'of another timing ends one era, and the next begins when agents have received it',
      [100_000, minute, 200_000.4, twice],
      '67000–200001 by 60000, 202001– by 30000',
    ],
    ['ends when it is deactivated', [100_000, minute, 200_000, null], '67000–200000 by 60000'],
    [
      'switched on again at once, expects no slot twice',
      [100_000, minute, 200_000, null, 201_000, minute],
      '67000–200000 by 60000, 200000– by 60000',
    ],
    [
      'switched on again later, expects the newest slot and not those before',
      [100_000, minute, 200_000, null, 500_000, minute],
      '67000–200000 by 60000, 487000– by 60000',
    ],
    [
      'of two timings within one millisecond leaves no empty era',
      [67_000, minute, 67_000, twice],
      '69000– by 30000',
    ],
    [
      'by a clock that is behind ends no era before its beginning',
      [100_000, minute, 200_000, twice, 150_000, minute],
      '67000–200000 by 60000, 202000– by 60000',
    ],
  ]

  test.each(CASES)('a monitor %s', async (_, steps, expected) => {
    const id = await addMonitor()
    for (let step = 0; step < steps.length; step += 2) {
      const slots = steps[step + 1] as Slots | null
      await put(id, steps[step] as number, slots === null ? [] : [at(north, slots)])
    }
    const found = await eras(id, north)
    const shown = found.map((era) => `${era.from_ms}–${era.until_ms ?? ''} by ${era.every_ms}`)
    expect(shown.join(', ')).toBe(expected)
    const { from_ms, until_ms } = found.at(-1) as Era
    expect(await placement(id, north)).toMatchObject({ from_ms, until_ms })
  })

  test('a change stamps the placements with the next revision of their locations only', async () => {
    const id = await addMonitor()
    const [n, s] = await revisions()
    await put(id, 100_000, [at(north, minute)])
    expect(await revisions()).toEqual([n + 1, s])
    expect(await placement(id, north)).toMatchObject({ revision: n + 1 })
    await put(id, 200_000, [at(south, minute)])
    expect(await revisions()).toEqual([n + 2, s + 1])
    expect(await placement(id, north)).toMatchObject({ revision: n + 2, until_ms: 200_000 })
    expect(await placement(id, south)).toMatchObject({ revision: s + 1, until_ms: null })
    await put(id, 300_000, [at(south, minute)])
    expect(await revisions()).toEqual([n + 2, s + 2])
  })

  const everyMs = fc.constantFrom(1_000, 5_000, 10_000, 60_000)
  const slots = fc.record({ everyMs, offsetMs: fc.integer({ min: 0, max: 999 }) })
  const step = fc.record({
    // Clocks of several processes may differ, so that it may go back a little.
    passedMs: fc.integer({ min: -50, max: 100_000 }),
    north: fc.option(slots),
    south: fc.option(slots),
  })

  test('any changes leave eras without overlaps, and with short gaps only while it is placed there', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
        const id = await addMonitor()
        let nowMs = 1_000_000
        let latestMs = nowMs
        const on = new Map<string, boolean>()
        const covered: { location: string; atMs: number; expected: boolean }[] = []
        for (const one of steps) {
          nowMs += one.passedMs
          if (nowMs > latestMs + SETTLED_MS) {
            const atMs = latestMs + SETTLED_MS
            for (const [location, expected] of on) covered.push({ location, atMs, expected })
          }
          latestMs = Math.max(latestMs, nowMs)
          const wanted: WantedPlacement[] = []
          for (const [location, its] of [
            [north, one.north],
            [south, one.south],
          ] as const) {
            if (its !== null) wanted.push(at(location, its))
            on.set(location, its !== null)
          }
          await put(id, nowMs, wanted)
        }
        for (const location of [north, south]) {
          const found = await eras(id, location)
          expect(faultsOf(found, on.get(location) === true)).toEqual([])
          const its = covered.filter((one) => one.location === location && one.expected)
          expect(its.filter(({ atMs }) => !isCovered(found, atMs))).toEqual([])
        }
      }),
      { numRuns: 20 },
    )
  })

  function isCovered(found: readonly Era[], atMs: number): boolean {
    return found.some((era) => era.from_ms <= atMs && atMs < (era.until_ms ?? Infinity))
  }

  /** Problems of eras; `isOpen`: the last one must be open. */
  function faultsOf(found: readonly Era[], isOpen: boolean): string[] {
    return found.flatMap((era, index) => {
      const next = found[index + 1]
      const until = era.until_ms ?? Infinity
      const faults = []
      if (until <= era.from_ms) faults.push(`${era.from_ms} is empty`)
      if (next !== undefined && until > next.from_ms) faults.push(`${era.from_ms} overlaps`)
      if (next === undefined && (until === Infinity) !== isOpen) faults.push('the end is wrong')
      return faults
    })
  }

  test('changes at the same time are made one after the other', async () => {
    const ids = [await addMonitor(), await addMonitor()]
    const [before] = await revisions()
    await Promise.all(
      ids.flatMap((id) => [
        put(id, 5_000_000, [at(north, minute), at(south, minute)]),
        put(id, 5_000_000, [at(south, twice), at(north, twice)]),
      ]),
    )
    expect((await revisions())[0]).toBe(before + 4)
    for (const id of ids) expect(faultsOf(await eras(id, north), true)).toEqual([])
    const stamps = await database().database.query(
      'select distinct revision from placements where location_id = $1 and monitor_id = any ($2)',
      [north, ids],
    )
    expect(stamps).toHaveLength(2)
  })
})
