// Aim: an agent receives at once exactly the changes that concern it: first everything, then only changes, by long
// polling. Nothing that it sends does harm.
import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { createPlatformLink } from '../../../src/agent/platform/link.ts'
import { sync } from '../../../src/agent/platform/sync/call.ts'
import { MANIFESTS } from '../../../src/contract/versions.ts'
import { sampleLocations } from '../../../src/platform/private-locations/queries/locations.ts'
import { TEST_CIPHER, useAgentsApi } from '../../support/platform/agents-api.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import {
  addLocation,
  changeAssignment,
  placeMonitors,
  type TestLocation,
} from '../../support/platform/locations.ts'
import { addLocationKey } from '../../support/platform/monitor-rows.ts'

const { database: use, api } = useAgentsApi()
let location: TestLocation
beforeEach(async () => {
  location = await addLocation(use().database)
})

const place = (monitors: Parameters<typeof placeMonitors>[2], at = location) =>
  placeMonitors({ database: use().database, cipher: TEST_CIPHER }, at, monitors)
const some = (count: number) => Array.from({ length: count }, () => ({}))

describe('the answer of a sync', () => {
  test('the first one: everything; the next one: nothing new', async () => {
    const ids = await place(some(3))
    const agent = new FakeAgent(location.secret)
    const { answer } = await agent.sync(api)
    expect(answer?.changes?.whole).toBe(true)
    expect([...agent.monitors.keys()].toSorted()).toEqual(ids.toSorted())
    expect(answer).toMatchObject({
      location: {
        id: location.id,
        slugName: location.slugName,
        accountId: location.accountId,
        proxyUrl: null,
      },
      runs: [],
      cancel: [],
      peers: 0,
    })
    expect(answer?.settings.artifactBytesMax).toBe(MANIFESTS.at(-1)?.limits.artifactBytesMax)
    const again = await agent.sync(api)
    expect(again.answer).toMatchObject({ changes: null, revision: answer?.revision })
  })

  test('an edit: that monitor alone; a removal: its end', async () => {
    const [first = '', second = ''] = await place(some(2))
    const agent = new FakeAgent(location.secret)
    await agent.sync(api)
    await changeAssignment(use().database, { locationId: location.id, monitorId: first })
    const edited = (await agent.sync(api)).answer?.changes
    expect(edited).toMatchObject({ whole: false, drop: [] })
    expect(edited?.set.map(({ monitor }) => monitor.id)).toEqual([first])
    const untilMs = Date.now()
    await changeAssignment(use().database, { locationId: location.id, monitorId: second, untilMs })
    expect((await agent.sync(api)).answer?.changes).toMatchObject({
      whole: false,
      set: [],
      drop: [{ monitorId: second, until: untilMs }],
    })
  })

  test('a problem of its own network is stored with the time of the first report, until it ends', async () => {
    const agent = new FakeAgent(location.secret)
    const stored = async () =>
      (
        await use().database.query<{ problem: string | null; since: Date | null }>(
          `select network_problem as problem, network_problem_since as since from agents where id = $1`,
          [agent.facts.id],
        )
      )[0]
    await agent.sync(api, { networkProblem: 'RESOLVER_UNREACHABLE' })
    const first = await stored()
    expect(first).toMatchObject({
      problem: 'RESOLVER_UNREACHABLE',
      since: expect.any(Date) as Date,
    })
    await agent.sync(api, { networkProblem: 'NETWORK_UNREACHABLE' })
    expect(await stored()).toEqual({ problem: 'NETWORK_UNREACHABLE', since: first?.since })
    agent.restart()
    await agent.sync(api, { networkProblem: 'NETWORK_UNREACHABLE' })
    expect(await stored()).toEqual({ problem: 'NETWORK_UNREACHABLE', since: first?.since })
    await agent.sync(api)
    expect(await stored()).toEqual({ problem: null, since: null })
    expect((await agent.sync(api, { networkProblem: 'x'.repeat(65) })).status).toBe(400)
  })

  test('an unknown token, or that of another process: everything', async () => {
    await place(some(2))
    const agent = new FakeAgent(location.secret)
    await agent.sync(api)
    const { have } = agent
    for (const odd of ['', 'x', '9.9.00000000', `99${have}`, have?.replace(/.$/, 'g') ?? '']) {
      expect((await agent.sync(api, { have: odd })).answer?.changes).toMatchObject({ whole: true })
    }
    agent.restart()
    agent.have = have
    expect((await agent.sync(api)).answer?.changes?.whole).toBe(true)
  })

  test('thousands of monitors: compressed, complete, and the next sync is cheap', async () => {
    await place(some(3_000))
    const agent = new FakeAgent(location.secret)
    const { headers } = await agent.sync(api)
    expect(headers.get('content-encoding')).toBe('gzip')
    expect(Number(headers.get('content-length'))).toBeLessThan(600 * 1024)
    expect(agent.monitors.size).toBe(3_000)
    const next = await agent.sync(api)
    expect(next.answer?.changes).toBeNull()
    expect(next.headers.get('content-encoding')).toBeNull()
  })

  test('without gzip it is sent uncompressed', async () => {
    await place(some(20))
    const agent = new FakeAgent(location.secret)
    const plain = { headers: { 'accept-encoding': 'identity' } }
    const { headers, answer } = await agent.send(api, agent.request(), plain)
    expect(headers.get('content-encoding')).toBeNull()
    expect(answer?.changes?.set).toHaveLength(20)
  })
})

describe('a waiting sync', () => {
  test('is answered without news after its time-out', async () => {
    const agent = new FakeAgent(location.secret)
    await agent.sync(api)
    const begin = performance.now()
    const { answer } = await agent.sync(api, { waitMs: 300 })
    expect(answer?.changes).toBeNull()
    expect(performance.now() - begin).toBeGreaterThanOrEqual(299)
  })

  test('ends when the same agent calls again, and when its client disconnects', async () => {
    const agent = new FakeAgent(location.secret)
    await agent.sync(api)
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
    const agent = new FakeAgent(location.secret)
    await agent.sync(api)
    const seen = new Set<string>()
    const changing = (async () => {
      for (const monitorId of ids) {
        await changeAssignment(use().database, { locationId: location.id, monitorId })
      }
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
  test.each([
    ['an unknown key', 'pl_nobody'],
    ['a key of the public API', 'vk_something-else-entirely'],
  ])('%s: 401, unknown', async (_sentence, secret) => {
    const { status, body } = await new FakeAgent(secret).sync(api)
    expect(status).toBe(401)
    expect(body.attributes).toMatchObject({ reason: 'unknown' })
  })

  test('a revoked key: 401, revoked, within moments; the other key stays valid', async () => {
    const second = await addLocationKey(use().database, location.id)
    const agent = new FakeAgent(location.secret)
    expect((await agent.sync(api)).status).toBe(200)
    await use().database.query(`update location_keys set revoked_at = now() where id = $1`, [
      location.keyId,
    ])
    await expect.poll(async () => (await agent.sync(api)).status).toBe(401)
    expect((await agent.sync(api)).body.attributes).toMatchObject({ reason: 'revoked' })
    expect((await new FakeAgent(second.secret).sync(api)).status).toBe(200)
  })

  test('the same agent id in another location is another agent', async () => {
    const [mine = ''] = await place(some(1))
    const agent = new FakeAgent(location.secret)
    await agent.sync(api)
    const elsewhere = await addLocation(use().database)
    const liar = new FakeAgent(elsewhere.secret, { id: agent.facts.id })
    expect((await liar.sync(api)).status).toBe(200)
    expect(liar.monitors.size).toBe(0)
    expect((await agent.sync(api)).answer?.changes).toBeNull()
    expect(agent.monitors.has(mine)).toBe(true)
  })
})

describe('abilities of an agent', () => {
  const rows: [string, ConstructorParameters<typeof FakeAgent>[1], string[]][] = [
    ['this version runs all of them', {}, ['BROWSER', 'DNS', 'GRPC', 'TCP']],
    ['before 7.0.0 there is no DNS', { version: '6.9.9' }, ['BROWSER', 'TCP']],
    [
      'a version between milestones has what the older has',
      { version: '8.2.5' },
      ['BROWSER', 'DNS', 'TCP'],
    ],
    ['the uptime image has no browser', { image: 'agent-uptime' }, ['DNS', 'GRPC', 'TCP']],
    [
      'a liar gets what its version can, not what it claims',
      { version: '6.3.1', checkTypes: ['TCP', 'DNS', 'GRPC', 'SOMETHING'] },
      ['TCP'],
    ],
    ['what it does not claim it is not given', { checkTypes: ['TCP'] }, ['TCP']],
    [
      'a newer version than the platform has what the platform knows',
      { version: '99.0.0', checkTypes: ['TCP', 'WARP'] },
      ['TCP'],
    ],
  ]
  test.each(rows)('%s', async (_sentence, facts, expected) => {
    const types = ['TCP', 'DNS', 'GRPC', 'BROWSER']
    const ids = await place(types.map((checkType) => ({ checkType })))
    const agent = new FakeAgent(location.secret, facts)
    expect((await agent.sync(api)).status).toBe(200)
    const given = ids.flatMap((id, index) => (agent.monitors.has(id) ? [types[index] ?? ''] : []))
    expect(given.toSorted()).toEqual(expected)
  })

  test('a version before the first milestone: 403 with the needed version', async () => {
    const agent = new FakeAgent(location.secret, { version: '6.3.0', checkTypes: ['TCP'] })
    const { status, body } = await agent.sync(api)
    expect(status).toBe(403)
    expect(body.message).toContain(MANIFESTS[0]?.version)
  })

  test('engines and runtimes count as well', async () => {
    const ids = await place([
      { checkType: 'PLAYWRIGHT', needs: ['PLAYWRIGHT', 'engine:bun@1.3'] },
      { checkType: 'BROWSER', needs: ['BROWSER', 'runtime:2026.04'] },
    ])
    const agent = new FakeAgent(location.secret, { engines: ['node@24', 'perl@5'] })
    await agent.sync(api)
    expect([...agent.monitors.keys()]).toEqual([ids[1]])
  })

  test.each([
    ['a runtime that its image does not bring and that is installed', ['2024.09'], ['2024.09']],
    ['of two installed ones both', ['2026.04', '2025.04'], ['2025.04', '2026.04']],
    ['none that it does not name, though its image brings it', [], []],
  ])('an agent gets the abilities of runtimes: %s', async (_sentence, installed, expected) => {
    const all = ['2024.09', '2025.04', '2026.04']
    const ids = await place(
      all.map((one) => ({ checkType: 'MULTI_STEP', needs: ['MULTI_STEP', `runtime:${one}`] })),
    )
    const agent = new FakeAgent(location.secret, { version: '8.4.0', runtimes: installed })
    await agent.sync(api)
    const given = all.filter((_one, at) => agent.monitors.has(ids[at] ?? ''))
    expect(given).toEqual(expected)
  })
})

describe('invalid requests', () => {
  const good = (facts: object = {}) => {
    const request = new FakeAgent('').request()
    return { ...request, agent: { ...request.agent, ...facts } }
  }
  const rows: [string, () => unknown, number][] = [
    ['nothing', () => '', 400],
    ['no JSON', () => '{', 400],
    ['another shape', () => [], 400],
    ['an id that is none', () => good({ id: 'x' }), 400],
    ['a version that is none', () => good({ version: '8' }), 400],
    ['a hold without end', () => ({ ...good(), waitMs: 1e9 }), 400],
    [
      'a wait longer than the database can count',
      () => {
        const { uptime, scripted } = good().queues
        return { ...good(), queues: { uptime: { ...uptime, oldestMs: 1e30 }, scripted } }
      },
      400,
    ],
    ['deep nesting', () => `${'['.repeat(100)}${']'.repeat(100)}`, 400],
    ['text that cannot be stored', () => ({ ...good(), have: '\0' }), 400],
    ['too much of it', () => 'x'.repeat(17 * 1024 * 1024), 413],
    ['a field that nobody knows', () => ({ ...good(), more: { of: 'it' } }), 200],
    [
      'a leaving one with slots of monitors that do not exist',
      () => ({
        ...good(),
        state: 'leaving',
        leftAt: 1,
        notStarted: [{ monitorId: randomUUID(), slot: 5 }],
      }),
      200,
    ],
  ]
  test.each(rows)('%s', async (_sentence, body, status) => {
    const agent = new FakeAgent(location.secret)
    expect((await agent.send(api, body())).status).toBe(status)
    // The report of one agent must not prevent the platform from sampling the queues of all.
    await sampleLocations(use().database, 15)
  })
})

test('a large report of a leaving agent is compressed, and accepted', async () => {
  const agent = new FakeAgent(location.secret)
  await agent.sync(api)
  const link = createPlatformLink({ platformUrl: api.url, apiKey: location.secret })
  const notStarted = Array.from({ length: 2_000 }, () => ({ monitorId: randomUUID(), slot: 5 }))
  const report = { state: 'leaving', leftAt: Date.now(), notStarted } as const
  try {
    const said = await sync(link, { ...agent.request(), ...report }, AbortSignal.timeout(10_000))
    expect(said).toMatchObject({ kind: 'answered', answer: { peers: 0 } })
  } finally {
    link.close()
  }
})
