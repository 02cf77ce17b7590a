// Aim: incidents, their updates, services and status pages behave as the contract says, on every
// PostgreSQL that we promise; each answer fits the document.
import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { EMAIL_UNSENT } from '../../../src/platform/status-pages/schema.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import { addClient, usePublicApi } from '../../support/platform/public-api.ts'

const INCIDENTS = '/v1/status-pages/incidents'
const SERVICES = '/v1/status-pages/services'
const NOBODY = '00000000-0000-4000-8000-000000000000'

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const { database, api, client } = usePublicApi({}, server)
  let service: { id: string; name: string; accountId: string }

  beforeAll(async () => {
    service = (await client.call('POST', SERVICES, { body: { name: 'Web' } })).body
  })

  const bodyOf = (first: object = {}, more: object = {}) => ({
    name: 'Down',
    severity: 'MAJOR',
    services: [service],
    incidentUpdates: [{ description: 'Looking', status: 'INVESTIGATING', ...first }],
    ...more,
  })
  const open = async (first: object = {}, more: object = {}) => {
    const { status, body } = await client.call('POST', INCIDENTS, { body: bodyOf(first, more) })
    expect(status).toBe(201)
    return body
  }
  const post = (incident: { id: string }, update: object) =>
    client.call('POST', `${INCIDENTS}/${incident.id}/incident-updates`, {
      body: { description: 'News', ...update },
    })
  const read = async ({ id }: { id: string }) =>
    (await client.call('GET', `${INCIDENTS}/${id}`)).body

  test('an incident is read as it was opened', async () => {
    const incident = await open({ notifySubscribers: true })
    expect(incident).toMatchObject({
      name: 'Down',
      severity: 'MAJOR',
      services: [service],
      lastUpdateStatus: 'INVESTIGATING',
      duration: null,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      incidentUpdates: [{ description: 'Looking', notifySubscribers: true }],
    })
    expect(await read(incident)).toEqual(incident)
    const list = await client.call('GET', INCIDENTS)
    expect(list.body.entries[0]).toEqual(incident)
    expect(list.body.length).toBe(list.body.entries.length)
  })

  test('updates determine its status and duration, by their public dates', async () => {
    const at = (minutes: number) => new Date(1_760_000_000_000 + minutes * 60_000).toISOString()
    const incident = await open({ publicIncidentUpdateDate: at(0) })
    await post(incident, { status: 'RESOLVED', publicIncidentUpdateDate: at(10) })
    expect(await read(incident)).toMatchObject({ lastUpdateStatus: 'RESOLVED', duration: 600 })
    await post(incident, { status: 'MONITORING', publicIncidentUpdateDate: at(20) })
    expect(await read(incident)).toMatchObject({ lastUpdateStatus: 'MONITORING', duration: null })
    const last = await post(incident, { status: 'RESOLVED', publicIncidentUpdateDate: at(30) })
    expect(await read(incident)).toMatchObject({ duration: 1800 })
    // Posted later with a date before the first: the incident began earlier than was known.
    const early = await post(incident, {
      status: 'IDENTIFIED',
      publicIncidentUpdateDate: '2025-10-09T10:23:20+02:00',
    })
    expect(early.body.publicIncidentUpdateDate).toBe('2025-10-09T08:23:20.000Z')
    expect(await read(incident)).toMatchObject({ duration: 1800 + 30 * 60 })
    const one = `${INCIDENTS}/${incident.id}/incident-updates/${last.body.id}`
    expect((await client.call('DELETE', one)).status).toBe(204)
    expect(await read(incident)).toMatchObject({ lastUpdateStatus: 'MONITORING', duration: null })
    expect((await client.call('GET', one)).status).toBe(404)
  })

  test('updates are listed newest first, at most the latest 100', async () => {
    const incident = await open()
    for (let number = 1; number <= 104; number++) {
      const publicIncidentUpdateDate = '2026-01-01T00:00:00Z'
      await post(incident, { description: `${number}`, publicIncidentUpdateDate })
    }
    const { body } = await client.call('GET', `${INCIDENTS}/${incident.id}/incident-updates`)
    expect(body).toHaveLength(100)
    // All with one public date: the order of creation decides.
    const texts = body.slice(1, 4).map((one: { description: string }) => one.description)
    expect(texts).toEqual(['104', '103', '102'])
    expect(await read(incident)).toHaveProperty('incidentUpdates', body)
  })

  test('an update is replaced, and keeps its public date when none is given', async () => {
    const incident = await open({ publicIncidentUpdateDate: '2026-02-01T00:00:00Z' })
    const [update] = incident.incidentUpdates
    const path = `${INCIDENTS}/${incident.id}/incident-updates/${update.id}`
    const wanted = { ...update, description: 'Better', status: 'RESOLVED' }
    const dateless = { ...wanted, publicIncidentUpdateDate: undefined }
    const { body } = await client.call('PUT', path, { body: dateless })
    expect(body).toEqual(wanted)
    expect(await read(incident)).toMatchObject({ lastUpdateStatus: 'RESOLVED', duration: null })
  })

  test('the only update cannot be deleted', async () => {
    const incident = await open()
    const path = `${INCIDENTS}/${incident.id}/incident-updates/${incident.incidentUpdates[0].id}`
    expect((await client.call('DELETE', path)).status).toBe(409)
    expect(await read(incident)).toEqual(incident)
  })

  test('an update without status leaves the previous one and shows none', async () => {
    const incident = await open({ status: 'IDENTIFIED' })
    const { body } = await post(incident, {})
    expect(body).not.toHaveProperty('status')
    expect(await read(incident)).toMatchObject({ lastUpdateStatus: 'IDENTIFIED' })
  })

  test('PUT replaces the whole incident, PATCH a part', async () => {
    const incident = await open()
    const path = `${INCIDENTS}/${incident.id}`
    const other = (await client.call('POST', SERVICES, { body: { name: 'Mail' } })).body
    const put = await client.call('PUT', path, {
      body: { ...incident, name: 'Slow', services: [other, service] },
    })
    expect(put.body).toMatchObject({ name: 'Slow', services: [other, service] })
    const patch = await client.call('PATCH', path, { body: { severity: 'MINOR' } })
    expect(patch.body).toEqual({ ...put.body, severity: 'MINOR' })
  })

  test('a deleted incident is gone', async () => {
    const incident = await open()
    expect((await client.call('DELETE', `${INCIDENTS}/${incident.id}`)).status).toBe(204)
    for (const [method, request] of [
      ['GET', {}],
      ['DELETE', {}],
      ['PATCH', { body: { name: 'x' } }],
    ] as const) {
      expect((await client.call(method, `${INCIDENTS}/${incident.id}`, request)).status).toBe(404)
    }
    expect((await post(incident, {})).status).toBe(404)
  })

  test('things of another account can be neither read nor changed', async () => {
    const incident = await open()
    const stranger = await addClient(api, database().database)
    const path = `${INCIDENTS}/${incident.id}`
    const one = `${path}/incident-updates/${incident.incidentUpdates[0].id}`
    const answers = [
      await stranger.call('GET', path),
      await stranger.call('PATCH', path, { body: { name: 'Mine' } }),
      await stranger.call('DELETE', path),
      await stranger.call('GET', one),
      await stranger.call('PUT', one, { body: { description: 'Mine' } }),
      await stranger.call('DELETE', one),
      await stranger.call('GET', `${path}/incident-updates`),
      await stranger.call('GET', `${SERVICES}/${service.id}`),
      await stranger.call('POST', INCIDENTS, { body: bodyOf() }),
    ]
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404))
    const nothing = { length: 0, entries: [], nextId: null }
    expect((await stranger.call('GET', INCIDENTS)).body).toEqual(nothing)
    expect(await read(incident)).toEqual(incident)
  })

  test('an incident that names a missing service leaves nothing behind', async () => {
    const before = (await client.call('GET', `${INCIDENTS}?limit=100`)).body
    const body = bodyOf({}, { services: [service, { id: NOBODY }] })
    const { status } = await client.call('POST', INCIDENTS, { body })
    expect(status).toBe(404)
    expect((await client.call('GET', `${INCIDENTS}?limit=100`)).body).toEqual(before)
  })

  test('a deleted service stays in its incidents and can be kept there', async () => {
    const old = (await client.call('POST', SERVICES, { body: { name: 'Old' } })).body
    const incident = await open({}, { services: [old] })
    expect((await client.call('DELETE', `${SERVICES}/${old.id}`)).status).toBe(204)
    expect((await client.call('GET', `${SERVICES}/${old.id}`)).status).toBe(404)
    expect((await read(incident)).services).toEqual([old])
    const stored = await client.call('PUT', `${INCIDENTS}/${incident.id}`, { body: incident })
    expect(stored.status).toBe(200)
  })

  test('text is stored exactly', async () => {
    const name = '☃ \u{1F6A8} "quoted" \\ <b> \u2028 \u0001 \t; drop table incidents; --'
    const incident = await open({ description: name.repeat(20) }, { name })
    expect(incident.name).toBe(name)
    expect(incident.incidentUpdates[0].description).toBe(name.repeat(20))
  })

  test('a name has at most 255 characters (code points)', async () => {
    await open({}, { name: '\u{1F6A8}'.repeat(255) })
    const { status } = await client.call('PATCH', `${INCIDENTS}/${NOBODY}`, {
      body: { name: 'x'.repeat(256) },
    })
    expect(status).toBe(400)
  })

  test('no concurrently posted update is lost', async () => {
    const incident = await open()
    await Promise.all(Array.from({ length: 30 }, () => post(incident, { status: 'MONITORING' })))
    await post(incident, { status: 'RESOLVED' })
    const last = await read(incident)
    expect(last.incidentUpdates).toHaveLength(32)
    expect(last.lastUpdateStatus).toBe('RESOLVED')
    expect(last.duration).toBeGreaterThanOrEqual(0)
  })

  test('status pages group services in cards, and their url is unique', async () => {
    const url = `Acme-${randomUUID().slice(0, 8)}`
    const input = { name: 'Acme', url, cards: [{ name: 'Web', services: [{ id: service.id }] }] }
    const made = await client.call('POST', '/v1/status-pages', { body: input })
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({
      url: url.toLowerCase(),
      defaultTheme: 'AUTO',
      cards: [{ name: 'Web', services: [service] }],
    })
    const again = await client.call('POST', '/v1/status-pages', {
      body: { ...input, url: url.toUpperCase() },
    })
    expect(again.status).toBe(409)
    expect((await client.call('DELETE', `${SERVICES}/${service.id}`)).status).toBe(409)
    const path = `/v1/status-pages/${made.body.id}`
    const put = await client.call('PUT', path, { body: { ...made.body, name: 'New', cards: [] } })
    expect(put.body).toMatchObject({ name: 'New', cards: [], version: 2 })
    const list = await client.call('GET', '/v1/status-pages')
    expect(list.body.entries).toEqual([put.body])
    expect((await client.call('DELETE', path)).status).toBe(204)
    expect((await client.call('GET', path)).status).toBe(404)
  })

  test.each([
    ['by name', { body: '#1f2937' }],
    ['by theme', { light: { linkFontColor: '#ABCDEF' }, dark: { linkFontColor: '#FFF' } }],
  ])('colors of a page %s are stored', async (_, themeColors) => {
    const url = `acme-${randomUUID().slice(0, 8)}`
    const input = { name: 'Acme', url, cards: [], themeColors }
    const { status, body } = await client.call('POST', '/v1/status-pages', { body: input })
    expect([status, body.themeColors]).toEqual([201, themeColors])
    const bad = { ...input, url: `${url}-2`, themeColors: { light: { linkFontColor: 'red' } } }
    expect((await client.call('POST', '/v1/status-pages', { body: bad })).status).toBe(400)
  })

  test('no address subscribes by e-mail, and one of an earlier version says that nothing is sent', async () => {
    const input = { name: 'Acme', url: `acme-${randomUUID().slice(0, 8)}`, cards: [] }
    const page = await client.call('POST', '/v1/status-pages', { body: input })
    const path = `/v1/status-pages/${page.body.id}/subscriptions`
    const subscriptions = [{ type: 'EMAIL', config: { address: 'a@example.org' } }]
    const body = { subscriptions, autoVerify: true }
    const refused = await client.call('POST', `${path}/bulk`, { body })
    const refusal = { statusCode: 501, error: 'Not Implemented', message: EMAIL_UNSENT }
    expect([refused.status, refused.body]).toEqual([501, refusal])
    expect((await client.call('GET', path)).body.length).toBe(0)
    const id = randomUUID()
    await database().database.query(
      `insert into status_page_subscriptions (id, status_page_id, email, verified)
       values ($1, $2, 'a@example.org', true)`,
      [id, page.body.id],
    )
    const { body: listed } = await client.call('GET', path)
    const known = { id, type: 'EMAIL', address: 'a@example.org', status: 'VERIFIED' }
    expect(listed).toMatchObject([{ ...known, updated_at: listed[0].created_at }])
    expect(listed).toMatchObject([{ email: 'a@example.org', warning: EMAIL_UNSENT }])
    expect((await client.call('DELETE', `${path}/${id}`)).status).toBe(204)
    expect((await client.call('DELETE', `${path}/${id}`)).status).toBe(404)
  })
})
