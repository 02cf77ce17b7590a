// Aim: incidents, their updates, services and status pages behave as the contract says, on every
// PostgreSQL that we promise; each answer fits the document.
import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { EMAIL_UNSENT, PAGE_UNSERVED } from '../../../src/platform/status-pages/schema.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import { usePublicApi } from '../../support/platform/public-api.ts'

const INCIDENTS = '/v1/status-pages/incidents'
const SERVICES = '/v1/status-pages/services'
const NOBODY = '00000000-0000-4000-8000-000000000000'

const { database, client, addClient } = usePublicApi({}, DATABASE_SERVERS[0])
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
/** An incident, its path, and that of its first update. */
const open = async (first: object = {}, more: object = {}) => {
  const { status, body } = await client.call('POST', INCIDENTS, { body: bodyOf(first, more) })
  expect(status).toBe(201)
  const path = `${INCIDENTS}/${body.id}`
  return { body, path, one: `${path}/incident-updates/${body.incidentUpdates[0].id}` }
}
const post = (path: string, update: object) =>
  client.call('POST', `${path}/incident-updates`, { body: { description: 'News', ...update } })

test('an incident is read as it was opened', async () => {
  const { body: incident, path } = await open({ notifySubscribers: true })
  expect(incident).toMatchObject({
    name: 'Down',
    severity: 'MAJOR',
    services: [service],
    lastUpdateStatus: 'INVESTIGATING',
    duration: null,
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
    incidentUpdates: [{ description: 'Looking', notifySubscribers: true }],
  })
  expect(await client.get(path)).toEqual(incident)
  expect((await client.get(INCIDENTS)).entries[0]).toEqual(incident)
})

test('updates determine its status and duration, by their public dates', async () => {
  const at = (minutes: number) => new Date(1_760_000_000_000 + minutes * 60_000).toISOString()
  const { path } = await open({ publicIncidentUpdateDate: at(0) })
  const after = async (minutes: number, status: string) => {
    const { body } = await post(path, { status, publicIncidentUpdateDate: at(minutes) })
    const { lastUpdateStatus, duration } = await client.get(path)
    expect(lastUpdateStatus).toBe(status)
    return { duration, one: `${path}/incident-updates/${body.id}` }
  }
  expect((await after(10, 'RESOLVED')).duration).toBe(600)
  expect((await after(20, 'MONITORING')).duration).toBeNull()
  const { duration, one } = await after(30, 'RESOLVED')
  expect(duration).toBe(1800)
  // Posted later with a date before the first: the incident began earlier than was known.
  const publicIncidentUpdateDate = '2025-10-09T10:23:20+02:00'
  const early = await post(path, { status: 'IDENTIFIED', publicIncidentUpdateDate })
  expect(early.body.publicIncidentUpdateDate).toBe('2025-10-09T08:23:20.000Z')
  expect(await client.get(path)).toMatchObject({ duration: 1800 + 30 * 60 })
  expect(await client.status('DELETE', one)).toBe(204)
  expect(await client.get(path)).toMatchObject({ lastUpdateStatus: 'MONITORING', duration: null })
  expect(await client.status('GET', one)).toBe(404)
})

test('updates are listed newest first, at most the latest 100', async () => {
  const { path } = await open()
  for (let number = 1; number <= 104; number++) {
    const publicIncidentUpdateDate = '2026-01-01T00:00:00Z'
    await post(path, { description: `${number}`, publicIncidentUpdateDate })
  }
  const all = await client.get(`${path}/incident-updates`)
  expect(all).toHaveLength(100)
  // All with one public date: the order of creation decides.
  const texts = all.slice(1, 4).map((one: { description: string }) => one.description)
  expect(texts).toEqual(['104', '103', '102'])
  expect(await client.get(path)).toHaveProperty('incidentUpdates', all)
})

test('an update is replaced, and keeps its public date when none is given', async () => {
  const { body, path, one } = await open({ publicIncidentUpdateDate: '2026-02-01T00:00:00Z' })
  const wanted = { ...body.incidentUpdates[0], description: 'Better', status: 'RESOLVED' }
  const dateless = { ...wanted, publicIncidentUpdateDate: undefined }
  expect((await client.call('PUT', one, { body: dateless })).body).toEqual(wanted)
  expect(await client.get(path)).toMatchObject({ lastUpdateStatus: 'RESOLVED', duration: null })
})

test('the only update cannot be deleted', async () => {
  const { body, path, one } = await open()
  expect(await client.status('DELETE', one)).toBe(409)
  expect(await client.get(path)).toEqual(body)
})

test('an update without status leaves the previous one and shows none', async () => {
  const { path } = await open({ status: 'IDENTIFIED' })
  expect((await post(path, {})).body).not.toHaveProperty('status')
  expect(await client.get(path)).toMatchObject({ lastUpdateStatus: 'IDENTIFIED' })
})

test('PUT replaces the whole incident, PATCH a part', async () => {
  const { body: incident, path } = await open()
  const other = (await client.call('POST', SERVICES, { body: { name: 'Mail' } })).body
  const changed = { name: 'Slow', services: [other, service] }
  const put = await client.call('PUT', path, { body: { ...incident, ...changed } })
  expect(put.body).toMatchObject(changed)
  const patch = await client.call('PATCH', path, { body: { severity: 'MINOR' } })
  expect(patch.body).toEqual({ ...put.body, severity: 'MINOR' })
})

test('a deleted incident is gone', async () => {
  const { path } = await open()
  expect(await client.status('DELETE', path)).toBe(204)
  for (const method of ['GET', 'DELETE']) expect(await client.status(method, path)).toBe(404)
  expect(await client.status('PATCH', path, { name: 'x' })).toBe(404)
  expect((await post(path, {})).status).toBe(404)
})

test('things of another account can be neither read nor changed', async () => {
  const { body, path, one } = await open()
  const stranger = await addClient()
  const asks: [method: string, path: string, body?: object][] = [
    ['GET', path],
    ['PATCH', path, { name: 'Mine' }],
    ['DELETE', path],
    ['GET', one],
    ['PUT', one, { description: 'Mine' }],
    ['DELETE', one],
    ['GET', `${path}/incident-updates`],
    ['GET', `${SERVICES}/${service.id}`],
    ['POST', INCIDENTS, bodyOf()],
  ]
  for (const [method, where, sent] of asks) {
    expect([where, await stranger.status(method, where, sent)]).toEqual([where, 404])
  }
  const nothing = { length: 0, entries: [], nextId: null }
  expect(await stranger.get(INCIDENTS)).toEqual(nothing)
  expect(await client.get(path)).toEqual(body)
})

test('an incident that names a missing service leaves nothing behind', async () => {
  const before = await client.get(`${INCIDENTS}?limit=100`)
  const body = bodyOf({}, { services: [service, { id: NOBODY }] })
  expect(await client.status('POST', INCIDENTS, body)).toBe(404)
  expect(await client.get(`${INCIDENTS}?limit=100`)).toEqual(before)
})

test('a deleted service stays in its incidents and can be kept there', async () => {
  const old = (await client.call('POST', SERVICES, { body: { name: 'Old' } })).body
  const { body, path } = await open({}, { services: [old] })
  expect(await client.status('DELETE', `${SERVICES}/${old.id}`)).toBe(204)
  expect(await client.status('GET', `${SERVICES}/${old.id}`)).toBe(404)
  expect((await client.get(path)).services).toEqual([old])
  expect(await client.status('PUT', path, body)).toBe(200)
})

test('text is stored exactly', async () => {
  const name = '☃ \u{1F6A8} "quoted" \\ <b> \u2028 \u0001 \t; drop table incidents; --'
  const description = name.repeat(20)
  const { body } = await open({ description }, { name })
  expect(body).toMatchObject({ name, incidentUpdates: [{ description }] })
})

test('a name has at most 255 characters (code points)', async () => {
  await open({}, { name: '\u{1F6A8}'.repeat(255) })
  expect(await client.status('PATCH', `${INCIDENTS}/${NOBODY}`, { name: 'x'.repeat(256) })).toBe(
    400,
  )
})

test('no concurrently posted update is lost', async () => {
  const { path } = await open()
  await Promise.all(Array.from({ length: 30 }, () => post(path, { status: 'MONITORING' })))
  await post(path, { status: 'RESOLVED' })
  const last = await client.get(path)
  expect(last.incidentUpdates).toHaveLength(32)
  expect(last.lastUpdateStatus).toBe('RESOLVED')
  expect(last.duration).toBeGreaterThanOrEqual(0)
})

const PAGES = '/v1/status-pages'
const page = (more: object = {}) => {
  const url = `Acme-${randomUUID().slice(0, 8)}`
  return { name: 'Acme', url, cards: [{ name: 'Web', services: [{ id: service.id }] }], ...more }
}

test('status pages group services in cards, and their url is unique', async () => {
  const input = page()
  const made = await client.call('POST', PAGES, { body: input })
  expect(made.status).toBe(201)
  expect(made.body).toMatchObject({
    url: input.url.toLowerCase(),
    defaultTheme: 'AUTO',
    warning: PAGE_UNSERVED,
    cards: [{ name: 'Web', services: [service] }],
  })
  expect(await client.status('POST', PAGES, { ...input, url: input.url.toUpperCase() })).toBe(409)
  expect(await client.status('DELETE', `${SERVICES}/${service.id}`)).toBe(409)
  const path = `${PAGES}/${made.body.id}`
  const put = await client.call('PUT', path, { body: { ...made.body, name: 'New', cards: [] } })
  expect(put.body).toMatchObject({ name: 'New', cards: [], version: 2 })
  expect((await client.get(PAGES)).entries).toEqual([put.body])
  expect(await client.status('DELETE', path)).toBe(204)
  expect(await client.status('GET', path)).toBe(404)
})

test.each([
  ['by name', { body: '#1f2937' }],
  ['by theme', { light: { linkFontColor: '#ABCDEF' }, dark: { linkFontColor: '#FFF' } }],
])('colors of a page %s are stored', async (_, themeColors) => {
  const { status, body } = await client.call('POST', PAGES, { body: page({ themeColors }) })
  expect([status, body.themeColors]).toEqual([201, themeColors])
  const bad = page({ themeColors: { light: { linkFontColor: 'red' } } })
  expect(await client.status('POST', PAGES, bad)).toBe(400)
})

test('no address subscribes by e-mail, and one of an earlier version says that nothing is sent', async () => {
  const made = await client.call('POST', PAGES, { body: page({ cards: [] }) })
  const path = `${PAGES}/${made.body.id}/subscriptions`
  const subscriptions = [{ type: 'EMAIL', config: { address: 'a@example.org' } }]
  const body = { subscriptions, autoVerify: true }
  const refused = await client.call('POST', `${path}/bulk`, { body })
  const refusal = { statusCode: 501, error: 'Not Implemented', message: EMAIL_UNSENT }
  expect([refused.status, refused.body]).toEqual([501, refusal])
  expect(await client.get(path)).toHaveLength(0)
  const id = randomUUID()
  await database().database.query(
    `insert into status_page_subscriptions (id, status_page_id, email, verified)
     values ($1, $2, 'a@example.org', true)`,
    [id, made.body.id],
  )
  const listed = await client.get(path)
  const [address, status] = ['a@example.org', 'VERIFIED']
  const updated_at = listed[0].created_at
  expect(listed).toMatchObject([
    { id, type: 'EMAIL', address, email: address, status, updated_at, warning: EMAIL_UNSENT },
  ])
  for (const gone of [204, 404]) expect(await client.status('DELETE', `${path}/${id}`)).toBe(gone)
})
