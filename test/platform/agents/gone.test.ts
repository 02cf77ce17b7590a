// Aim: data of an agent that is gone is retained as long as needed: its runs while it finishes them, its last
// heartbeat, and the epochs of slots that are not accounted for.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { handBackLostRuns } from '../../../src/platform/runs/queries/stale-runs.ts'
import {
  runPresence,
  silence,
  startAgentsApi,
  TEST_CIPHER,
  type AgentsApi,
} from '../../support/platform/agents-api.ts'
import { useDatabase } from '../../support/database/database.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import { addLocation, placeMonitors, type TestLocation } from '../../support/platform/locations.ts'

const DAY_S = 86_400
const use = useDatabase()
const db = () => use().database
let api: AgentsApi
let location: TestLocation
beforeAll(async () => {
  api = await startAgentsApi(use())
})
afterAll(() => api.close())
beforeEach(async () => {
  location = await addLocation(db())
})

const unresponsive = (seconds: number, agent: FakeAgent) =>
  silence(use(), location.id, seconds, agent)

/** An agent that joined and left. */
async function goneAgent(): Promise<FakeAgent> {
  const agent = new FakeAgent(location.secret)
  await agent.sync(api)
  await agent.leave(api)
  return agent
}

test('a leaving agent keeps its runs on demand for as long as it reports them', async () => {
  const [monitorId] = await placeMonitors({ database: db(), cipher: TEST_CIPHER }, location, [{}])
  const agent = await goneAgent()
  const [run] = await db().query<{ id: string }>(
    `insert into runs (id, account_id, monitor_id, location_id, state, asked_by, agent_id, taken_at)
     select gen_random_uuid(), account_id, $2, id, 'running', 'test', $3, now()
     from private_locations where id = $1 returning id`,
    [location.id, monitorId, agent.facts.id],
  )
  const has = run?.id ?? ''
  const holder = async () => {
    await handBackLostRuns(db())
    return (await db().query('select state, agent_id from runs where id = $1', [has]))[0]
  }
  await unresponsive(61, agent)
  await agent.leave(api, { runs: [{ run: has, state: 'running' }] })
  expect(await holder()).toEqual({ state: 'running', agent_id: agent.facts.id })
  await unresponsive(61, agent)
  expect(await holder()).toEqual({ state: 'queued', agent_id: null })
})

test('after a month they are deleted, except the last one of a location', async () => {
  const [first, second] = [await goneAgent(), await goneAgent()]
  await unresponsive(40 * DAY_S, first)
  await unresponsive(31 * DAY_S, second)
  await runPresence(use(), api)
  // Without it the location would be reported to have no agent that ever reported.
  expect(await db().query('select id from agents where location_id = $1', [location.id])).toEqual([
    { id: second.facts.id },
  ])
})

test('epochs are deleted once their slots are swept, except the current one', async () => {
  await goneAgent()
  await db().query(
    `update location_epochs set from_ms = from_ms - 3 * 86400000 where location_id = $1`,
    [location.id],
  )
  const kinds = async () => {
    await runPresence(use(), api)
    return db().query(
      `select cause->>'kind' as kind from location_epochs where location_id = $1 order by epoch`,
      [location.id],
    )
  }
  expect(await kinds()).toEqual([{ kind: 'join' }, { kind: 'leave' }])
  await db().query(
    `insert into accounting (swept_until_ms) values ((extract(epoch from now()) * 1000)::bigint)`,
  )
  expect(await kinds()).toEqual([{ kind: 'leave' }])
})
