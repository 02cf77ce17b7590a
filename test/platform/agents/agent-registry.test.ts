// Aim: agents that join, leave, time out or restart change assignments at one instant, known to all in advance
// if possible, and only monitors that must move do.
import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { PROTOCOL_BOUNDS } from '../../../src/contract/protocol/agent-protocol.ts'
import {
  runPresence,
  silence,
  TEST_CIPHER,
  useAgentsApi,
} from '../../support/platform/agents-api.ts'
import { useDatabase } from '../../support/database/database.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import {
  addLocation,
  addResult,
  placeMonitors,
  type TestLocation,
} from '../../support/platform/locations.ts'

const { handOverMs } = PROTOCOL_BOUNDS
const use = useDatabase()
// Two processes on one database: an agent may call either.
const { api } = useAgentsApi(use)
const { api: other } = useAgentsApi(use)
let location: TestLocation
let ids: string[]
beforeEach(async () => {
  location = await addLocation(use().database)
  ids = await place(60)
})

/** Places monitors in the location; by default any agent can run them. */
const place = (count: number, monitor: { checkType?: string } = {}) =>
  placeMonitors(
    { database: use().database, cipher: TEST_CIPHER },
    location,
    Array.from({ length: count }, () => monitor),
  )

const agent = (facts: ConstructorParameters<typeof FakeAgent>[1] = {}) =>
  new FakeAgent(location.secret, facts)

/** Two agents after the hand-over between them. */
async function twoAgents(): Promise<[FakeAgent, FakeAgent]> {
  const [first, second] = [agent(), agent()]
  await first.sync(api)
  await second.sync(other)
  await settle()
  await first.sync(api)
  await second.sync(api)
  return [first, second]
}

/** Moves planned epochs into the past. */
async function settle(): Promise<void> {
  await use().database.query(
    `update location_epochs set from_ms = from_ms - 60000 where location_id = $1`,
    [location.id],
  )
}

/** As after `seconds` without a call of these agents, without a pause of the platform. */
async function unresponsive(seconds: number, ...agents: FakeAgent[]): Promise<void> {
  await use().database.query(
    `insert into platform_pulse (since, last) values (now() - interval '1 day', clock_timestamp())
     on conflict (one) do update set since = excluded.since, last = excluded.last`,
  )
  await silence(use(), location.id, seconds, ...agents)
}

const presence = () => runPresence(use(), api)

const state = async (one: FakeAgent) => {
  const rows = await use().database.query<{ state: string }>(
    `select state from agents where location_id = $1 and id = $2`,
    [location.id, one.facts.id],
  )
  return rows[0]?.state
}

const epochs = () =>
  use().database.query<{ epoch: number; kind: string; from_ms: number; members: number }>(
    `select epoch, cause->>'kind' as kind, from_ms, jsonb_array_length(members) as members
     from location_epochs where location_id = $1 order by epoch`,
    [location.id],
  )

describe('join', () => {
  test('the first one owns everything at once, after the recorded slots', async () => {
    const slotMs = Date.now() - 5_000
    await addResult(use().database, location, { monitorId: ids[0] ?? '', slotMs })
    await addResult(use().database, location, { monitorId: ids[1] ?? '', slotMs, filled: true })
    const first = agent()
    await first.sync(api)
    expect(first.monitors.size).toBe(60)
    expect(first.monitors.get(ids[0] ?? '')?.from).toBe(slotMs + 1)
    // Slots that the platform itself filled in may still be run.
    expect(first.monitors.get(ids[1] ?? '')?.from).toBe(slotMs)
    expect(first.monitors.get(ids[2] ?? '')?.from).toBeLessThan(Date.now() - 50_000)
  })

  test('the second one gets a share, at an instant that both know in advance', async () => {
    const first = agent()
    await first.sync(api)
    const waitingSync = first.sync(api, { waitMs: 20_000 })
    const before = Date.now()
    const second = agent()
    await second.sync(other)
    const dropped = (await waitingSync).answer?.changes?.drop ?? []
    expect(dropped.map(({ monitorId }) => monitorId).toSorted()).toEqual(
      [...second.monitors.keys()].toSorted(),
    )
    expect(dropped.length).toBeGreaterThan(10)
    const instants = new Set([
      ...dropped.map(({ until }) => until),
      ...[...second.monitors.values()].map(({ from }) => from),
    ])
    expect(instants.size).toBe(1)
    const [instant = 0] = instants
    expect(instant - before).toBeGreaterThanOrEqual(handOverMs - 5)
    expect(instant - before).toBeLessThan(handOverMs + 5_000)
    expect([first.monitors.size + second.monitors.size, second.peers]).toEqual([60, 1])
  })

  test('a monitor that is added during a hand-over is run by the old owner until then', async () => {
    const [first, second] = [agent(), agent()]
    await first.sync(api)
    await second.sync(api)
    const added = await place(20)
    await first.sync(api)
    await second.sync(api)
    for (const id of added) {
      const mine = first.monitors.get(id)
      expect(mine?.from ?? Infinity).toBeLessThan(Date.now())
      expect(mine?.until).toBe(second.monitors.get(id)?.from)
    }
    expect(added.some((id) => second.monitors.has(id))).toBe(true)
  })
})

describe('leave', () => {
  test('the other one continues where it stopped, including slots that it had not started', async () => {
    const [first, second] = await twoAgents()
    const moved = [...first.monitors.keys()]
    const leftAt = Date.now() - 20
    const slot = leftAt - 500
    const waitingSync = second.sync(other, { waitMs: 20_000 })
    const [waiting = ''] = moved
    const notStarted = [
      { monitorId: waiting, slot: slot + 100 },
      { monitorId: waiting, slot },
    ]
    const { answer } = await first.leave(api, { leftAt, notStarted })
    expect(answer).toMatchObject({ peers: 1, changes: null })
    const set = (await waitingSync).answer?.changes?.set ?? []
    expect(set.map(({ monitor }) => monitor.id).toSorted()).toEqual(moved.toSorted())
    for (const { monitor, from } of set) expect(from).toBe(monitor.id === waiting ? slot : leftAt)
    expect(second.monitors.size).toBe(60)
  })

  test('it is idempotent; without another agent nothing is handed over', async () => {
    const first = agent()
    await first.sync(api)
    expect((await first.leave(api)).answer?.peers).toBe(0)
    expect((await first.leave(api)).answer?.peers).toBe(0)
    expect((await epochs()).map(({ kind }) => kind)).toEqual(['join', 'leave'])
    expect(await state(first)).toBe('left')
    const [row] = await use().database.query<{ absent: boolean }>(
      `select absent_since is not null as absent from private_locations where id = $1`,
      [location.id],
    )
    expect(row?.absent).toBe(true)
  })

  test('at the moment of a hand-over no slot is lost', async () => {
    const [first, second] = [agent(), agent()]
    await first.sync(api)
    await second.sync(api)
    // The first one leaves now what the second one will own in three seconds.
    const leftAt = Date.now()
    await first.leave(api, { leftAt })
    await second.sync(api)
    expect(second.monitors.size).toBe(60)
    for (const { from } of second.monitors.values()) expect(from).toBe(leftAt)
  })

  test('an implausible instant is corrected', async () => {
    const [first, second] = await twoAgents()
    const moved = [...first.monitors.keys()]
    const before = Date.now()
    await first.leave(api, { leftAt: before + 1e9 })
    await second.sync(api)
    const from = second.monitors.get(moved[0] ?? '')?.from ?? 0
    expect(from).toBeLessThanOrEqual(Date.now() + handOverMs)
  })
})

describe('lost', () => {
  test('after 30 s without a call the other one owns its monitors, after the recorded slots', async () => {
    const [first, second] = await twoAgents()
    const moved = [...first.monitors.keys()]
    const slotMs = Date.now() - 31_000
    await addResult(use().database, location, { monitorId: moved[0] ?? '', slotMs })
    const stored = new Map(second.monitors)
    const waitingSync = second.sync(api, { waitMs: 20_000 })
    await unresponsive(30.5, first)
    await presence()
    const set = (await waitingSync).answer?.changes?.set ?? []
    expect(set.map(({ monitor }) => monitor.id).toSorted()).toEqual(moved.toSorted())
    expect(second.monitors.get(moved[0] ?? '')?.from).toBe(slotMs + 1)
    for (const [id, assigned] of stored) expect(second.monitors.get(id)).toEqual(assigned)
    expect([await state(first), await state(second)]).toEqual(['lost', 'live'])
  })

  test('29 s without a call are tolerated', async () => {
    const [first] = await twoAgents()
    await unresponsive(29, first)
    await presence()
    expect(await state(first)).toBe('live')
  })

  test('no agent is lost before the platform itself has run for 30 s', async () => {
    const [first, second] = await twoAgents()
    await unresponsive(3600, first, second)
    const { database } = use()
    await database.query(`update platform_pulse set last = now() - interval '1 hour'`)
    await presence()
    await presence()
    expect([await state(first), await state(second)]).toEqual(['live', 'live'])
    // The same pause, and a platform without a pause.
    await second.sync(api)
    await unresponsive(3600, first)
    await presence()
    expect([await state(first), await state(second)]).toEqual(['lost', 'live'])
  })

  test('one that returns gets its share again, and only that moves', async () => {
    const [first, second] = await twoAgents()
    const own = [...first.monitors.keys()].toSorted()
    await unresponsive(31, first)
    await presence()
    await second.sync(api)
    expect(second.monitors.size).toBe(60)
    await first.sync(api)
    await second.sync(api)
    expect([...first.monitors.keys()].toSorted()).toEqual(own)
    expect([first.monitors.size + second.monitors.size, await state(first)]).toEqual([60, 'live'])
    // It had continued alone: from the hand-over on it is the owner again, the other one until then.
    const [from] = new Set([...first.monitors.values()].map((one) => one.from))
    expect(from).toBe((await epochs()).at(-1)?.from_ms)
    expect(second.spans.get(own[0] ?? '')?.at(-1)?.until).toBe(from)
  })

  test('all of them: monitors without agents are detected, also where there never was an agent', async () => {
    const [first, second] = await twoAgents()
    await unresponsive(31, first, second)
    const empty = await addLocation(use().database)
    const lonely = await addLocation(use().database)
    await placeMonitors({ database: use().database, cipher: TEST_CIPHER }, lonely, [{}])
    await presence()
    const rows = await use().database.query<{ id: string; absent: boolean }>(
      `select id, absent_since is not null as absent from private_locations
       where id = any ($1::uuid[])`,
      [[location.id, empty.id, lonely.id]],
    )
    const absent = new Map(rows.map((row) => [row.id, row.absent]))
    expect([location, empty, lonely].map(({ id }) => absent.get(id))).toEqual([true, false, true])
    expect((await epochs()).at(-1)).toMatchObject({ kind: 'lost', members: 0 })
    await first.sync(api)
    expect(first.monitors.size).toBe(60)
  })
})

test('a full location refuses one more, and not as a duplicate of another', async () => {
  await agent().sync(api)
  const many = Array.from({ length: PROTOCOL_BOUNDS.membersMax }, () => ({
    id: randomUUID(),
    version: '8.4.0',
    abilities: [],
  }))
  await use().database.query(
    'update location_epochs set members = $2::jsonb where location_id = $1',
    [location.id, JSON.stringify(many)],
  )
  const response = await agent().sync(api)
  // 409 would make it choose another id and retry.
  expect(response.status).toBe(403)
  expect(response.body.message).toContain('500 agents')
})

describe('restart', () => {
  test('the same agent continues with its share; nothing else moves', async () => {
    const [first, second] = await twoAgents()
    const own = [...first.monitors.keys()].toSorted()
    const before = await epochs()
    const slotMs = Date.now() - 3_000
    await addResult(use().database, location, { monitorId: own[0] ?? '', slotMs })
    first.restart()
    first.monitors.clear()
    expect((await first.sync(api)).answer?.changes?.whole).toBe(true)
    expect([...first.monitors.keys()].toSorted()).toEqual(own)
    expect(first.monitors.get(own[0] ?? '')?.from).toBe(slotMs + 1)
    expect(await epochs()).toEqual(before)
    expect((await second.sync(api)).answer?.changes).toBeNull()
  })

  test('two processes with one id: the newer one is the agent, the older one gets 409', async () => {
    const older = agent()
    await older.sync(api)
    const waitingSync = older.sync(api, { waitMs: 20_000 })
    await expect.poll(() => api.agents.syncsWaiting()).toBe(1)
    const newer = agent({ id: older.facts.id, instance: randomUUID() })
    expect((await newer.sync(other)).status).toBe(200)
    const response = await waitingSync
    expect(response.status).toBe(409)
    expect(response.body.message).toContain('DATA_DIR')
    expect((await older.sync(api)).status).toBe(409)
    expect((await older.leave(api)).status).toBe(409)
    expect((await newer.sync(other)).answer?.changes).toBeNull()
    expect(await state(newer)).toBe('live')
  })

  test('with another version: monitors move by its new abilities', async () => {
    await place(20, { checkType: 'DNS' })
    const [first, second] = await twoAgents()
    expect(first.monitors.size + second.monitors.size).toBe(80)
    first.restart({ version: '6.3.2', checkTypes: ['TCP'] })
    first.monitors.clear()
    await first.sync(api)
    await second.sync(api)
    const types = (one: FakeAgent) =>
      new Set([...one.monitors.values()].map(({ monitor }) => monitor.checkType))
    expect([...types(first)]).toEqual(['TCP'])
    expect(first.monitors.size + second.monitors.size).toBe(80)
    first.restart({ version: '8.4.0', checkTypes: ['TCP', 'DNS'] })
    first.monitors.clear()
    await first.sync(api)
    expect([...types(first)].toSorted()).toEqual(['DNS', 'TCP'])
  })
})
