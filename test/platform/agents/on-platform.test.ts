// Aim: a real platform, as it is started, keeps agents in step: it receives news, gives up unresponsive agents, and
// sends agents elsewhere when it stops.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../support/database/database.ts'
import { untilHolds } from '../../support/eventually.ts'
import { type AgentsEnd, FakeAgent } from '../../support/platform/fake-agent.ts'
import { addLocation, raiseRevision, type TestLocation } from '../../support/platform/locations.ts'
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

test('paths of agents are separate from those of clients', async () => {
  const theirs = (await (await fetch(`${platform.url}/agent/v1/openapi.json`)).json()) as {
    paths: object
  }
  const ours = (await (await fetch(`${platform.url}/openapi.json`)).json()) as { paths: object }
  expect(Object.keys(theirs.paths).every((path) => path.startsWith('/agent/v1/'))).toBe(true)
  expect(Object.keys(ours.paths).some((path) => path.startsWith('/agent/'))).toBe(false)
  const lost = await fetch(`${platform.url}/agent/v1/nothing`)
  expect([lost.status, await lost.json()]).toMatchObject([404, { statusCode: 404 }])
  expect((await fetch(`${platform.url}/agent/v1/sync`)).status).toBe(405)
})

test('a change answers the waiting call of an agent', async () => {
  const agent = new FakeAgent(location.secret)
  await agent.sync(end)
  const waitingSync = agent.sync(end, { waitMs: 20_000 })
  const before = agent.have
  await made.database.transaction((tx) => raiseRevision(tx, location.id))
  await waitingSync
  expect(agent.have).not.toBe(before)
  await agent.leave(end)
})

test('an unresponsive agent is lost within seconds of its 30 s, and the other one is notified', async () => {
  const [first, second] = [new FakeAgent(location.secret), new FakeAgent(location.secret)]
  await first.sync(end)
  await second.sync(end)
  await second.sync(end)
  const waitingSync = second.sync(end, { waitMs: 20_000 })
  const unresponsive = async () => {
    await made.database.query(`update platform_pulse set since = now() - interval '1 hour'`)
    await made.database.query(
      `update agents set last_seen_at = now() - interval '30 seconds'
       where location_id = $1 and id = $2`,
      [location.id, first.facts.id],
    )
  }
  await unresponsive()
  const begin = performance.now()
  const { answer } = await waitingSync
  expect(answer?.peers).toBe(0)
  // On an idle machine it takes a second; a busy one must not fail this test.
  expect(performance.now() - begin).toBeLessThan(15_000)
  const metrics = await (await fetch(`${platform.metricsUrl}/metrics`)).text()
  expect(metrics).toMatch(/^vedette_agents\{state="lost"\} 1$/m)
  expect(metrics).toMatch(/^vedette_agents_lost_total 1$/m)
  expect(metrics).toMatch(/^vedette_location_epochs_total\{cause="lost"\} 1$/m)
  expect(metrics).toMatch(/^vedette_syncs_held \d+$/m)
  expect((await fetch(`${platform.url}/metrics`)).status).toBe(404)
})

describe('when it stops', () => {
  test('waiting calls are answered at once and it ends with 0', async () => {
    const agent = new FakeAgent(location.secret)
    await agent.sync(end)
    const begin = performance.now()
    const waitingSync = agent.sync(end, { waitMs: 25_000 })
    await untilHolds(async () => {
      const metrics = await (await fetch(`${platform.metricsUrl}/metrics`)).text()
      expect(metrics).toMatch(/^vedette_syncs_held 1$/m)
    })
    platform.kill('SIGTERM')
    expect((await waitingSync).headers.get('connection')).toBe('close')
    expect((await platform.ended).code).toBe(0)
    expect(performance.now() - begin).toBeLessThan(20_000)
  })
})
