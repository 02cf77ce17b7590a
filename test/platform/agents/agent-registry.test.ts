// Aim: agents that join, leave, time out or restart change assignments at one instant, known to all in advance
// if possible, and only monitors that must move do.
import { randomUUID } from 'node:crypto'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { PROTOCOL_BOUNDS } from '../../../src/contract/protocol/agent-protocol.ts'
import { runPresence, silence, useAgentsApi } from '../../support/platform/agents-api.ts'
import { useDatabase } from '../../support/database/database.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import { addLocation, placeMonitors, type TestLocation } from '../../support/platform/locations.ts'
import { addResult } from '../../support/platform/monitor-rows.ts'

const { handOverMs } = PROTOCOL_BOUNDS
const use = useDatabase()
const query = <Row extends object>(text: string, values: unknown[]) =>
  use().database.query<Row>(text, values)
beforeAll(() => query('create table results_any partition of results default', []))
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
  placeMonitors(use(), location, Array(count).fill(monitor))
/** Records a passed slot, or one that the platform filled in. */
const addSlot = (monitorId = '', slotMs: number, filled = false) =>
  addResult(use().database, location, { monitorId, slotMs, filled })

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
const settle = () =>
  query('update location_epochs set from_ms = from_ms - 60000 where location_id = $1', [
    location.id,
  ])

/** As after `seconds` without a call of these agents, without a pause of the platform; presence is checked then. */
async function unresponsive(seconds: number, ...agents: FakeAgent[]): Promise<void> {
  await query(
    `insert into platform_pulse (since, last) values (now() - interval '1 day', clock_timestamp())
     on conflict (one) do update set since = excluded.since, last = excluded.last`,
    [],
  )
  await silence(use(), location.id, seconds, ...agents)
  await presence()
}

const presence = () => runPresence(use(), api)

const states = async (...agents: FakeAgent[]) => {
  const rows = await query<{ id: string; state: string }>(
    'select id, state from agents where location_id = $1',
    [location.id],
  )
  return agents.map(({ facts }) => rows.find(({ id }) => id === facts.id)?.state)
}
/** Which of these locations have monitors and no agent. */
const absences = async (...locations: TestLocation[]) => {
  const wanted = locations.map(({ id }) => id)
  const rows = await query<{ id: string }>(
    'select id from private_locations where id = any ($1::uuid[]) and absent_since is not null',
    [wanted],
  )
  return wanted.map((id) => rows.some((row) => row.id === id))
}

const epochs = () =>
  query<{ epoch: number; kind: string; from_ms: number; members: number }>(
    `select epoch, cause->>'kind' as kind, from_ms, jsonb_array_length(members) as members
     from location_epochs where location_id = $1 order by epoch`,
    [location.id],
  )
const idsOf = ({ monitors }: FakeAgent) => [...monitors.keys()].toSorted()
/** Monitors that the answer to a waiting sync assigns. */
const assigned = async (waiting: ReturnType<FakeAgent['sync']>) =>
  (await waiting).answer?.changes?.set.map(({ monitor, from }) => ({ id: monitor.id, from })) ?? []

describe('join', () => {
  test('the first one owns everything at once, after the recorded slots', async () => {
    const slotMs = Date.now() - 5_000
    await addSlot(ids[0], slotMs)
    await addSlot(ids[1], slotMs, true)
    const first = agent()
    await first.sync(api)
    expect(first.monitors.size).toBe(60)
    const [recorded, filled, free = 0] = ids.map((id) => first.monitors.get(id)?.from)
    // Slots that the platform itself filled in may still be run.
    expect([recorded, filled]).toEqual([slotMs + 1, slotMs])
    expect(free).toBeLessThan(Date.now() - 50_000)
  })

  test('the second one gets a share, at an instant that both know in advance', async () => {
    const first = agent()
    await first.sync(api)
    const waitingSync = first.sync(api, { waitMs: 20_000 })
    const before = Date.now()
    const second = agent()
    await second.sync(other)
    const dropped = (await waitingSync).answer?.changes?.drop ?? []
    expect(dropped.map(({ monitorId }) => monitorId).toSorted()).toEqual(idsOf(second))
    expect(dropped.length).toBeGreaterThan(10)
    const begun = [...second.monitors.values()].map(({ from }) => from)
    const [instant = 0, ...more] = new Set([...dropped.map(({ until }) => until), ...begun])
    expect(more).toEqual([])
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
    const moved = idsOf(first)
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
    const set = await assigned(waitingSync)
    expect(set.map(({ id }) => id).toSorted()).toEqual(moved)
    for (const { id, from } of set) expect(from).toBe(id === waiting ? slot : leftAt)
    expect(second.monitors.size).toBe(60)
  })

  test('it is idempotent; without another agent nothing is handed over', async () => {
    const first = agent()
    await first.sync(api)
    for (let times = 0; times < 2; times++) {
      expect((await first.leave(api)).answer?.peers).toBe(0)
    }
    expect((await epochs()).map(({ kind }) => kind)).toEqual(['join', 'leave'])
    expect([await states(first), await absences(location)]).toEqual([['left'], [true]])
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
    const moved = idsOf(first)
    const before = Date.now()
    await first.leave(api, { leftAt: before + 1e9 })
    await second.sync(api)
    const { from } = second.monitors.get(moved[0] ?? '') ?? {}
    expect(from).toBeLessThanOrEqual(Date.now() + handOverMs)
  })
})

describe('lost', () => {
  test('after 30 s without a call, not 29, the other one owns its monitors, after the recorded slots', async () => {
    const [first, second] = await twoAgents()
    const moved = idsOf(first)
    const slotMs = Date.now() - 31_000
    await addSlot(moved[0], slotMs)
    await unresponsive(29, first)
    expect(await states(first)).toEqual(['live'])
    const stored = new Map(second.monitors)
    const waitingSync = second.sync(api, { waitMs: 20_000 })
    await unresponsive(30.5, first)
    expect((await assigned(waitingSync)).map(({ id }) => id).toSorted()).toEqual(moved)
    expect(second.monitors.get(moved[0] ?? '')?.from).toBe(slotMs + 1)
    for (const [id, one] of stored) expect(second.monitors.get(id)).toEqual(one)
    expect(await states(first, second)).toEqual(['lost', 'live'])
  })

  test('no agent is lost before the platform itself has run for 30 s', async () => {
    const [first, second] = await twoAgents()
    await silence(use(), location.id, 3600, first, second)
    await query(`update platform_pulse set last = now() - interval '1 hour'`, [])
    await presence()
    await presence()
    expect(await states(first, second)).toEqual(['live', 'live'])
    // The same pause, and a platform without a pause.
    await second.sync(api)
    await unresponsive(3600, first)
    expect(await states(first, second)).toEqual(['lost', 'live'])
  })

  test('one that returns gets its share again, and only that moves', async () => {
    const [first, second] = await twoAgents()
    const own = idsOf(first)
    await unresponsive(31, first)
    await second.sync(api)
    expect(second.monitors.size).toBe(60)
    await first.sync(api)
    await second.sync(api)
    expect(idsOf(first)).toEqual(own)
    expect([first.monitors.size + second.monitors.size, await states(first)]).toEqual([
      60,
      ['live'],
    ])
    // It had continued alone: from the hand-over on it is the owner again, the other one until then.
    const [from] = new Set([...first.monitors.values()].map((one) => one.from))
    expect(from).toBe((await epochs()).at(-1)?.from_ms)
    expect(second.spans.get(own[0] ?? '')?.at(-1)?.until).toBe(from)
  })

  test('all of them: monitors without agents are detected, also where there never was an agent', async () => {
    const [first, second] = await twoAgents()
    const [empty, lonely] = [await addLocation(use().database), await addLocation(use().database)]
    await placeMonitors(use(), lonely, [{}])
    await unresponsive(31, first, second)
    expect(await absences(location, empty, lonely)).toEqual([true, false, true])
    expect((await epochs()).at(-1)).toMatchObject({ kind: 'lost', members: 0 })
    await first.sync(api)
    expect(first.monitors.size).toBe(60)
  })
})

test('a full location refuses one more, and not as a duplicate of another', async () => {
  await agent().sync(api)
  const { membersMax } = PROTOCOL_BOUNDS
  const one = () => ({ id: randomUUID(), version: '8.4.0', abilities: [] })
  await query('update location_epochs set members = $2::jsonb where location_id = $1', [
    location.id,
    JSON.stringify(Array.from({ length: membersMax }, one)),
  ])
  const response = await agent().sync(api)
  // 409 would make it choose another id and retry.
  expect(response.status).toBe(403)
  expect(response.body.message).toContain('500 agents')
})

describe('restart', () => {
  test('the same agent continues with its share; nothing else moves', async () => {
    const [first, second] = await twoAgents()
    const own = idsOf(first)
    const before = await epochs()
    const slotMs = Date.now() - 3_000
    await addSlot(own[0], slotMs)
    first.restart()
    expect((await first.sync(api)).answer?.changes?.whole).toBe(true)
    expect(idsOf(first)).toEqual(own)
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
    expect(await states(newer)).toEqual(['live'])
  })

  test('with another version: monitors move by its new abilities', async () => {
    await place(20, { checkType: 'DNS' })
    const [first, second] = await twoAgents()
    expect(first.monitors.size + second.monitors.size).toBe(80)
    first.restart({ version: '6.3.2', checkTypes: ['TCP'] })
    await first.sync(api)
    await second.sync(api)
    const types = ({ monitors }: FakeAgent) =>
      [...new Set([...monitors.values()].map(({ monitor }) => monitor.checkType))].toSorted()
    expect(types(first)).toEqual(['TCP'])
    expect(first.monitors.size + second.monitors.size).toBe(80)
    first.restart({ version: '8.4.0', checkTypes: ['TCP', 'DNS'] })
    await first.sync(api)
    expect(types(first)).toEqual(['DNS', 'TCP'])
  })
})
