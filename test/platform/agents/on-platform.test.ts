// Aim: a real platform, as it is started, keeps agents in step: it receives news, gives up unresponsive agents, and
// sends agents elsewhere when it stops.
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../support/database/database.ts'
import { untilHolds } from '../../support/eventually.ts'
import { silence } from '../../support/platform/agents-api.ts'
import { type AgentsEnd, FakeAgent } from '../../support/platform/fake-agent.ts'
import { addLocation, type TestLocation } from '../../support/platform/locations.ts'
import { startPlatform, type StartedPlatform } from '../../support/platform/platform-process.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

// Real processes, on machines that may be busy with other things.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let made: TestDatabase
let platform: StartedPlatform
let end: AgentsEnd
let location: TestLocation

beforeAll(async () => {
  made = await createTestDatabase()
  platform = await startPlatform({ DATABASE_URL: made.url, DATA_DIR: temporaryFolder() })
  end = { url: platform.url, check: () => {} }
  location = await addLocation(made.database)
})
afterAll(async () => {
  platform.kill('SIGKILL')
  await platform.ended
  await made.drop()
})

const read = (path: string) => fetch(`${platform.url}${path}`)
const metrics = async () => (await fetch(`${platform.metricsUrl}/metrics`)).text()

test('paths of agents are separate from those of clients', async () => {
  const pathsOf = async (path: string) =>
    Object.keys(((await (await read(path)).json()) as { paths: object }).paths)
  const isOfAgents = (path: string) => path.startsWith('/agent/v1/')
  expect((await pathsOf('/agent/v1/openapi.json')).every(isOfAgents)).toBe(true)
  expect((await pathsOf('/openapi.json')).some(isOfAgents)).toBe(false)
  const lost = await read('/agent/v1/nothing')
  expect([lost.status, await lost.json()]).toMatchObject([404, { statusCode: 404 }])
  expect((await read('/agent/v1/sync')).status).toBe(405)
})

test('an unresponsive agent is lost within seconds of its 30 s, and the other one is notified', async () => {
  const [first, second] = [new FakeAgent(location.secret), new FakeAgent(location.secret)]
  await first.sync(end)
  await second.sync(end)
  await second.sync(end)
  const waitingSync = second.sync(end, { waitMs: 20_000 })
  await made.database.query(`update platform_pulse set since = now() - interval '1 hour'`)
  await silence(made, location.id, 30, first)
  const begin = performance.now()
  const { answer } = await waitingSync
  expect(answer?.peers).toBe(0)
  // On an idle machine it takes a second; a busy one must not fail this test.
  expect(performance.now() - begin).toBeLessThan(15_000)
  const lines = (await metrics()).split('\n')
  expect(lines).toContain('vedette_agents{state="lost"} 1')
  expect(lines).toContain('vedette_agents_lost_total 1')
  expect(lines).toContain('vedette_location_epochs_total{cause="lost"} 1')
  expect((await read('/metrics')).status).toBe(404)
})

test('when it stops, waiting calls are answered at once and it ends with 0', async () => {
  const agent = new FakeAgent(location.secret)
  await agent.sync(end)
  const begin = performance.now()
  const waitingSync = agent.sync(end, { waitMs: 25_000 })
  await untilHolds(async () => expect(await metrics()).toMatch(/^vedette_syncs_held 1$/m))
  platform.kill('SIGTERM')
  expect((await waitingSync).headers.get('connection')).toBe('close')
  expect((await platform.ended).code).toBe(0)
  expect(performance.now() - begin).toBeLessThan(20_000)
})
