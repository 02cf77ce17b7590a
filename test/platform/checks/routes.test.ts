// Aim: monitors are written and read in the wire form, placed, inherit from their groups, and show no secret.
import { beforeAll, describe, expect, test } from 'vitest'
import { slotsOf, turnsOf } from '../../../src/contract/timetable.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import type { Monitor } from '../../../src/contract/monitor.ts'
import { decrypt } from '../../../src/platform/checks/encrypted-monitor.ts'
import { createCipher } from '../../../src/platform/secrets/cipher.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import { makeLocation } from '../../support/platform/named-locations.ts'
import { addClient, type Loose, usePublicApi } from '../../support/platform/public-api.ts'

const cipher = createCipher('a secret of these tests')
const TOO_LONG = 'x'.repeat(LIMITS.secretCharactersMax + 1)
const HUSHED = { source: 'TEXT_BODY', comparison: 'NOT_EMPTY', regex: '{{HUSH}}', target: '' }
const NOBODY = '00000000-0000-4000-8000-000000000000'

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const options = { cipher, defaultLimit: { limit: 1e8, windowS: 60 } }
  const { database, api, client } = usePublicApi(options, server)

  beforeAll(async () => {
    await makeLocation(client, 'north')
    await makeLocation(client, 'south')
  })

  const url = (more: object = {}) => {
    const request = { url: 'https://example.org/' }
    return { name: 'Shop', privateLocations: ['north'], request, ...more }
  }
  const add = async (more: object = {}) => {
    const { status, body, text } = await client.call('POST', '/v1/checks/url', { body: url(more) })
    expect([status, text]).toEqual([201, text])
    return body
  }
  const read = async ({ id }: { id: string }) => (await client.call('GET', `/v1/checks/${id}`)).body
  const placements = (id: string) =>
    database().database.query<Loose>(
      `select l.slug_name, p.needs, p.every_ms, p.offset_ms, p.until_ms, p.revision
       from placements p join private_locations l on l.id = p.location_id
       where p.monitor_id = $1 order by l.slug_name`,
      [id],
    )
  const effective = async (id: string) => {
    const sql = 'select effective from monitors where id = $1'
    const [row] = await database().database.query<Loose>(sql, [id])
    return decrypt(cipher, row.effective) as Monitor
  }

  test('a monitor comes back as it was written, and is of its type for ever', async () => {
    const made = await add()
    expect(made).toMatchObject({
      ...url(),
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      updated_at: null,
      activated: true,
      tags: [],
    })
    expect(await read(made)).toEqual(made)
    const { status } = await client.call('PUT', `/v1/checks/tcp/${made.id}`, { body: url() })
    expect(status).toBe(404)
  })

  test('a long number as target of an assertion keeps its digits, elsewhere it is not an integer', async () => {
    const digits = '12345678901234567890'
    const assertion = { source: 'JSON_BODY', property: '$.id', comparison: 'EQUALS', target: 'ID' }
    const request = { method: 'GET', url: 'https://example.org/', assertions: [assertion] }
    const post = (more: object) => {
      const body = JSON.stringify({ name: 'A', privateLocations: ['north'], request, ...more })
      return client.call('POST', '/v1/checks/api', { raw: body.replace('"ID"', digits) })
    }
    const made = await post({})
    expect([made.status, made.text]).toEqual([201, made.text])
    expect(made.body.request.assertions[0].target).toBe(digits)
    const elsewhere = await post({ request: { ...request, assertions: [] }, frequency: 'ID' })
    expect(elsewhere.status).toBe(400)
  })

  test('a check is placed in its locations with its slots, round robin or in parallel', async () => {
    const locations = { privateLocations: ['south', 'north'], frequency: 1 }
    const turns = await add(locations)
    const slots = slotsOf({ id: turns.id, frequency: 1 })
    const rows = await placements(turns.id)
    expect(rows).toMatchObject([
      { slug_name: 'north', needs: ['URL'], until_ms: null },
      { slug_name: 'south', needs: ['URL'], until_ms: null },
    ])
    const timing = (row: Loose) => ({ everyMs: row.every_ms, offsetMs: row.offset_ms })
    expect(rows.map(timing)).toEqual([turnsOf(slots, 1, 2), turnsOf(slots, 0, 2)])
    const path = `/v1/checks/${turns.id}`
    await client.call('PATCH', path, { body: { runParallel: true } })
    expect((await placements(turns.id)).map(timing)).toEqual([slots, slots])
    await client.call('PATCH', path, { body: { activated: false } })
    expect((await placements(turns.id)).every((row) => row.until_ms !== null)).toBe(true)
    await client.call('PATCH', path, { body: { activated: true, privateLocations: ['north'] } })
    const again = await placements(turns.id)
    expect(again.map((row) => row.until_ms === null)).toEqual([true, false])
    expect((await client.call('DELETE', path)).status).toBe(204)
    expect((await placements(turns.id)).every((row) => row.until_ms !== null)).toBe(true)
    expect((await client.call('GET', path)).status).toBe(404)
    expect((await client.call('DELETE', path)).status).toBe(404)
  })

  test.each([
    ['names no location', { privateLocations: [] }, 'privateLocations: no location'],
    ['names an unknown location', { privateLocations: ['east'] }, '"east"; there are north, south'],
    ['names an unknown group', { groupId: 999_999 }, 'groupId: unknown group 999999'],
    ['names a thing of a deployment', { groupId: { ref: 'g' } }, 'groupId: must be an id'],
    ['is of another type', { checkType: 'TCP' }, 'checkType: must be URL'],
    ['uses an unknown variable', { request: { url: '{{NOWHERE}}/x' } }, 'request.url: not a URL'],
    ['has a mask for nothing', secretVariable('********'), 'give the value'],
    ['has a secret too long to be scrubbed', secretVariable(TOO_LONG), 'a secret has at most'],
  ])('a check that %s is refused', async (_sentence, more, problem) => {
    const { status, body } = await client.call('POST', '/v1/checks/url', { body: url(more) })
    expect(status).toBe(400)
    expect(body.message).toContain(problem)
  })

  test('a check in public regions only is stored, runs nowhere, and does not look as if it passed', async () => {
    const check = await add({ privateLocations: null, locations: ['eu-west-1'] })
    expect(check.locations).toEqual(['eu-west-1'])
    expect(await placements(check.id)).toEqual([])
    const status = async () => (await client.call('GET', `/v1/check-statuses/${check.id}`)).body
    const unplaced = { verdict: null, hasErrors: true, warning: expect.any(String) }
    expect(await status()).toMatchObject(unplaced)
    await client.call('PATCH', `/v1/checks/${check.id}`, { body: { privateLocations: ['north'] } })
    expect(await status()).toMatchObject({ verdict: null, hasErrors: false })
    expect(await status()).not.toHaveProperty('warning')
  })

  test('a text with variables is stored unchanged, and validated with their values', async () => {
    await client.call('POST', '/v1/variables', { body: { key: 'HOST', value: 'example.org' } })
    const request = { url: 'https://{{HOST}}/{{ PATH }}' }
    const check = await add({ request, environmentVariables: [{ key: 'PATH', value: 'x' }] })
    expect(check.request.url).toBe(request.url)
    expect((await effective(check.id))['request']).toMatchObject(request)
  })

  test.each([
    ['url', { url: '{{HUSH}}' }],
    ['api', { method: 'GET', url: 'https://x/', assertions: [HUSHED] }],
    ['websocket', { url: '{{HUSH}}' }],
    ['tcp', { hostname: 'x', port: 1, dialogue: [{ expect: '{{HUSH}}' }] }],
  ])('no message quotes the value of a variable: %s', async (type, request) => {
    const variable = { key: 'HUSH', value: 'Hush(://hush', secret: true }
    await client.call('POST', '/v1/variables', { body: variable })
    for (const value of ['Hush(://hush', 'Hush://hush?[']) {
      await client.call('PUT', '/v1/variables/HUSH', { body: { ...variable, value } })
      const body = { name: 'x', privateLocations: ['north'], request }
      const made = await client.call('POST', `/v1/checks/${type}`, { body })
      expect(made.status).toBe(400)
      expect(made.text).not.toMatch(/hush/i)
    }
  })

  test('secrets are never shown, and stay unchanged when their mask is sent', async () => {
    const basicAuth = { username: 'me', password: 'pass-1' }
    const request = { method: 'GET', url: 'https://example.org/', basicAuth }
    const body = { name: 'x', privateLocations: ['north'], request, ...secretVariable('hidden-1') }
    const made = await client.call('POST', '/v1/checks/api', { body })
    expect(made.text).not.toMatch(/pass-1|hidden-1/)
    expect(made.body.request.basicAuth).toEqual({ username: 'me', password: '********' })
    expect(made.body.environmentVariables[0].value).toBe('********')
    const path = `/v1/checks/${made.body.id}`
    const put = await client.call('PUT', path, { body: { ...made.body, name: 'y' } })
    expect(put.status).toBe(200)
    const patched = await client.call('PATCH', path, { body: secretVariable('********') })
    const listed = await client.call('GET', '/v1/checks?limit=100')
    expect(put.text + patched.text + listed.text).not.toMatch(/pass-1|hidden-1/)
    expect(await effective(made.body.id)).toMatchObject({
      name: 'y',
      request: { basicAuth },
      environmentVariables: [{ key: 'TOKEN', value: 'hidden-1', secret: true }],
    })
    const environmentVariables = [{ key: 'TOKEN', value: '********', secret: false }]
    expect((await client.call('PATCH', path, { body: { environmentVariables } })).status).toBe(400)
    const stored = await database().database.query('select * from monitors')
    expect(JSON.stringify(stored)).not.toMatch(/pass-1|hidden-1/)
  })

  test('lists are newest first, in pages, and filtered', async () => {
    const other = await addClient(api, database().database)
    await makeLocation(other, 'north')
    const names = Array.from({ length: 12 }, (_, index) => `Check ${index}`)
    for (const name of names) await other.call('POST', '/v1/checks/url', { body: url({ name }) })
    const list = async (query = '') =>
      (await other.call('GET', `/v1/checks${query}`)).body.map((one: Loose) => one.name)
    const found = await list('?limit=100')
    expect(found.toSorted()).toEqual(names.toSorted())
    expect(await list()).toEqual(found.slice(0, 10))
    expect(await list('?page=2')).toEqual(found.slice(10))
    expect(await list('?search=CHECK%2011')).toEqual(['Check 11'])
    expect(await list('?name=Check%201')).toEqual(['Check 1'])
    for (const none of ['name=check%201', 'checkType=TCP', 'groupId=1']) {
      expect(await list(`?${none}`)).toEqual([])
    }
    for (const bad of ['limit=0', 'limit=101', 'page=0', 'checkType=X', 'groupId=x']) {
      expect((await other.call('GET', `/v1/checks?${bad}`)).status).toBe(400)
    }
  })

  test('another account sees nothing and changes nothing', async () => {
    const check = await add()
    const other = await addClient(api, database().database)
    const path = `/v1/checks/${check.id}`
    expect((await other.call('GET', path)).status).toBe(404)
    expect((await other.call('PUT', path, { body: url() })).status).toBe(404)
    expect((await other.call('DELETE', path)).status).toBe(404)
    expect((await other.call('GET', '/v1/checks')).body).toEqual([])
    expect((await other.call('POST', '/v1/checks/url', { body: url() })).status).toBe(400)
    expect(await read(check)).toEqual(check)
  })

  test('only an Admin makes keys of locations', async () => {
    const { accountId } = client
    const keys = `/v1/private-locations/${NOBODY}/keys`
    const writer = await addClient(api, database().database, { accountId, role: 'Read & Write' })
    expect((await writer.call('POST', keys)).status).toBe(403)
    expect((await client.call('POST', keys)).status).toBe(404)
  })

  describe('a group', () => {
    const addGroup = async (more: object = {}) =>
      (await client.call('POST', '/v1/check-groups', { body: { name: 'Web', ...more } })).body

    test('passes its settings on to its members, and places them again', async () => {
      const apiCheckDefaults = { basicAuth: { username: 'u', password: 'group-pass' } }
      const secrets = { apiCheckDefaults, ...secretVariable('of-the-group') }
      const group = await addGroup({ tags: ['web'], ...secrets })
      const path = `/v1/check-groups/${group.id}`
      const shown = [await client.call('GET', path), await client.call('GET', '/v1/check-groups')]
      expect(JSON.stringify([group, shown])).not.toMatch(/group-pass|of-the-group/)
      const check = await add({ groupId: group.id, tags: ['own'] })
      expect(check.tags).toEqual(['own'])
      expect(await effective(check.id)).toMatchObject({
        tags: ['own', 'web'],
        environmentVariables: [{ key: 'TOKEN', value: 'of-the-group' }],
      })
      for (const applied of [false, true]) {
        const query = `applyGroupSettings=${applied}`
        const one = await client.call('GET', `/v1/checks/${check.id}?${query}`)
        const all = await client.call('GET', `/v1/checks?groupId=${group.id}&${query}`)
        expect(one.body.tags).toEqual(applied ? ['own', 'web'] : ['own'])
        expect(all.body).toEqual([one.body])
        expect(one.text).not.toContain('of-the-group')
      }
      const [before] = await placements(check.id)
      await client.call('PUT', path, { body: { ...group, privateLocations: ['south'] } })
      const moved = await placements(check.id)
      const open = (rows: Loose[]) => rows.filter((row) => row.until_ms === null)
      expect(moved).toHaveLength(2)
      expect(open(moved)).toMatchObject([{ slug_name: 'south' }])
      expect(moved[0]?.revision).toBeGreaterThan(before?.revision)
      // The same again changes nothing and notifies no agent.
      const again = { ...group, privateLocations: ['south'] }
      await client.call('PUT', path, { body: again })
      expect(await placements(check.id)).toEqual(moved)
      await client.call('PUT', path, { body: { ...again, activated: false } })
      expect(open(await placements(check.id))).toEqual([])
      expect((await client.call('GET', `/v1/checks?groupId=${group.id}`)).body).toHaveLength(1)
      expect((await client.call('DELETE', path)).status).toBe(409)
      await client.call('PATCH', `/v1/checks/${check.id}`, { body: { groupId: null } })
      expect((await client.call('DELETE', path)).status).toBe(204)
    })

    test('is changed field by field, and keeps the only location of its members', async () => {
      const secret = secretVariable('of-the-group')
      const group = await addGroup({ privateLocations: ['north'], ...secret })
      const check = await add({ groupId: group.id, privateLocations: [] })
      const path = `/v1/check-groups/${group.id}`
      const { status, body } = await client.call('PATCH', path, { body: { name: 'Mail' } })
      expect([status, body]).toEqual([200, { ...group, name: 'Mail', updated_at: body.updated_at }])
      await client.call('PATCH', path, { body: { privateLocations: ['south'] } })
      expect(await effective(check.id)).toMatchObject({
        environmentVariables: [{ key: 'TOKEN', value: 'of-the-group' }],
      })
      for (const bad of [{ nmae: 'x' }, { name: '' }, { privateLocations: ['nowhere'] }]) {
        expect((await client.call('PATCH', path, { body: bad })).status).toBe(400)
      }
      const bare = await client.call('PUT', path, { body: { name: 'Web' } })
      expect(bare.status).toBe(400)
      expect(bare.body.message).toContain('The check "Shop" cannot be in this group: no location')
      const open = (await placements(check.id)).filter((row) => row.until_ms === null)
      expect(open).toMatchObject([{ slug_name: 'south' }])
    })

    test.each(['0', '123456789012345', 'x', '-1'])('%s is not there', async (id) => {
      expect((await client.call('GET', `/v1/check-groups/${id}`)).status).toBe(404)
    })
  })

  test('concurrent edits all succeed, each with its own revision', async () => {
    const checks = [await add(), await add()]
    const sql = `select revision from private_locations where slug_name = 'north' and account_id = $1`
    const of = async (): Promise<number> =>
      (await database().database.query<Loose>(sql, [client.accountId]))[0].revision
    const before = await of()
    const edits = Array.from({ length: 10 }, (_, index) => {
      const body = { frequency: [1, 2, 5][index % 3] }
      return client.call('PATCH', `/v1/checks/${checks[index % 2].id}`, { body })
    })
    expect((await Promise.all(edits)).map((one) => one.status)).toEqual(edits.map(() => 200))
    expect(await of()).toBe(before + 10)
  })
})

function secretVariable(value: string) {
  return { environmentVariables: [{ key: 'TOKEN', value, locked: false, secret: true }] }
}
