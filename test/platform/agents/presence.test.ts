// Aim: an agent that reports presence during a sync counts as seen, and no other; a presence report neither
// admits nor restores an agent. Data of an agent that is gone is retained as long as needed: its runs while it
// finishes them, its last heartbeat, and the epochs of slots that are not accounted for.
import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { handBackLostRuns } from '../../../src/platform/runs/queries/stale-runs.ts'
import {
  runPresence,
  silence,
  TEST_CIPHER,
  useAgentsApi,
} from '../../support/platform/agents-api.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import { addLocation, placeMonitors, type TestLocation } from '../../support/platform/locations.ts'
import { addMonitor } from '../../support/platform/monitor-rows.ts'

const { database: use, api } = useAgentsApi()
const db = () => use().database
let location: TestLocation
let agent: FakeAgent
beforeEach(async () => {
  location = await addLocation(db())
  agent = new FakeAgent(location.secret)
  await agent.sync(api)
  await db().query(`update agents set last_seen_at = now() - interval '20 s'`)
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
  return db().query(
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
    async () => [saying(), (await addLocation(db())).secret],
  ],
])('%s does not count', async (_, prepare) => {
  expect(await say(...(await prepare()))).toEqual({ status: 200, body: { live: false } })
  expect((await standing())[0]?.silentS).toBeGreaterThan(15)
  expect(await standing()).toHaveLength(1)
})

test.each(['lost', 'left'])('one that is %s does not count, and stays so', async (state) => {
  await db().query(`update agents set state = '${state}'`)
  expect((await say(saying())).body).toEqual({ live: false })
  expect(await standing()).toMatchObject([{ state }])
})

describe('the progress of a run', () => {
  const SAID = { phase: 'test', done: 3, total: 10, line: 'shop.spec.ts' }
  const RUN = randomUUID()

  const addRun = async (state: string) => {
    const monitorId = await addMonitor(db(), location.accountId, {
      locations: [location],
    })
    await db().query(`delete from runs`)
    await db().query(
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
    const rows = await db().query<{ progress: unknown }>('select progress from runs')
    return rows[0]?.progress
  }
  const notify = (more: object = {}, secret = location.secret) =>
    say({ ...saying(), progress: [{ run: RUN, ...SAID }], ...more }, secret)

  test.each(['sent', 'running'])(
    'is stored for one that is %s, also for a leaving agent',
    async (state) => {
      await addRun(state)
      await db().query(`update agents set state = 'left'`)
      expect((await notify()).status).toBe(200)
      expect(await stored()).toEqual(SAID)
    },
  )

  test.each<[string, string, () => Promise<[object, string?]>]>([
    ['one that is finished', 'finished', async () => [{}]],
    ['one that nobody has', 'queued', async () => [{}]],
    ['one of another agent', 'running', async () => [{ agentId: randomUUID() }]],
    ['one of a process before', 'running', async () => [{ instance: randomUUID() }]],
    ['one of another location', 'running', async () => [{}, (await addLocation(db())).secret]],
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
  ['an id that is none', () => ({ agentId: 'x', instance: randomUUID() })],
  ['a long line', withProgress(run({ line: 'x'.repeat(501) }))],
  ['many runs', withProgress(...Array.from({ length: 33 }, () => run()))],
])('%s is refused', async (_, body) => {
  expect((await say(body())).status).toBe(400)
})

describe('an agent that is gone', () => {
  const DAY_S = 86_400
  beforeEach(async () => {
    location = await addLocation(db())
  })
  const unresponsive = (seconds: number, gone: FakeAgent) =>
    silence(use(), location.id, seconds, gone)

  /** An agent that joined and left. */
  async function goneAgent(): Promise<FakeAgent> {
    const gone = new FakeAgent(location.secret)
    await gone.sync(api)
    await gone.leave(api)
    return gone
  }

  test('a leaving agent keeps its runs on demand for as long as it reports them', async () => {
    const parts = { database: db(), cipher: TEST_CIPHER }
    const [monitorId] = await placeMonitors(parts, location, [{}])
    const gone = await goneAgent()
    const [held] = await db().query<{ id: string }>(
      `insert into runs (id, account_id, monitor_id, location_id, state, asked_by, agent_id, taken_at)
     select gen_random_uuid(), account_id, $2, id, 'running', 'test', $3, now()
     from private_locations where id = $1 returning id`,
      [location.id, monitorId, gone.facts.id],
    )
    const has = held?.id ?? ''
    const holder = async () => {
      await handBackLostRuns(db())
      return (await db().query('select state, agent_id from runs where id = $1', [has]))[0]
    }
    await unresponsive(61, gone)
    await gone.leave(api, { runs: [{ run: has, state: 'running' }] })
    expect(await holder()).toEqual({ state: 'running', agent_id: gone.facts.id })
    await unresponsive(61, gone)
    expect(await holder()).toEqual({ state: 'queued', agent_id: null })
  })

  test('after a month they are deleted, except the last one of a location', async () => {
    const [first, second] = [await goneAgent(), await goneAgent()]
    await unresponsive(40 * DAY_S, first)
    await unresponsive(31 * DAY_S, second)
    await runPresence(use(), api)
    // Without it the location would be reported to have no agent that ever reported.
    expect(await db().query('select id from agents where location_id = $1', [location.id])).toEqual(
      [{ id: second.facts.id }],
    )
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
})
