// Aim: an agent receives at once exactly the changes that concern it: first everything, then only changes, by long
// polling. Nothing that it sends does harm.
import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { PlatformLink } from '../../../src/agent/platform/link.ts'
import { sync } from '../../../src/agent/platform/sync/call.ts'
import { MANIFESTS } from '../../../src/contract/versions.ts'
import { sampleLocations } from '../../../src/platform/private-locations/queries/locations.ts'
import { useAgentsApi } from '../../support/platform/agents-api.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import {
  addLocation,
  placeMonitors,
  raiseRevision,
  type TestLocation,
} from '../../support/platform/locations.ts'
import { addLocationKey } from '../../support/platform/monitor-rows.ts'

const { database: use, api } = useAgentsApi()
let location: TestLocation
beforeEach(async () => {
  location = await addLocation(use().database)
})

const place = (monitors: Parameters<typeof placeMonitors>[2]) =>
  placeMonitors(use(), location, monitors)
const some = (count: number) => Array.from({ length: count }, () => ({}))
const agentHere = (facts?: ConstructorParameters<typeof FakeAgent>[1]) =>
  new FakeAgent(location.secret, facts)
/** An agent that has synced once. */
const synced = async () => {
  const agent = agentHere()
  await agent.sync(api)
  return agent
}
/** Changes one assignment like an edit of its monitor; `untilMs` ends it. */
const change = (monitorId: string, untilMs: number | null = null) =>
  use().database.transaction(async (tx) => {
    const revision = await raiseRevision(tx, location.id)
    await tx.query(
      `update placements set revision = $3, until_ms = $4
       where location_id = $1 and monitor_id = $2`,
      [location.id, monitorId, revision, untilMs],
    )
  })

describe('the answer of a sync', () => {
  test('the first one: everything; the next one: nothing new', async () => {
    const ids = await place(some(3))
    const agent = agentHere()
    const { answer } = await agent.sync(api)
    expect(answer?.changes?.whole).toBe(true)
    expect([...agent.monitors.keys()].toSorted()).toEqual(ids.toSorted())
    const { id, slugName, accountId } = location
    const here = { id, slugName, accountId, proxyUrl: null }
    expect(answer).toMatchObject({ location: here, runs: [], cancel: [], peers: 0 })
    expect(answer?.settings.artifactBytesMax).toBe(MANIFESTS.at(-1)?.limits.artifactBytesMax)
    const again = await agent.sync(api)
    expect(again.answer).toMatchObject({ changes: null, revision: answer?.revision })
  })

  test('an edit: that monitor alone; a removal: its end', async () => {
    const [first = '', second = ''] = await place(some(2))
    const agent = await synced()
    await change(first)
    const set = [{ monitor: { id: first } }]
    expect((await agent.sync(api)).answer?.changes).toMatchObject({ whole: false, set, drop: [] })
    const until = Date.now()
    await change(second, until)
    const drop = [{ monitorId: second, until }]
    expect((await agent.sync(api)).answer?.changes).toMatchObject({ whole: false, set: [], drop })
  })

  test('a problem of its own network is stored with the time of the first report, until it ends', async () => {
    const agent = agentHere()
    const after = async (said: Parameters<FakeAgent['sync']>[1]) => {
      await agent.sync(api, said)
      const [row] = await use().database.query<{ problem: string | null; since: Date | null }>(
        `select network_problem as problem, network_problem_since as since from agents where id = $1`,
        [agent.facts.id],
      )
      return row
    }
    const first = await after({ networkProblem: 'RESOLVER_UNREACHABLE' })
    expect(first).toMatchObject({
      problem: 'RESOLVER_UNREACHABLE',
      since: expect.any(Date) as Date,
    })
    const other = { problem: 'NETWORK_UNREACHABLE', since: first?.since }
    expect(await after({ networkProblem: 'NETWORK_UNREACHABLE' })).toEqual(other)
    agent.restart()
    expect(await after({ networkProblem: 'NETWORK_UNREACHABLE' })).toEqual(other)
    expect(await after({})).toEqual({ problem: null, since: null })
    expect((await agent.sync(api, { networkProblem: 'x'.repeat(65) })).status).toBe(400)
  })

  test('an unknown token, or that of another process: everything', async () => {
    await place(some(2))
    const agent = await synced()
    const { have } = agent
    for (const odd of ['', 'x', '9.9.00000000', `99${have}`, have?.replace(/.$/, 'g') ?? '']) {
      expect((await agent.sync(api, { have: odd })).answer?.changes).toMatchObject({ whole: true })
    }
    agent.restart()
    agent.have = have
    expect((await agent.sync(api)).answer?.changes?.whole).toBe(true)
  })

  test('thousands of monitors: compressed unless refused, complete, and the next sync is cheap', async () => {
    await place(some(3_000))
    const agent = agentHere()
    const { headers } = await agent.sync(api)
    expect(headers.get('content-encoding')).toBe('gzip')
    expect(Number(headers.get('content-length'))).toBeLessThan(600 * 1024)
    expect(agent.monitors.size).toBe(3_000)
    const next = await agent.sync(api)
    expect(next.answer?.changes).toBeNull()
    expect(next.headers.get('content-encoding')).toBeNull()
    agent.restart()
    const plain = { headers: { 'accept-encoding': 'identity' } }
    const whole = await agent.send(api, agent.request(), plain)
    expect(whole.headers.get('content-encoding')).toBeNull()
    expect(whole.answer?.changes?.set).toHaveLength(3_000)
  })
})

describe('a waiting sync', () => {
  test('is answered without news after its time-out', async () => {
    const agent = await synced()
    const begin = performance.now()
    const { answer } = await agent.sync(api, { waitMs: 300 })
    expect(answer?.changes).toBeNull()
    expect(performance.now() - begin).toBeGreaterThanOrEqual(299)
  })

  test('ends when the same agent calls again, and when its client disconnects', async () => {
    const agent = await synced()
    const first = agent.sync(api, { waitMs: 20_000 })
    await expect.poll(() => api.agents.syncsWaiting()).toBe(1)
    expect((await agent.sync(api)).status).toBe(200)
    expect((await first).status).toBe(200)
    const leave = new AbortController()
    const waiting = { ...agent.request(), waitMs: 20_000 }
    const gone = agent.send(api, waiting, { signal: leave.signal })
    await expect.poll(() => api.agents.syncsWaiting()).toBe(1)
    leave.abort()
    await expect(gone).rejects.toThrow(/abort/)
    await expect.poll(() => api.agents.syncsWaiting()).toBe(0)
  })

  test('never misses a change that is committed while it is under way', async () => {
    const ids = await place(some(40))
    const agent = await synced()
    const seen = new Set<string>()
    const changing = (async () => {
      for (const monitorId of ids) await change(monitorId)
    })()
    while (seen.size < ids.length) {
      // A lost change would make this one wait until its time-out.
      const { answer } = await agent.sync(api, { waitMs: 5_000 })
      expect(answer?.changes).not.toBeNull()
      for (const { monitor } of answer?.changes?.set ?? []) seen.add(monitor.id)
    }
    await changing
  })
})

describe('authentication', () => {
  test('an unknown key: 401, unknown', async () => {
    const answer = await new FakeAgent('pl_nobody').sync(api)
    expect(answer).toMatchObject({ status: 401, body: { attributes: { reason: 'unknown' } } })
  })

  test('a revoked key: 401, revoked, within moments; the other key stays valid', async () => {
    const second = await addLocationKey(use().database, location.id)
    const agent = await synced()
    const revoke = 'update location_keys set revoked_at = now() where id = $1'
    await use().database.query(revoke, [location.keyId])
    await expect.poll(async () => (await agent.sync(api)).status).toBe(401)
    expect((await agent.sync(api)).body.attributes).toMatchObject({ reason: 'revoked' })
    expect((await new FakeAgent(second.secret).sync(api)).status).toBe(200)
  })

  test('the same agent id in another location is another agent', async () => {
    const [mine = ''] = await place(some(1))
    const agent = await synced()
    const elsewhere = await addLocation(use().database)
    const liar = new FakeAgent(elsewhere.secret, { id: agent.facts.id })
    expect((await liar.sync(api)).status).toBe(200)
    expect(liar.monitors.size).toBe(0)
    expect((await agent.sync(api)).answer?.changes).toBeNull()
    expect(agent.monitors.has(mine)).toBe(true)
  })
})

describe('abilities of an agent', () => {
  const TYPES = ['BROWSER', 'DNS', 'GRPC', 'TCP']
  const RUNTIMES = ['2024.09', '2025.04', '2026.04'].map((one) => `MULTI_STEP runtime:${one}`)
  const [OLD = '', MIDDLE = '', NEW = ''] = RUNTIMES
  const LIAR = { version: '6.3.1', checkTypes: ['TCP', 'DNS', 'GRPC', 'SOMETHING'] }
  const NEWER = { version: '99.0.0', checkTypes: ['TCP', 'WARP'] }
  const SUITE = 'PLAYWRIGHT engine:bun@1.3'
  const WITH_BOTH = { runtimes: ['2026.04', '2025.04'] }

  /** Of the needs of some monitors those that the agent gets; the first is the type. */
  test.each<[string, Parameters<typeof agentHere>[0], needs: string[], given: string[]]>([
    ['this version runs all of them', {}, TYPES, TYPES],
    ['there is no DNS before 7.0.0', { version: '6.9.9' }, TYPES, ['BROWSER', 'TCP']],
    ['between milestones the older counts', { version: '8.2.5' }, TYPES, ['BROWSER', 'DNS', 'TCP']],
    ['the uptime image has no browser', { image: 'agent-uptime' }, TYPES, ['DNS', 'GRPC', 'TCP']],
    ['a liar gets what its version can, not what it claims', LIAR, TYPES, ['TCP']],
    ['what it does not claim it is not given', { checkTypes: ['TCP'] }, TYPES, ['TCP']],
    ['a newer version than the platform has what that knows', NEWER, TYPES, ['TCP']],
    ['engines count', { engines: ['node@24', 'perl@5'] }, [SUITE, NEW], [NEW]],
    ['a runtime counts that was installed', { runtimes: ['2024.09'] }, RUNTIMES, [OLD]],
    ['of two installed runtimes both count', WITH_BOTH, RUNTIMES, [MIDDLE, NEW]],
    ['a runtime that it does not name does not count', { runtimes: [] }, RUNTIMES, []],
  ])('%s', async (_, facts, all, given) => {
    const needs = all.map((one) => one.split(' '))
    const ids = await place(needs.map((one) => ({ checkType: one[0] ?? '', needs: one })))
    const agent = agentHere(facts)
    expect((await agent.sync(api)).status).toBe(200)
    expect(all.filter((_one, at) => agent.monitors.has(ids[at] ?? ''))).toEqual(given)
  })

  test('a version before the first milestone: 403 with the needed version', async () => {
    const agent = agentHere({ version: '6.3.0', checkTypes: ['TCP'] })
    const message = expect.stringContaining(MANIFESTS[0]?.version ?? '')
    expect(await agent.sync(api)).toMatchObject({ status: 403, body: { message } })
  })
})

describe('invalid requests', () => {
  const good = (more: object = {}) => ({ ...new FakeAgent('').request(), ...more })
  const ofAgent = (facts: object) => good({ agent: { ...good().agent, ...facts } })
  const LONG_WAIT = { waiting: 0, running: 0, free: 10, oldestMs: 1e30 }
  const notStarted = [{ monitorId: randomUUID(), slot: 5 }]

  test.each<[string, unknown, number]>([
    ['nothing', '', 400],
    ['no JSON', '{', 400],
    ['another shape', [], 400],
    ['an id that is none', ofAgent({ id: 'x' }), 400],
    ['a version that is none', ofAgent({ version: '8' }), 400],
    ['a hold without end', good({ waitMs: 1e9 }), 400],
    ['a wait beyond any count', good({ queues: { ...good().queues, uptime: LONG_WAIT } }), 400],
    ['deep nesting', `${'['.repeat(100)}${']'.repeat(100)}`, 400],
    ['text that cannot be stored', good({ have: '\0' }), 400],
    ['too much of it', 'x'.repeat(17 * 1024 * 1024), 413],
    ['a field that nobody knows', good({ more: { of: 'it' } }), 200],
    ['slots of unknown monitors', good({ state: 'leaving', leftAt: 1, notStarted }), 200],
  ])('%s', async (_, body, status) => {
    expect((await agentHere().send(api, body)).status).toBe(status)
    // The report of one agent must not prevent the platform from sampling the queues of all.
    await sampleLocations(use().database, 15)
  })
})

test('a large report of a leaving agent is compressed, and accepted', async () => {
  const agent = await synced()
  const link = new PlatformLink({ platformUrl: api.url, apiKey: location.secret })
  const notStarted = Array.from({ length: 2_000 }, () => ({ monitorId: randomUUID(), slot: 5 }))
  const report = { state: 'leaving', leftAt: Date.now(), notStarted } as const
  try {
    const said = await sync(link, { ...agent.request(), ...report }, AbortSignal.timeout(10_000))
    expect(said).toMatchObject({ kind: 'answered', answer: { peers: 0 } })
  } finally {
    link.close()
  }
})
