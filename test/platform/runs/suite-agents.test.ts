// Aim: a check suite is assigned only to agents that have its engine. Without such an agent its runs and slots
// are missed for that reason, with the needed abilities as text.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { capable, neededText } from '../../../src/platform/agents/assignment.ts'
import { createRuns, type Runs } from '../../../src/platform/runs/routes.ts'
import { sweep, SWEEP_GRACE_MS } from '../../../src/platform/results/sweep.ts'
import { ensurePartitions } from '../../../src/platform/results/queries/result-partitions.ts'
import { startAgentsApi, TEST_CIPHER, type AgentsApi } from '../../support/platform/agents-api.ts'
import { useDatabase } from '../../support/database/database.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import { addLocation, type TestLocation } from '../../support/platform/locations.ts'
import {
  addClient,
  startPublicApi,
  type ApiClient,
  type PublicApi,
} from '../../support/platform/public-api.ts'

const DAY_MS = 86_400_000
const use = useDatabase()
let api: PublicApi
let agents: AgentsApi
let runs: Runs

beforeAll(async () => {
  const { database } = use()
  runs = createRuns({ database, retentionMs: DAY_MS, capable, neededText })
  api = await startPublicApi(database, {
    cipher: TEST_CIPHER,
    operations: runs.operations,
    defaultLimit: { limit: 1e6, windowS: 60 },
  })
  agents = await startAgentsApi(use())
})
afterAll(async () => {
  runs.drain()
  await Promise.all([api.close(), agents.close()])
})

const scene = async (...engines: string[][]) => {
  const { database } = use()
  const location = await addLocation(database)
  const client = await addClient(api, database, { accountId: location.accountId })
  const all = engines.map((one) => new FakeAgent(location.secret, { engines: one }))
  for (const one of all) await one.sync(agents)
  return { location, client, all }
}
const suite = async (client: ApiClient, location: TestLocation, more: object) => {
  const body = {
    name: 'the shop',
    codeBundlePath: 'shop.tar.gz',
    privateLocations: [location.slugName],
    frequency: 1,
    ...more,
  }
  const made = await client.call('POST', '/v1/checks/playwright', { body })
  expect(made.status).toBe(201)
  return made.body.id as string
}
const BUN = { engine: 'bun', engineVersion: '1.3' }
const NODE = { engine: 'node', engineVersion: '24' }
const NEEDED =
  'PLAYWRIGHT with bun@1.3: agent 8.3.0 or newer (image agent), on a machine where `vedette engine install bun@1.3` was run before it started'

test('a suite goes to the agent that has its engine', async () => {
  const { location, client, all } = await scene(['node@24'], ['bun@1.3'], ['node@22', 'node@24'])
  const suites = await Promise.all(Array.from({ length: 10 }, () => suite(client, location, BUN)))
  const others = await Promise.all(Array.from({ length: 10 }, () => suite(client, location, NODE)))
  for (const one of all) await one.sync(agents)
  const [first, bun, second] = all.map((one) => [...one.monitors.keys()].toSorted())
  expect(bun).toEqual(suites.toSorted())
  // For a moment two of them share slots of one, as after an agent joined.
  const had = new Set([...(first ?? []), ...(second ?? [])])
  expect([...had].toSorted()).toEqual(others.toSorted())
})

test('without the engine, a run is missed and says what is needed', async () => {
  const { location, client, all } = await scene(['node@24'])
  const id = await suite(client, location, BUN)
  const asked = await client.call('POST', `/v1/checks/${id}/runs`, { body: {} })
  const run = asked.body.runs[0].id as string
  expect((await all[0]?.sync(agents))?.answer?.runs).toEqual([])
  await use().database.query(
    `update runs set queued_at = now() - interval '1 hour' where id = $1`,
    [run],
  )
  await runs.backgroundJobs[0]?.run(new AbortController().signal)
  expect((await client.call('GET', `/v1/checks/${id}/runs/${run}`)).body).toMatchObject({
    verdict: 'missed',
    missedReason: 'no-capable-agent',
    needed: NEEDED,
  })
})

test('without the engine, its slots are missed and say what is needed', async () => {
  const { database } = use()
  const { location, client } = await scene(['node@24'])
  const id = await suite(client, location, BUN)
  const now = Date.now() + 300_000 + SWEEP_GRACE_MS
  await ensurePartitions(database, Date.now() - 2 * DAY_MS, Date.now() + 2 * DAY_MS)
  await database.query('truncate accounting, platform_pulse')
  const options = {
    database,
    now: () => now,
    retentionMs: DAY_MS,
  }
  await sweep(options, AbortSignal.timeout(20_000))
  const rows = await database.query(
    `select distinct verdict, missed_reason, needed from results
     where monitor_id = $1 and slot > now() + interval '10 s'`,
    [id],
  )
  expect(rows).toEqual([{ verdict: 'missed', missed_reason: 'no-capable-agent', needed: NEEDED }])
})

test('a reported run is shown, and its slot is under way', async () => {
  const { database } = use()
  const { location, client, all } = await scene(['node@24'])
  const [agent] = all
  const id = await suite(client, location, NODE)
  await agent?.sync(agents)
  const slots = agent?.monitors.get(id)
  const slot = (slots?.from ?? 0) + 60_000
  const at = slot - ((slot - (slots?.slots.offsetMs ?? 0)) % (slots?.slots.everyMs ?? 1))
  const idle = { waiting: 0, running: 0, free: 1 }
  const said = { monitorId: id, slot: at, startedAt: at, phase: 'test', done: 3, total: 10 }
  const queues = { uptime: idle, scripted: { ...idle, running: 1, slots: [said] } }
  await agent?.sync(agents, { queues })
  const shown = await client.call('GET', `/v1/checks/${id}/under-way`)
  expect(shown.body.underWay).toMatchObject([
    { location: location.slugName, progress: { phase: 'test', done: 3, total: 10 } },
  ])
  await ensurePartitions(database, Date.now() - 2 * DAY_MS, Date.now() + 2 * DAY_MS)
  await database.query('truncate accounting, platform_pulse')
  const now = at + 1 + SWEEP_GRACE_MS
  const options = { database, now: () => now, retentionMs: DAY_MS }
  await sweep(options, AbortSignal.timeout(20_000))
  const rows = await database.query(
    `select missed_reason from results where monitor_id = $1 and slot = to_timestamp($2::float8 / 1000)`,
    [id, at],
  )
  expect(rows).toEqual([{ missed_reason: 'under-way' }])
})
