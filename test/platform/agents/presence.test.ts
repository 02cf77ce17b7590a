// Aim: an agent that reports presence during a sync counts as seen, and no other; a presence report neither
// admits nor restores an agent.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startAgentsApi, type AgentsApi } from '../../support/platform/agents-api.ts'
import { useDatabase } from '../../support/database/database.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import { addLocation, type TestLocation } from '../../support/platform/locations.ts'
import { addMonitor } from '../../support/platform/monitor-rows.ts'

const use = useDatabase()
let api: AgentsApi
let location: TestLocation
let agent: FakeAgent
beforeAll(async () => {
  api = await startAgentsApi(use())
})
afterAll(() => api.close())
beforeEach(async () => {
  location = await addLocation(use().database)
  agent = new FakeAgent(location.secret)
  await agent.sync(api)
  await use().database.query(`update agents set last_seen_at = now() - interval '20 s'`)
})

const PATH = '/agent/v1/presence'

async function say(body: unknown, secret = location.secret) {
  const answer = await fetch(api.url + PATH, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  api.check('POST', PATH, { status: answer.status, headers: answer.headers, text })
  return { status: answer.status, body: JSON.parse(text) as { live?: boolean } }
}

async function standing(): Promise<{ state: string; silentS: number }[]> {
  return use().database.query(
    `select state, extract(epoch from now() - last_seen_at)::float8 as "silentS" from agents
     where location_id = '${location.id}'`,
  )
}

const saying = () => ({ agentId: agent.facts.id, instance: agent.facts.instance })

test('an agent that reports presence counts as seen, in any spelling of its id', async () => {
  const { agentId, instance } = saying()
  const { status, body } = await say({ agentId: agentId.toUpperCase(), instance, more: 1 })
  expect([status, body]).toEqual([200, { live: true }])
  expect((await standing())[0]?.silentS).toBeLessThan(5)
})

test.each<[string, () => Promise<[unknown, string?]>]>([
  ['another process of it', async () => [{ ...saying(), instance: randomUUID() }]],
  ['an agent that never synced', async () => [{ ...saying(), agentId: randomUUID() }]],
  [
    'one with the key of another location',
    async () => [saying(), (await addLocation(use().database)).secret],
  ],
])('%s does not count', async (_, prepare) => {
  expect(await say(...(await prepare()))).toEqual({ status: 200, body: { live: false } })
  expect((await standing())[0]?.silentS).toBeGreaterThan(15)
  expect(await standing()).toHaveLength(1)
})

test.each(['lost', 'left'])('one that is %s does not count, and stays so', async (state) => {
  await use().database.query(`update agents set state = '${state}'`)
  expect((await say(saying())).body).toEqual({ live: false })
  expect(await standing()).toMatchObject([{ state }])
})

describe('the progress of a run', () => {
  const SAID = { phase: 'test', done: 3, total: 10, line: 'shop.spec.ts' }
  const RUN = randomUUID()

  const addRun = async (state: string) => {
    const monitorId = await addMonitor(use().database, location.accountId, {
      locations: [location],
    })
    await use().database.query(`delete from runs`)
    await use().database.query(
      `insert into runs (id, account_id, monitor_id, location_id, state, asked_by, agent_id, verdict,
         finished_at) values ($1, $2, $3, $4, $5, 'somebody', $6, $7, $8)`,
      [
        RUN,
        location.accountId,
        monitorId,
        location.id,
        state,
        state === 'queued' ? null : agent.facts.id,
        ...(state === 'finished' ? ['passed', new Date()] : [null, null]),
      ],
    )
  }
  const stored = async () => {
    const rows = await use().database.query<{ progress: unknown }>('select progress from runs')
    return rows[0]?.progress
  }
  const notify = (more: object = {}, secret = location.secret) =>
    say({ ...saying(), progress: [{ run: RUN, ...SAID }], ...more }, secret)

  test.each(['sent', 'running'])(
    'is stored for one that is %s, also for a leaving agent',
    async (state) => {
      await addRun(state)
      await use().database.query(`update agents set state = 'left'`)
      expect((await notify()).status).toBe(200)
      expect(await stored()).toEqual(SAID)
    },
  )

  test.each<[string, string, () => Promise<[object, string?]>]>([
    ['one that is finished', 'finished', async () => [{}]],
    ['one that nobody has', 'queued', async () => [{}]],
    ['one of another agent', 'running', async () => [{ agentId: randomUUID() }]],
    ['one of a process before', 'running', async () => [{ instance: randomUUID() }]],
    [
      'one of another location',
      'running',
      async () => [{}, (await addLocation(use().database)).secret],
    ],
  ])('is ignored for %s', async (_, state, prepare) => {
    await addRun(state)
    expect((await notify(...(await prepare()))).status).toBe(200)
    expect(await stored()).toBeNull()
  })
})

const run = (more: object = {}) => ({ run: randomUUID(), phase: 'test', ...more })
const withProgress =
  (...progress: object[]) =>
  () => ({ ...saying(), progress })

test.each<[string, () => unknown]>([
  ['no body', () => ({})],
  ['an id that is none', () => ({ agentId: 'x', instance: randomUUID() })],
  ['an id alone', () => ({ agentId: randomUUID() })],
  ['a list', () => []],
  ['a long line', withProgress(run({ line: 'x'.repeat(501) }))],
  ['a long phase', withProgress(run({ phase: 'x'.repeat(33) }))],
  ['no run', withProgress(run({ run: 'x' }))],
  ['a negative count', withProgress(run({ done: -1 }))],
  ['many runs', withProgress(...Array.from({ length: 33 }, () => run()))],
])('%s is refused', async (_, body) => {
  expect((await say(body())).status).toBe(400)
})
