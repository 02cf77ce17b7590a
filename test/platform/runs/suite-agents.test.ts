// Aim: a check suite is assigned only to agents that have its engine. Without such an agent its runs are missed for
// that reason, with the needed abilities as text.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createRuns, type Runs } from '../../../src/platform/runs/routes.ts'
import { startAgentsApi, TEST_CIPHER, type AgentsApi } from '../../support/platform/agents-api.ts'
import { useDatabase } from '../../support/database/database.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import { addLocation, type TestLocation } from '../../support/platform/locations.ts'
import { servePublicApi, type ApiClient } from '../../support/platform/public-api.ts'

const use = useDatabase()
let agents: AgentsApi
let runs: Runs
const { addClient } = servePublicApi(use, () => {
  runs = createRuns(use().database)
  return { cipher: TEST_CIPHER, operations: runs.operations }
})

beforeAll(async () => {
  agents = await startAgentsApi(use())
})
afterAll(() => agents.close())

const scene = async (...engines: string[][]) => {
  const { database } = use()
  const location = await addLocation(database)
  const client = await addClient({ accountId: location.accountId })
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
  const age = `update runs set queued_at = now() - interval '1 hour' where id = $1`
  await use().database.query(age, [run])
  await runs.backgroundJobs[0]?.run(new AbortController().signal)
  expect((await client.call('GET', `/v1/checks/${id}/runs/${run}`)).body).toMatchObject({
    verdict: 'missed',
    missedReason: 'no-capable-agent',
    needed: NEEDED,
  })
})
