// Aim: a file of monitors is applied as a whole or not at all, and only what it itself created is pruned.
import { gzipSync } from 'node:zlib'
import { beforeEach, describe, expect, test } from 'vitest'
import { decrypt } from '../../../src/platform/checks/encrypted-monitor.ts'
import { createCipher } from '../../../src/platform/secrets/cipher.ts'
import type { Database, Queryable } from '../../../src/database/database.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import { makeLocation } from '../../support/platform/named-locations.ts'
import * as publicApi from '../../support/platform/public-api.ts'

const { addClient, startPublicApi, usePublicApi } = publicApi
type Loose = publicApi.Loose
const cipher = createCipher('a secret of these tests')

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const { database, api } = usePublicApi({ cipher }, server)
  let client: publicApi.ApiClient

  beforeEach(async () => {
    client = await addClient(api, database().database)
    for (const slugName of ['north', 'south']) await makeLocation(client, slugName)
  })

  const monitor = (key: string, more: object = {}, group?: string) => {
    const request = { url: `https://${key}.example/` }
    const definition = { name: key, checkType: 'URL', request, ...more }
    return { key, ...(group !== undefined && { group }), definition }
  }
  const apply = async (monitors: object[], more: object = {}) => {
    const body = { name: 'shop.yaml', locations: ['north'], monitors, ...more }
    const answer = await client.call('POST', '/v1/apply', { body })
    expect([answer.status, answer.text]).toEqual([200, answer.text])
    return answer.body
  }
  const short = (plan: Loose[]) =>
    plan.map((one) => [one.action, one.kind, one.key, ...one.changes].join(' '))
  const query = (sql: string, ...values: unknown[]) => database().database.query<Loose>(sql, values)
  const revisions = async () => {
    const sql = 'select revision from private_locations where account_id = $1 order by slug_name'
    return (await query(sql, client.accountId)).map((row) => row.revision as number)
  }
  const get = async (path: string) => (await client.call('GET', `/v1/${path}`)).body
  const names = async () => (await get('checks?limit=100')).map((one: Loose) => one.name).toSorted()
  const G = { key: 'g', definition: { name: 'G' } }

  test('a file is applied, and the same again changes nothing', async () => {
    const file = [monitor('a', {}, 'g'), monitor('b', { tags: ['x'], privateLocations: ['south'] })]
    const more = {
      groups: [{ key: 'g', definition: { name: 'G', tags: ['web'] } }],
      variables: [{ key: 'TOKEN', value: 'v', secret: true }],
    }
    const dry = await apply(file, { ...more, dryRun: true })
    expect(dry.applied).toBe(false)
    expect(await names()).toEqual([])
    const first = await apply(file, more)
    expect(first).toMatchObject({ applied: true, problems: [] })
    const created = ['group g', 'monitor a', 'monitor b', 'variable TOKEN']
    const expected = created.map((one) => `create ${one}`)
    expect([short(dry.plan), short(first.plan)]).toEqual([expected, expected])
    expect(first.plan.slice(0, 3).every((one: Loose) => one.id !== undefined)).toBe(true)
    const [group, a] = first.plan
    const inherited = { groupId: group.id, privateLocations: ['north'] }
    expect(await get(`checks/${a.id}`)).toMatchObject(inherited)
    const stored = async () => [
      await revisions(),
      await query('select * from monitors order by id'),
    ]
    const before = await stored()
    const again = await apply(file, { ...more, prune: true })
    expect(again.applied).toBe(true)
    expect(short(again.plan)).toEqual(created.map((one) => `unchanged ${one}`))
    expect(await stored()).toEqual(before)
  })

  test('a heartbeat keeps its ping token when the file is applied again', async () => {
    const heartbeat = { period: 5, periodUnit: 'minutes', grace: 1, graceUnit: 'minutes' }
    const definition = { name: 'nightly', checkType: 'HEARTBEAT', heartbeat }
    const file = [{ key: 'beat', definition }]
    expect(short((await apply(file)).plan)).toEqual(['create monitor beat'])
    const tokens = async () => (await get('checks')).map((one: Loose) => one.heartbeat.pingToken)
    const before = await tokens()
    expect(before).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/)])
    expect(short((await apply(file)).plan)).toEqual(['unchanged monitor beat'])
    expect(await tokens()).toEqual(before)
  })

  test('what changed is named by its places, never by its values', async () => {
    const secret = (value: string) => ({
      environmentVariables: [{ key: 'T', value, secret: true }],
    })
    await apply([monitor('a', secret('hidden-1')), monitor('b')])
    const request = { url: 'https://other.example/' }
    const { plan } = await apply([monitor('a', { ...secret('hidden-2'), request }), monitor('b')])
    const [update, ...others] = plan
    expect(update).toMatchObject({ action: 'update', kind: 'monitor', key: 'a' })
    expect(update.changes.toSorted()).toEqual(['environmentVariables.0.value', 'request.url'])
    expect(short(others)).toEqual(['unchanged monitor b'])
    expect(JSON.stringify(plan)).not.toContain('hidden')
  })

  test('prune deletes what the file brought and holds no more, and nothing else', async () => {
    const by = { name: 'By hand', privateLocations: ['north'], request: { url: 'https://x.org/' } }
    await client.call('POST', '/v1/checks/url', { body: by })
    await client.call('POST', '/v1/variables', { body: { key: 'BY_HAND', value: '' } })
    await apply([monitor('other')], { name: 'other.yaml' })
    const variables = [{ key: 'OURS', value: '1' }]
    await apply([monitor('a'), monitor('b', {}, 'g')], { groups: [G], variables })
    expect(short((await apply([monitor('a')])).plan)).toEqual(['unchanged monitor a'])
    const { plan } = await apply([monitor('a')], { prune: true })
    const deleted = ['group g', 'monitor b', 'variable OURS'].map((one) => `delete ${one}`)
    expect(short(plan)).toEqual(['unchanged monitor a', ...deleted])
    expect(await names()).toEqual(['By hand', 'a', 'other'])
    expect(await get('variables')).toMatchObject([{ key: 'BY_HAND' }])
    expect(await get('check-groups')).toEqual([])
  })

  test('a group that has other members is not pruned', async () => {
    const [line] = (await apply([], { groups: [G] })).plan
    const own = { privateLocations: ['north'], request: { url: 'https://x.org/' } }
    const body = { name: 'Guest', groupId: line.id, ...own }
    const guest = (await client.call('POST', '/v1/checks/url', { body })).body
    const problems = [{ kind: 'group', key: 'g' }]
    expect(await apply([], { prune: true })).toMatchObject({ applied: false, plan: [], problems })
    // What changes in the group changes for the guest, too.
    const moved = { key: 'g', definition: { name: 'G', privateLocations: ['south'] } }
    await apply([], { groups: [moved] })
    const [row] = await query('select effective from monitors where id = $1', guest.id)
    expect(decrypt(cipher, row.effective)['privateLocations']).toEqual(['south'])
  })

  test('one problem anywhere and nothing is changed; all problems are reported', async () => {
    const file = [
      monitor('good'),
      monitor('colour', { colour: 'red' }),
      monitor('nowhere', { privateLocations: ['east'] }),
      monitor('lost', {}, 'no-group'),
      monitor('agentic', { checkType: 'AGENTIC' }),
      monitor('twice'),
      monitor('twice'),
      monitor('masked', { environmentVariables: [{ key: 'T', value: '********', secret: true }] }),
    ]
    const { applied, plan, problems } = await apply(file)
    expect([applied, plan, await names()]).toEqual([false, [], []])
    expect(problems.map((one: Loose) => [one.key, one.path.join('.')])).toEqual([
      ['twice', ''],
      ['colour', 'colour'],
      ['nowhere', 'privateLocations'],
      ['lost', 'groupId'],
      ['agentic', 'checkType'],
      ['masked', 'environmentVariables.T.value'],
    ])
    const bare = await apply([monitor('a')], { locations: [] })
    expect(bare.problems).toMatchObject([
      { key: 'a', path: ['privateLocations'], message: expect.stringContaining('north, south') },
    ])
  })

  test('another type under the same key is another monitor', async () => {
    const [before] = (await apply([monitor('a')])).plan
    const tcp = { checkType: 'TCP', request: { hostname: 'a.example', port: 25 } }
    const [after] = (await apply([monitor('a', tcp)])).plan
    expect(short([after])).toEqual(['create monitor a checkType'])
    expect(after.id).not.toBe(before.id)
    expect(await names()).toEqual(['a'])
  })

  test('a variable of the same call is known to its monitors', async () => {
    const request = { url: '{{HOST}}/' }
    const variables = [{ key: 'HOST', value: 'https://example.org' }]
    expect((await apply([monitor('a', { request })], { variables })).applied).toBe(true)
    expect((await apply([monitor('a', { request })], { prune: true })).problems).toHaveLength(1)
  })

  test('applied at the same time, files come one after the other', async () => {
    const files = [1, 2, 3, 4].map((number) =>
      apply([monitor('a', { tags: [`${number}`] }), monitor(`own-${number}`)], { prune: true }),
    )
    const answers = await Promise.all(files)
    expect(answers.every((one) => one.applied)).toBe(true)
    expect(await names()).toHaveLength(2)
  })

  test('many groups are added, changed and pruned by few statements', async () => {
    let statements = 0
    const counter = counted(database().database, () => statements++)
    const counting = await startPublicApi(counter, { cipher })
    const { accountId } = client
    const other = await addClient(counting, database().database, { accountId })
    const keys = Array.from({ length: 300 }, (_, index) => `g-${index}`)
    const send = async (groups: object[]) => {
      statements = 0
      const monitors = groups.length === 0 ? [] : keys.map((key) => monitor(key, {}, key))
      const body = { name: 'groups.yaml', locations: ['north'], prune: true, monitors, groups }
      const answer = await other.call('POST', '/v1/apply', { body })
      expect([answer.body.applied, answer.body.problems]).toEqual([true, []])
      expect(statements).toBeLessThan(40)
      return answer.body.plan
    }
    const groups = (more: object = {}) =>
      keys.map((key) => ({ key, definition: { name: key, ...more } }))
    const plan = await send(groups())
    const listed = await get('check-groups?limit=100')
    expect(listed.map((one: Loose) => one.name)).toEqual(keys.toReversed().slice(0, 100))
    expect(listed[0].id).toBe(plan.find((one: Loose) => one.key === 'g-299').id)
    expect(await get(`checks?groupId=${listed[0].id}`)).toMatchObject([{ name: 'g-299' }])
    await send(groups({ tags: ['x'] }))
    const changed = { name: 'g-299', tags: ['x'] }
    expect(await get(`check-groups/${listed[0].id}`)).toMatchObject(changed)
    await send([])
    expect(await get('check-groups')).toEqual([])
    await counting.close()
  })

  test('thousands of monitors are applied in one packed call, and again change nothing', async () => {
    // More than go into one statement.
    const monitors = Array.from({ length: 2_600 }, (_, index) =>
      monitor(`m-${index}`, { privateLocations: ['north', 'south'] }),
    )
    const raw = gzipSync(JSON.stringify({ name: 'large.yaml', monitors }))
    const headers = { 'content-encoding': 'gzip' }
    const send = () => client.call('POST', '/v1/apply', { raw: Uint8Array.from(raw), headers })
    const first = await send()
    expect([first.status, first.body.applied, first.body.plan.length]).toEqual([200, true, 2_600])
    expect(await revisions()).toEqual([2, 2])
    const open = await query(
      `select from expectations e join private_locations l on l.id = e.location_id
       where l.account_id = $1 and until_ms is null`,
      client.accountId,
    )
    expect(open).toHaveLength(5_200)
    const again = await send()
    expect(again.body.plan.every((one: Loose) => one.action === 'unchanged')).toBe(true)
    expect(await revisions()).toEqual([2, 2])
  })

  test.each([
    ['is not gzip', Buffer.from('{}'), 400],
    ['is cut off', gzipSync('{"name":"x","monitors":[]}').subarray(0, 20), 400],
    ['is larger when unpacked than it may be', gzipSync(Buffer.alloc(33 * 1024 * 1024, 32)), 413],
  ])('a packed body that %s is refused', async (_sentence, raw, expected) => {
    const headers = { 'content-encoding': 'gzip' }
    const answer = await client.call('POST', '/v1/apply', { raw: Uint8Array.from(raw), headers })
    expect(answer.status).toBe(expected)
  })

  test('a reader may not apply', async () => {
    const { accountId } = client
    const reader = await addClient(api, database().database, { accountId, role: 'Read & Run' })
    const body = { name: 'x', monitors: [] }
    expect((await reader.call('POST', '/v1/apply', { body })).status).toBe(403)
  })
})

/** A database that counts the statements of its transactions. */
function counted(database: Database, count: () => void): Database {
  return {
    ...database,
    query: database.query.bind(database),
    transaction: (work, options) =>
      database.transaction((tx) => {
        const query: Queryable['query'] = (statement, values) => {
          count()
          return tx.query(statement, values)
        }
        return work({ query })
      }, options),
  }
}
