// Aim: private locations, their keys, their agents' reports and the variables of an account behave as
// the contract says, and show no secret.
import { createHash, randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { locationSampling } from '../../../src/platform/private-locations/metrics.ts'
import { VERSION } from '../../../src/contract/versions.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import { addClient, usePublicApi } from '../../support/platform/public-api.ts'

const LOCATIONS = '/v1/private-locations'
const NOBODY = '00000000-0000-4000-8000-000000000000'

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const { database, api, client } = usePublicApi({}, server)

  let made = 0
  const add = async (more: object = {}) => {
    const body = { name: 'Here', slugName: `here-${++made}`, ...more }
    const answer = await client.call('POST', LOCATIONS, { body })
    expect([answer.status, answer.text]).toEqual([201, answer.text])
    return answer.body
  }
  const read = async (id: string) => (await client.call('GET', `${LOCATIONS}/${id}`)).body
  const addAgent = (locationId: string, version: string, state = 'live', queues: object = {}) =>
    database().database.query(
      `insert into agents (id, location_id, instance, version, image, abilities, state, queues)
       values ($1, $2, $3, $4, 'agent', '{}', $5, $6)`,
      [randomUUID(), locationId, randomUUID(), version, state, JSON.stringify(queues)],
    )
  const revision = async (id: string) =>
    (
      await database().database.query<{ revision: number }>(
        'select revision from private_locations where id = $1',
        [id],
      )
    )[0]?.revision ?? 0

  describe('a location', () => {
    test('is read as it was created', async () => {
      const location = await add({ slugName: 'Data-Center-1', icon: 'server' })
      expect(location).toMatchObject({
        name: 'Here',
        slugName: 'Data-Center-1',
        icon: 'server',
        proxyUrl: null,
        keys: [],
        lastSeen: null,
        agentCount: 0,
        agentStatus: 'never-reported',
        minAgentVersion: null,
        runningAgents: [],
        updated_at: null,
      })
      expect(await read(location.id)).toEqual(location)
      const { minAgentVersion: _, runningAgents: _agents, ...listed } = location
      const { body } = await client.call('GET', LOCATIONS)
      expect(body.at(-1)).toEqual(listed)
      expect((await client.call('GET', `${LOCATIONS}?versions=true`)).body.at(-1)).toEqual(location)
      const path = `${LOCATIONS}/${location.id}`
      const put = await client.call('PUT', path, { body: { ...location, name: 'There' } })
      expect(put.body).toEqual({ ...location, name: 'There', updated_at: put.body.updated_at })
      expect((await client.call('DELETE', path)).status).toBe(204)
      expect((await client.call('GET', path)).status).toBe(404)
    })

    test.each([
      ['', 400],
      ['has space', 400],
      ['x'.repeat(31), 400],
      ['under_score', 400],
      ['eu-west-1', 400],
      ['us-gov-east-1', 400],
      ['AP-NORTHEAST-2-mine', 400],
      ['x'.repeat(30), 201],
      ['eu-west', 201],
      ['office-eu-west-1', 201],
    ])('whose slugName is %j gets %d', async (slugName, expected) => {
      const { status } = await client.call('POST', LOCATIONS, { body: { name: 'x', slugName } })
      expect(status).toBe(expected)
    })

    test('keeps its slugName, and shares it with no other of the account', async () => {
      const { id, slugName } = await add()
      const twin = await client.call('POST', LOCATIONS, { body: { name: 'x', slugName } })
      expect(twin.status).toBe(409)
      const other = await addClient(api, database().database)
      expect((await other.call('POST', LOCATIONS, { body: { name: 'x', slugName } })).status).toBe(
        201,
      )
      const renamed = { body: { name: 'x', slugName: 'another' } }
      expect((await client.call('PUT', `${LOCATIONS}/${id}`, renamed)).status).toBe(400)
      expect((await other.call('GET', `${LOCATIONS}/${id}`)).status).toBe(404)
      expect((await other.call('PUT', `${LOCATIONS}/${id}`, { body: { name: 'x' } })).status).toBe(
        404,
      )
      expect((await other.call('DELETE', `${LOCATIONS}/${id}`)).status).toBe(404)
    })

    test('hides the password of its proxy, and keeps it when its mask is sent back', async () => {
      const proxyUrl = 'http://me:hidden-pass@proxy.internal:3128/'
      const location = await add({ proxyUrl })
      expect(location.proxyUrl).toBe('http://me:********@proxy.internal:3128/')
      const path = `${LOCATIONS}/${location.id}`
      const before = await revision(location.id)
      expect((await client.call('PUT', path, { body: location })).body.proxyUrl).toBe(
        location.proxyUrl,
      )
      expect(await revision(location.id)).toBe(before + 1)
      const elsewhere = 'http://me:********@elsewhere.example:3128/'
      const moved = await client.call('PUT', path, { body: { ...location, proxyUrl: elsewhere } })
      expect(moved.status).toBe(400)
      const rows = await database().database.query('select * from private_locations')
      expect(JSON.stringify(rows)).not.toContain('hidden-pass')
      for (const bad of ['ftp://x', 'nowhere', 'http://', 'http://u:%ff@h:1', 'http://[::1']) {
        const { status } = await client.call('PUT', path, { body: { name: 'x', proxyUrl: bad } })
        expect([200, 400]).toContain(status)
      }
    })

    test.each([
      ['checks', '/v1/checks/url', { request: { url: 'https://example.org/' } }],
      [
        'switched off checks',
        '/v1/checks/url',
        { activated: false, request: { url: 'https://x.org' } },
      ],
      ['groups', '/v1/check-groups', {}],
    ])('that %s name is not deleted', async (_who, path, own) => {
      const location = await add()
      const body = { name: 'x', privateLocations: [location.slugName], ...own }
      const user = await client.call('POST', path, { body })
      expect([user.status, user.text]).toEqual([201, user.text])
      const one = `${LOCATIONS}/${location.id}`
      expect((await client.call('DELETE', one)).status).toBe(409)
      const at = path.includes('group') ? path : '/v1/checks'
      expect((await client.call('DELETE', `${at}/${user.body.id}`)).status).toBe(204)
      expect((await client.call('DELETE', one)).status).toBe(204)
    })

    test('shows its agents: their reports, versions and states', async () => {
      const location = await add()
      await addAgent(location.id, VERSION)
      await addAgent(location.id, VERSION)
      await addAgent(location.id, '7.0.0')
      await addAgent(location.id, '6.0.0', 'lost')
      const running = await read(location.id)
      expect(running).toMatchObject({
        agentCount: 3,
        agentStatus: 'reporting',
        minAgentVersion: '7.0.0',
        lastSeen: expect.stringMatching(/Z$/),
        runningAgents: [
          { version: '7.0.0', isOutdated: true, count: 1 },
          { version: VERSION, isOutdated: false, count: 2 },
        ],
      })
      await database().database.query(`update agents set state = 'left' where location_id = $1`, [
        location.id,
      ])
      const stopped = { agentCount: 0, agentStatus: 'stopped-reporting', minAgentVersion: null }
      expect(await read(location.id)).toMatchObject({ ...stopped, lastSeen: running.lastSeen })
    })
  })

  describe('keys', () => {
    test('are shown once, two may be active, and a third says what to do', async () => {
      const { id } = await add()
      const path = `${LOCATIONS}/${id}/keys`
      const first = await client.call('POST', path)
      expect(first.status).toBe(201)
      const { rawKey } = first.body
      expect(rawKey).toMatch(/^pl_[\w-]{43}$/)
      expect(first.body.maskedKey).toBe(`...${rawKey.slice(-4)}`)
      const { rawKey: _, ...shown } = first.body
      expect((await read(id)).keys).toEqual([shown])
      const [row] = await database().database.query<{ hash: Buffer }>(
        'select hash from location_keys where id = $1',
        [first.body.id],
      )
      expect(row?.hash.equals(createHash('sha256').update(rawKey).digest())).toBe(true)
      const rest = await Promise.all([1, 2, 3, 4].map(() => client.call('POST', path)))
      expect(rest.map((one) => one.status).filter((status) => status === 201)).toHaveLength(1)
      const refused = rest.find((one) => one.status === 409)
      expect(refused?.body.message).toContain('delete the one that no agent uses')
      expect((await client.call('DELETE', `${path}/${first.body.id}`)).status).toBe(204)
      expect((await client.call('DELETE', `${path}/${first.body.id}`)).status).toBe(404)
      expect((await client.call('POST', path)).status).toBe(201)
      expect((await read(id)).keys).toHaveLength(2)
    })

    test('of another account cannot be read or changed', async () => {
      const { id } = await add()
      const path = `${LOCATIONS}/${id}/keys`
      const key = (await client.call('POST', path)).body
      const other = await addClient(api, database().database)
      expect((await other.call('POST', path)).status).toBe(404)
      expect((await other.call('DELETE', `${path}/${key.id}`)).status).toBe(404)
      expect((await client.call('DELETE', `${path}/${NOBODY}`)).status).toBe(404)
      expect((await read(id)).keys).toHaveLength(1)
    })
  })

  describe('metrics', () => {
    test('are lists of one length, sampled from the last reports of agents', async () => {
      const { id } = await add()
      const queues = {
        uptime: { waiting: 3, running: 1, free: 0, oldestMs: 1500 },
        scripted: { waiting: 4, running: 1, free: 0, oldestMs: 9000 },
      }
      await addAgent(id, VERSION, 'live', queues)
      await addAgent(id, VERSION, 'live', { uptime: { waiting: 2, running: 0, free: 1 } })
      await addAgent(id, VERSION, 'lost', queues)
      await locationSampling(database().database).run(AbortSignal.timeout(10_000))
      await locationSampling(database().database).run(AbortSignal.timeout(10_000))
      const now = Math.floor(Date.now() / 1000)
      const { status, body } = await client.call(
        'GET',
        `${LOCATIONS}/${id}/metrics?from=${now - 300}&to=${now + 300}`,
      )
      expect(status).toBe(200)
      expect(body.timestamps.length).toBeGreaterThan(0)
      for (const at of body.timestamps) expect(new Date(at).toISOString()).toBe(at)
      expect(body.queueSize).toEqual(body.timestamps.map(() => 9))
      expect(body.oldestScheduledCheckRun).toEqual(body.timestamps.map(() => 9))
    })

    test.each([
      ['', 400],
      ['?from=1', 400],
      ['?from=1&to=2', 400],
      ['?from=x&to=y', 400],
      [`?from=${Math.floor(Date.now() / 1000)}&to=5`, 400],
      [`?from=${Math.floor(Date.now() / 1000)}&to=999999999999`, 404],
    ])('requested by %j without a location get %d', async (query, expected) => {
      expect((await client.call('GET', `${LOCATIONS}/${NOBODY}/metrics${query}`)).status).toBe(
        expected,
      )
    })
  })

  test('there are no public regions', async () => {
    expect((await client.call('GET', '/v1/locations')).body).toEqual([])
  })

  describe('variables', () => {
    test('are read as they were created, a secret one masked, and notify all locations', async () => {
      const { id } = await add()
      const before = await revision(id)
      const plain = { key: 'PLAIN', value: 'open', locked: true, secret: false }
      const posted = await client.call('POST', '/v1/variables', { body: plain })
      expect([posted.status, posted.body]).toMatchObject([201, plain])
      const secret = { key: 'SECRET', value: 'hidden-value', secret: true }
      const hidden = await client.call('POST', '/v1/variables', { body: secret })
      expect(hidden.body).toMatchObject({ key: 'SECRET', value: '********', secret: true })
      expect(await revision(id)).toBe(before + 2)
      expect((await client.call('POST', '/v1/variables', { body: plain })).status).toBe(409)
      const { body } = await client.call('GET', '/v1/variables')
      expect(body).toEqual([posted.body, hidden.body])
      const one = '/v1/variables/SECRET'
      expect((await client.call('GET', one)).body).toEqual(hidden.body)
      const put = await client.call('PUT', one, { body: { ...hidden.body, locked: true } })
      expect(put.body).toMatchObject({ value: '********', locked: true, secret: true })
      const revealed = await client.call('PUT', one, { body: { value: '********', secret: false } })
      expect(revealed.status).toBe(400)
      const opened = await client.call('PUT', one, { body: { value: 'new', secret: false } })
      expect(opened.body).toMatchObject({ value: 'new', secret: false })
      expect((await client.call('PUT', one, { body: { key: 'X', value: '' } })).status).toBe(400)
      expect((await client.call('DELETE', one)).status).toBe(204)
      expect((await client.call('GET', one)).status).toBe(404)
      expect(await revision(id)).toBe(before + 5)
      const rows = await database().database.query('select * from account_variables')
      expect(JSON.stringify(rows)).not.toMatch(/hidden-value|open"/)
    })

    test.each(['1X', 'A-B', 'A B', '', 'Ä', 'A'.repeat(256)])(
      'cannot have the name %j',
      async (key) => {
        expect(
          (await client.call('POST', '/v1/variables', { body: { key, value: '' } })).status,
        ).toBe(400)
        const path = `/v1/variables/${encodeURIComponent(key)}`
        expect((await client.call('PUT', path, { body: { value: '' } })).status).toBe(404)
      },
    )
  })
})
