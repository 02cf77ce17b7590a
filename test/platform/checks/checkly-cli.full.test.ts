// Aim: an existing third-party client, the CLI `checkly`, works against the API unchanged.
import { randomUUID } from 'node:crypto'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { ensurePartitions } from '../../../src/platform/results/queries/result-partitions.ts'
import { checkly, installChecklyCli } from '../../support/platform/checkly-cli.ts'
import { makeLocation } from '../../support/platform/named-locations.ts'
import { addMonitor, slotOf, wireResult } from '../../support/platform/placed-monitors.ts'
import { type Loose, usePublicApi } from '../../support/platform/public-api.ts'
import { report } from '../../support/platform/recorded-results.ts'

const DAY_MS = 86_400_000
const NOW = Math.floor(Date.now() / 10_000) * 10_000

const { database: use, api, client } = usePublicApi()
const lacking = await installChecklyCli()
/** Ids of a status page, of the first of 12 checks, and of a channel. */
let pageId: string
let shop: string
let channelId: string

const post = async (path: string, body: object) =>
  (await client.call('POST', `/v1/${path}`, { body })).body

beforeAll(async () => {
  const { database } = use()
  await ensurePartitions(database, NOW - DAY_MS, NOW + DAY_MS)
  const service = await post('status-pages/services', { name: 'Web' })
  const cards = [{ name: 'All', services: [service] }]
  const url = `acme-${randomUUID().slice(0, 8)}`
  pageId = (await post('status-pages', { name: 'Acme', url, cards })).id
  const id = await makeLocation(client, 'north')
  const check = { privateLocations: ['north'], request: { url: 'https://example.org/' } }
  shop = (await post('checks/url', { name: 'Shop 0', tags: ['first'], ...check })).id
  for (let n = 1; n < 12; n++) await post('checks/url', { name: `Shop ${n}`, ...check })
  const config = { name: 'Ops', url: 'https://example.org/', method: 'POST' }
  channelId = String((await post('alert-channels', { type: 'WEBHOOK', config })).id)
  // Two results of the first check, the newer one a failure.
  const at = { accountId: client.accountId, id }
  const placed = await addMonitor(database, at, { monitorId: shop, fromMs: NOW - 60_000 })
  const results = (['passed', 'failed'] as const).map((verdict, n) =>
    wireResult({ monitorId: shop, slot: slotOf(placed, n), verdict }),
  )
  await report(database, { at, results, nowMs: NOW })
})
beforeEach((context) => {
  if (lacking !== undefined) context.skip(lacking)
})

/** Runs the tool with the words of a line and further arguments. */
const run = (line: string, ...more: string[]) => {
  const account = { url: api.url, secret: client.secret, accountId: client.accountId }
  return checkly(account, [...line.split(' '), ...more])
}
const json = async (line: string, ...more: string[]): Promise<Loose> => {
  const done = await run(line, ...more, '--output', 'json')
  expect(done).toMatchObject({ exitCode: 0 })
  return JSON.parse(done.stdout)
}

test('whoami, api, and a wrong key', async () => {
  const who = expect.stringContaining(`account "Acme" (${client.accountId}) as the Admin key`)
  expect(await run('whoami')).toMatchObject({ exitCode: 0, stdout: who })
  const page = await run('api /v1/status-pages/incidents?limit=1')
  expect(JSON.parse(page.stdout)).toHaveProperty('entries')
  const wrong = { url: api.url, secret: 'wrong', accountId: client.accountId }
  const done = await checkly(wrong, ['incidents', 'list'])
  expect(done.exitCode).toBe(1)
  expect(done.stdout + done.stderr).toContain('Authentication failed')
})

test('status-pages list and get', async () => {
  const stdout = expect.stringContaining('Acme')
  expect(await run('status-pages list')).toMatchObject({ exitCode: 0, stdout })
  const get = await json('status-pages get', pageId)
  expect(get).toMatchObject({ id: pageId, cards: [{ services: [{ name: 'Web' }] }] })
})

test('incidents create, list, update and resolve', async () => {
  const { id } = await json(
    `incidents create --status-page-id ${pageId} --title Slow --severity major --force`,
  )
  const incident = async () => (await client.call('GET', `/v1/status-pages/incidents/${id}`)).body
  expect(JSON.stringify(await json('incidents list --status open'))).toContain(id)
  const update = `incidents update ${id} --status identified --severity critical --force`
  expect(await run(update, '--message', 'Found it')).toMatchObject({ exitCode: 0 })
  const identified = { severity: 'CRITICAL', lastUpdateStatus: 'IDENTIFIED' }
  expect(await incident()).toMatchObject(identified)
  expect(await run(`incidents resolve ${id} --force`)).toMatchObject({ exitCode: 0 })
  const after = await incident()
  expect(after).toMatchObject({ lastUpdateStatus: 'RESOLVED', duration: expect.any(Number) })
  expect(after.incidentUpdates[0].description).toBe('Incident resolved.')
})

test('checks list pages with the total of all checks', async () => {
  const { data, pagination } = await json('checks list --limit 5')
  expect(data).toHaveLength(5)
  expect(pagination).toMatchObject({ total: 12, totalPages: 3 })
})

test.each([
  ['--tag', 'first', ['Shop 0']],
  ['--tag', 'none', []],
  ['--status', 'failing', ['Shop 0']],
  ['--status', 'passing', []],
  ['--search', 'shop 11', ['Shop 11']],
  ['--type', 'TCP', []],
])('checks list %s %s', async (flag, value, names) => {
  const { data } = await json('checks list', flag, value)
  expect(data.map((one: Loose) => one.name)).toEqual(names)
})

test('checks get shows the state, recent results and figures', async () => {
  const shown = await json('checks get', shop)
  expect(shown).toMatchObject({
    check: { name: 'Shop 0' },
    status: { hasFailures: true },
    results: [
      { hasFailures: true, runLocation: 'north' },
      { hasFailures: false, runLocation: 'north' },
    ],
    analytics: { series: [{ data: [{ availability: 50 }] }] },
  })
  const one = await json('checks get', shop, '--result', shown.results[0].id)
  expect(one).toMatchObject({ name: 'Shop 0', runLocation: 'north', resultType: 'FINAL' })
})

test('checks stats, alert-channels list and logs', async () => {
  const { data, pagination } = await json('checks stats --tag first')
  expect(data).toMatchObject([{ checkId: shop, status: 'failing', availability: 50 }])
  expect(pagination).toMatchObject({ total: 1 })
  expect((await json('checks stats', shop)).data).toMatchObject([{ availability: 50 }])
  expect((await json('alert-channels list')).pagination).toMatchObject({ total: 1 })
  const logs = await json('alert-channels logs', channelId, '--status', 'failed')
  expect(logs).toMatchObject({ data: [], pagination: { total: 0 } })
})

test.each([
  ['checks list', 'of 12 checks'],
  ['checks get SHOP', 'RECENT RESULTS'],
  ['checks get SHOP --group-by location', 'north'],
  ['checks stats', '50.00%'],
])('%s prints tables', async (line, shown) => {
  const done = await run(line.replace('SHOP', shop))
  expect(done).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(shown) })
})

test('a command that the platform does not support says what to use', async () => {
  const done = await run('checks run --detach --check-id', shop)
  expect(done.exitCode).not.toBe(0)
  expect(done.stdout + done.stderr).toContain('/v1/checks/{id}/runs')
})
