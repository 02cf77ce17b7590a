// Aim: an existing third-party client, the CLI `checkly`, works against the API unchanged.
import { randomUUID } from 'node:crypto'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { checkly, installChecklyCli } from '../../support/platform/checkly-cli.ts'
import { usePublicApi } from '../../support/platform/public-api.ts'

const { api, client } = usePublicApi()
const lacking = await installChecklyCli()
let pageId: string

beforeAll(async () => {
  const service = (
    await client.call('POST', '/v1/status-pages/services', { body: { name: 'Web' } })
  ).body
  const body = {
    name: 'Acme',
    url: `acme-${randomUUID().slice(0, 8)}`,
    cards: [{ name: 'All', services: [service] }],
  }
  pageId = (await client.call('POST', '/v1/status-pages', { body })).body.id
})
beforeEach((context) => {
  if (lacking !== undefined) context.skip(lacking)
})

const run = (...args: string[]) =>
  checkly({ url: api.url, secret: client.secret, accountId: client.accountId }, args)
const json = async (...args: string[]) => {
  const done = await run(...args)
  expect(done).toMatchObject({ exitCode: 0 })
  return JSON.parse(done.stdout)
}

test('whoami', async () => {
  const { exitCode, stdout } = await run('whoami')
  expect(stdout).toContain(`account "Acme" (${client.accountId}) as the Admin key`)
  expect(exitCode).toBe(0)
})

test('status-pages list and get', async () => {
  const list = await run('status-pages', 'list')
  expect(list).toMatchObject({ exitCode: 0 })
  expect(list.stdout).toContain('Acme')
  const get = await json('status-pages', 'get', pageId, '--output', 'json')
  expect(get).toMatchObject({ id: pageId, cards: [{ services: [{ name: 'Web' }] }] })
})

test('incidents create, list, update and resolve', async () => {
  const created = await json(
    'incidents',
    'create',
    '--status-page-id',
    pageId,
    '--title',
    'Slow',
    '--severity',
    'major',
    '--force',
    '--output',
    'json',
  )
  const { id } = created
  const listed = await json('incidents', 'list', '--status', 'open', '--output', 'json')
  expect(JSON.stringify(listed)).toContain(id)
  const update = await run(
    'incidents',
    'update',
    id,
    '--message',
    'Found it',
    '--status',
    'identified',
    '--severity',
    'critical',
    '--force',
  )
  expect(update).toMatchObject({ exitCode: 0 })
  const incident = (await client.call('GET', `/v1/status-pages/incidents/${id}`)).body
  expect(incident).toMatchObject({ severity: 'CRITICAL', lastUpdateStatus: 'IDENTIFIED' })
  const resolve = await run('incidents', 'resolve', id, '--force')
  expect(resolve).toMatchObject({ exitCode: 0 })
  const after = (await client.call('GET', `/v1/status-pages/incidents/${id}`)).body
  expect(after).toMatchObject({ lastUpdateStatus: 'RESOLVED', duration: expect.any(Number) })
  expect(after.incidentUpdates[0].description).toBe('Incident resolved.')
})

test('api', async () => {
  const page = await json('api', '/v1/status-pages/incidents?limit=1')
  expect(page).toHaveProperty('entries')
})

test('a wrong key is reported as such', async () => {
  const done = await checkly({ url: api.url, secret: 'wrong', accountId: client.accountId }, [
    'incidents',
    'list',
  ])
  expect(done.exitCode).toBe(1)
  expect(done.stdout + done.stderr).toContain('Authentication failed')
})
