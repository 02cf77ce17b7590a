// Aim: an agent that reports presence during a sync counts as seen, and no other; a presence report neither
// admits nor restores an agent. Data of an agent that is gone is retained as long as needed: its runs while it
// finishes them, its last heartbeat, and the epochs of slots that are not accounted for.
import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { handBackLostRuns } from '../../../src/platform/runs/queries/stale-runs.ts'
import { runPresence, silence, useAgentsApi } from '../../support/platform/agents-api.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import { addLocation, placeMonitors, type TestLocation } from '../../support/platform/locations.ts'
import { addMonitor, addRun } from '../../support/platform/monitor-rows.ts'

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

const saying = (more: object = {}) => ({
  agentId: agent.facts.id,
  instance: agent.facts.instance,
  ...more,
})
const say = async (body: unknown, secret = location.secret) => {
  const answer = await api.post('/agent/v1/presence', { secret, body })
  return { status: answer.status, body: answer.body }
}
/** The key of another location. */
const foreignKey = async () => (await addLocation(db())).secret

const standing = () =>
  db().query<{ state: string; silentS: number }>(
    `select state, extract(epoch from now() - last_seen_at)::float8 as "silentS" from agents
     where location_id = $1`,
    [location.id],
  )

test('an agent that reports presence counts as seen, in any spelling of its id', async () => {
  const body = saying({ agentId: agent.facts.id.toUpperCase(), more: 1 })
  expect(await say(body)).toEqual({ status: 200, body: { live: true } })
  expect((await standing())[0]?.silentS).toBeLessThan(5)
})

test.each<[string, object, key?: () => Promise<string>]>([
  ['another process of it', { instance: randomUUID() }],
  ['an agent that never synced', { agentId: randomUUID() }],
  ['one with the key of another location', {}, foreignKey],
])('%s does not count', async (_, more, key) => {
  expect(await say(saying(more), await key?.())).toEqual({ status: 200, body: { live: false } })
  const [one, ...none] = await standing()
  expect(none).toEqual([])
  expect(one?.silentS).toBeGreaterThan(15)
})

test.each(['lost', 'left'])('one that is %s does not count, and stays so', async (state) => {
  await db().query(`update agents set state = '${state}'`)
  expect((await say(saying())).body).toEqual({ live: false })
  expect(await standing()).toMatchObject([{ state }])
})

describe('the progress of a run', () => {
  const SAID = { phase: 'test', done: 3, total: 10, line: 'shop.spec.ts' }
  let id: string

  const add = async (state: string) => {
    const { accountId } = location
    const monitorId = await addMonitor(db(), accountId, { locations: [location] })
    const agentId = state === 'queued' ? null : agent.facts.id
    id = await addRun(db(), location, { monitorId, state, agentId })
  }
  const stored = async () =>
    (await db().query('select progress from runs where id = $1', [id]))[0]?.['progress']
  const notify = (more: object = {}, secret?: string) =>
    say(saying({ progress: [{ run: id, ...SAID }], ...more }), secret)

  test.each(['sent', 'running'])(
    'is stored for one that is %s, also of a left agent',
    async (state) => {
      await add(state)
      await db().query(`update agents set state = 'left'`)
      expect((await notify()).status).toBe(200)
      expect(await stored()).toEqual(SAID)
    },
  )

  test.each<[string, string, object, key?: () => Promise<string>]>([
    ['one that is finished', 'finished', {}],
    ['one that nobody has', 'queued', {}],
    ['one of another agent', 'running', { agentId: randomUUID() }],
    ['one of a process before', 'running', { instance: randomUUID() }],
    ['one of another location', 'running', {}, foreignKey],
  ])('is ignored for %s', async (_, state, more, key) => {
    await add(state)
    expect((await notify(more, await key?.())).status).toBe(200)
    expect(await stored()).toBeNull()
  })
})

const run = (more: object = {}) => ({ run: randomUUID(), phase: 'test', ...more })

test.each<[string, object]>([
  ['an id that is none', { agentId: 'x' }],
  ['a long line', { progress: [run({ line: 'x'.repeat(501) })] }],
  ['many runs', { progress: Array.from({ length: 33 }, () => run()) }],
])('%s is refused', async (_, more) => {
  expect((await say(saying(more))).status).toBe(400)
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
    const [monitorId = ''] = await placeMonitors(use(), location, [{}])
    const gone = await goneAgent()
    const row = { monitorId, state: 'running', agentId: gone.facts.id }
    const has = await addRun(db(), location, row)
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
    const left = await db().query('select id from agents where location_id = $1', [location.id])
    expect(left).toEqual([{ id: second.facts.id }])
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
