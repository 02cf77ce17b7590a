// Aim: private locations, their keys, their agents' reports and the variables of an account behave as
// the contract says, and show no secret.
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { locationSampling } from '../../../src/platform/private-locations/metrics.ts'
import { VERSION } from '../../../src/contract/versions.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import { addAgent } from '../../support/platform/monitor-rows.ts'
import { usePublicApi } from '../../support/platform/public-api.ts'

const LOCATIONS = '/v1/private-locations'
const NOBODY = '00000000-0000-4000-8000-000000000000'

const { database, client, addClient } = usePublicApi({}, DATABASE_SERVERS[0])
const db = () => database().database

let made = 0
const add = async (more: object = {}) => {
  const body = { name: 'Here', slugName: `here-${++made}`, ...more }
  const answer = await client.call('POST', LOCATIONS, { body })
  expect([answer.status, answer.text]).toEqual([201, answer.text])
  return { ...answer.body, path: `${LOCATIONS}/${answer.body.id}` }
}
const revision = async (id: string) =>
  Number((await db().query('select * from private_locations where id = $1', [id]))[0]?.['revision'])

describe('a location', () => {
  test('is read as it was created', async () => {
    const { path, ...location } = await add({ slugName: 'Data-Center-1', icon: 'server' })
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
    expect(await client.get(path)).toEqual(location)
    const { minAgentVersion: _, runningAgents: _agents, ...listed } = location
    expect((await client.get(LOCATIONS)).at(-1)).toEqual(listed)
    expect((await client.get(`${LOCATIONS}?versions=true`)).at(-1)).toEqual(location)
    const put = await client.call('PUT', path, { body: { ...location, name: 'There' } })
    expect(put.body).toEqual({ ...location, name: 'There', updated_at: put.body.updated_at })
    expect(await client.status('DELETE', path)).toBe(204)
    expect(await client.status('GET', path)).toBe(404)
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
    expect(await client.status('POST', LOCATIONS, { name: 'x', slugName })).toBe(expected)
  })

  test('keeps its slugName, and shares it with no other of the account', async () => {
    const { path, slugName } = await add()
    const other = await addClient()
    expect(await client.status('POST', LOCATIONS, { name: 'x', slugName })).toBe(409)
    expect(await other.status('POST', LOCATIONS, { name: 'x', slugName })).toBe(201)
    expect(await client.status('PUT', path, { name: 'x', slugName: 'another' })).toBe(400)
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const body = method === 'PUT' ? { name: 'x' } : undefined
      expect(await other.status(method, path, body)).toBe(404)
    }
  })

  test('hides the password of its proxy, and keeps it when its mask is sent back', async () => {
    const masked = 'http://me:********@proxy.internal:3128/'
    const { path, ...location } = await add({ proxyUrl: masked.replace('********', 'hidden-pass') })
    const before = await revision(location.id)
    const put = await client.call('PUT', path, { body: location })
    expect([location.proxyUrl, put.body.proxyUrl]).toEqual([masked, masked])
    expect(await revision(location.id)).toBe(before + 1)
    const proxyUrl = 'http://me:********@elsewhere.example:3128/'
    expect(await client.status('PUT', path, { ...location, proxyUrl })).toBe(400)
    const rows = await db().query('select * from private_locations')
    expect(JSON.stringify(rows)).not.toContain('hidden-pass')
    for (const bad of ['ftp://x', 'nowhere', 'http://', 'http://u:%ff@h:1', 'http://[::1']) {
      expect([200, 400]).toContain(await client.status('PUT', path, { name: 'x', proxyUrl: bad }))
    }
  })

  const request = { url: 'https://example.org/' }
  test.each([
    ['checks', '/v1/checks/url', { request }],
    ['switched off checks', '/v1/checks/url', { activated: false, request }],
    ['groups', '/v1/check-groups', {}],
  ])('that %s name is not deleted', async (_who, users, own) => {
    const { path, slugName } = await add()
    const body = { name: 'x', privateLocations: [slugName], ...own }
    const user = await client.call('POST', users, { body })
    expect([user.status, user.text]).toEqual([201, user.text])
    expect(await client.status('DELETE', path)).toBe(409)
    expect(await client.status('DELETE', `${users.replace('/url', '')}/${user.body.id}`)).toBe(204)
    expect(await client.status('DELETE', path)).toBe(204)
  })

  test('shows its agents: their reports, versions and states', async () => {
    const { id, path } = await add()
    for (const version of [VERSION, VERSION, '7.0.0']) await addAgent(db(), id, { version })
    await addAgent(db(), id, { version: '6.0.0', state: 'lost' })
    const running = await client.get(path)
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
    await db().query(`update agents set state = 'left' where location_id = $1`, [id])
    const stopped = { agentCount: 0, agentStatus: 'stopped-reporting', minAgentVersion: null }
    expect(await client.get(path)).toMatchObject({ ...stopped, lastSeen: running.lastSeen })
  })
})

describe('keys', () => {
  test('are shown once, two may be active, and a third says what to do', async () => {
    const { path } = await add()
    const keys = `${path}/keys`
    const first = await client.call('POST', keys)
    expect(first.status).toBe(201)
    const { rawKey, ...shown } = first.body
    expect(rawKey).toMatch(/^pl_[\w-]{43}$/)
    expect(shown.maskedKey).toBe(`...${rawKey.slice(-4)}`)
    expect((await client.get(path)).keys).toEqual([shown])
    const stored = await db().query('select hash from location_keys where id = $1', [shown.id])
    expect(stored).toEqual([{ hash: createHash('sha256').update(rawKey).digest() }])
    const rest = await Promise.all([1, 2, 3, 4].map(() => client.call('POST', keys)))
    const statuses = rest.map(({ status }) => status).toSorted((a, b) => a - b)
    expect(statuses).toEqual([201, 409, 409, 409])
    const refused = rest.find((one) => one.status === 409)
    expect(refused?.body.message).toContain('delete the one that no agent uses')
    for (const status of [204, 404]) {
      expect(await client.status('DELETE', `${keys}/${shown.id}`)).toBe(status)
    }
    expect(await client.status('POST', keys)).toBe(201)
    expect((await client.get(path)).keys).toHaveLength(2)
  })

  test('of another account cannot be read or changed', async () => {
    const { path } = await add()
    const key = (await client.call('POST', `${path}/keys`)).body
    const other = await addClient()
    expect(await other.status('POST', `${path}/keys`)).toBe(404)
    expect(await other.status('DELETE', `${path}/keys/${key.id}`)).toBe(404)
    expect(await client.status('DELETE', `${path}/keys/${NOBODY}`)).toBe(404)
    expect((await client.get(path)).keys).toHaveLength(1)
  })
})

describe('metrics', () => {
  const now = Math.floor(Date.now() / 1000)

  test('are lists of one length, sampled from the last reports of agents', async () => {
    const { id, path } = await add()
    const uptime = { waiting: 3, running: 1, free: 0, oldestMs: 1500 }
    const queues = { uptime, scripted: { ...uptime, waiting: 4, oldestMs: 9000 } }
    await addAgent(db(), id, { queues })
    await addAgent(db(), id, { queues: { uptime: { waiting: 2, running: 0, free: 1 } } })
    await addAgent(db(), id, { state: 'lost', queues })
    for (let times = 0; times < 2; times++) {
      await locationSampling(db()).run(AbortSignal.timeout(10_000))
    }
    const { timestamps, ...series } = await client.get(
      `${path}/metrics?from=${now - 300}&to=${now + 600}`,
    )
    expect(timestamps.length).toBeGreaterThan(0)
    for (const at of timestamps) expect(new Date(at).toISOString()).toBe(at)
    const nines = Array(timestamps.length).fill(9)
    expect(series).toMatchObject({ queueSize: nines, oldestScheduledCheckRun: nines })
  })

  test.each([
    ['', 400],
    ['?from=1', 400],
    ['?from=1&to=2', 400],
    ['?from=x&to=y', 400],
    [`?from=${now}&to=5`, 400],
    [`?from=${now}&to=999999999999`, 404],
  ])('requested by %j without a location get %d', async (query, expected) => {
    expect(await client.status('GET', `${LOCATIONS}/${NOBODY}/metrics${query}`)).toBe(expected)
  })
})

test('there are no public regions', async () => {
  expect(await client.get('/v1/locations')).toEqual([])
})

describe('variables', () => {
  const VARIABLES = '/v1/variables'

  test('are read as they were created, a secret one masked, and notify all locations', async () => {
    const { id } = await add()
    const before = await revision(id)
    const plain = { key: 'PLAIN', value: 'open', locked: true, secret: false }
    const posted = await client.call('POST', VARIABLES, { body: plain })
    expect([posted.status, posted.body]).toMatchObject([201, plain])
    const secret = { key: 'SECRET', value: 'hidden-value', secret: true }
    const hidden = await client.call('POST', VARIABLES, { body: secret })
    const masked = { ...secret, value: '********' }
    expect(hidden.body).toMatchObject(masked)
    expect(await revision(id)).toBe(before + 2)
    expect(await client.status('POST', VARIABLES, plain)).toBe(409)
    const one = `${VARIABLES}/SECRET`
    expect([await client.get(VARIABLES), await client.get(one)]).toEqual([
      [posted.body, hidden.body],
      hidden.body,
    ])
    const put = await client.call('PUT', one, { body: { ...hidden.body, locked: true } })
    expect(put.body).toMatchObject({ ...masked, locked: true })
    expect(await client.status('PUT', one, { value: '********', secret: false })).toBe(400)
    const revealed = { value: 'new', secret: false }
    expect((await client.call('PUT', one, { body: revealed })).body).toMatchObject(revealed)
    expect(await client.status('PUT', one, { key: 'X', value: '' })).toBe(400)
    expect(await client.status('DELETE', one)).toBe(204)
    expect(await client.status('GET', one)).toBe(404)
    expect(await revision(id)).toBe(before + 5)
    const rows = await db().query('select * from account_variables')
    expect(JSON.stringify(rows)).not.toMatch(/hidden-value|open"/)
  })

  test.each(['1X', 'A-B', 'A B', '', 'Ä', 'A'.repeat(256)])(
    'cannot have the name %j',
    async (key) => {
      expect(await client.status('POST', VARIABLES, { key, value: '' })).toBe(400)
      const path = `${VARIABLES}/${encodeURIComponent(key)}`
      expect(await client.status('PUT', path, { value: '' })).toBe(404)
    },
  )
})
