// Aim: the CLI `checkly` lists, filters and shows checks with their states, results and figures.
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { ensurePartitions } from '../../../src/platform/results/queries/result-partitions.ts'
import { checkly, installChecklyCli } from '../../support/platform/checkly-cli.ts'
import { makeLocation } from '../../support/platform/named-locations.ts'
import { addMonitor, slotOf, wireResult } from '../../support/platform/placed-monitors.ts'
import { type Loose, usePublicApi } from '../../support/platform/public-api.ts'
import { report } from '../../support/platform/recorded-results.ts'

const DAY_MS = 86_400_000
const NOW = Math.floor(Date.now() / 10_000) * 10_000
const CHECKS = 12

const { database: use, api, client } = usePublicApi()
const lacking = await installChecklyCli()
let shop: string
let channelId: number

beforeAll(async () => {
  const { database } = use()
  await ensurePartitions(database, NOW - DAY_MS, NOW + DAY_MS)
  await makeLocation(client, 'north')
  for (let n = 0; n < CHECKS; n++) {
    const body = {
      name: `Shop ${n}`,
      tags: n === 0 ? ['first'] : [],
      privateLocations: ['north'],
      request: { url: 'https://example.org/' },
    }
    const made = await client.call('POST', '/v1/checks/url', { body })
    if (n === 0) shop = made.body.id
  }
  const config = { name: 'Ops', url: 'https://example.org/', method: 'POST' }
  const channel = await client.call('POST', '/v1/alert-channels', {
    body: { type: 'WEBHOOK', config },
  })
  channelId = channel.body.id
  await recordFailure()
})
beforeEach((context) => {
  if (lacking !== undefined) context.skip(lacking)
})

/** Two results of the first check, the newer one a failure. */
async function recordFailure(): Promise<void> {
  const { database } = use()
  const [row] = await database.query<{ id: string }>(
    'select id from private_locations where account_id = $1',
    [client.accountId],
  )
  const at = { accountId: client.accountId, id: row?.id ?? '' }
  const placed = await addMonitor(database, at, { monitorId: shop, fromMs: NOW - 60_000 })
  const results = (['passed', 'failed'] as const).map((verdict, n) =>
    wireResult({ monitorId: shop, slot: slotOf(placed, n), verdict }),
  )
  const answer = await report(database, { at, results, nowMs: NOW })
  expect(answer).toMatchObject({ recorded: 2, refused: [] })
}

const run = (...args: string[]) =>
  checkly({ url: api.url, secret: client.secret, accountId: client.accountId }, args)
const json = async (...args: string[]): Promise<Loose> => {
  const done = await run(...args, '--output', 'json')
  expect(done).toMatchObject({ exitCode: 0 })
  return JSON.parse(done.stdout)
}

test('checks list pages with the total of all checks', async () => {
  const { data, pagination } = await json('checks', 'list', '--limit', '5')
  expect(data).toHaveLength(5)
  expect(pagination).toMatchObject({ total: CHECKS, totalPages: 3 })
})

test.each([
  ['--tag', 'first', ['Shop 0']],
  ['--tag', 'none', []],
  ['--status', 'failing', ['Shop 0']],
  ['--status', 'passing', []],
  ['--search', 'shop 11', ['Shop 11']],
  ['--type', 'TCP', []],
])('checks list %s %s', async (flag, value, names) => {
  const { data } = await json('checks', 'list', flag, value)
  expect(data.map((one: Loose) => one.name)).toEqual(names)
})

test('checks get shows the state, recent results and figures', async () => {
  const shown = await json('checks', 'get', shop)
  expect(shown).toMatchObject({
    check: { name: 'Shop 0' },
    status: { hasFailures: true },
    results: [
      { hasFailures: true, runLocation: 'north' },
      { hasFailures: false, runLocation: 'north' },
    ],
    analytics: { series: [{ data: [{ availability: 50 }] }] },
  })
  const one = await json('checks', 'get', shop, '--result', shown.results[0].id)
  expect(one).toMatchObject({ name: 'Shop 0', runLocation: 'north', resultType: 'FINAL' })
})

test('checks stats', async () => {
  const { data, pagination } = await json('checks', 'stats', '--tag', 'first')
  expect(data).toMatchObject([{ checkId: shop, status: 'failing', availability: 50 }])
  expect(pagination).toMatchObject({ total: 1 })
  expect((await json('checks', 'stats', shop)).data).toMatchObject([{ availability: 50 }])
})

test('alert-channels list and logs', async () => {
  expect((await json('alert-channels', 'list')).pagination).toMatchObject({ total: 1 })
  const logs = await json('alert-channels', 'logs', String(channelId), '--status', 'failed')
  expect(logs).toMatchObject({ data: [], pagination: { total: 0 } })
})

test.each([
  [['checks', 'list'], 'of 12 checks'],
  [['checks', 'get', 'SHOP'], 'RECENT RESULTS'],
  [['checks', 'get', 'SHOP', '--group-by', 'location'], 'north'],
  [['checks', 'stats'], '50.00%'],
])('%j prints tables', async (args, shown) => {
  const done = await run(...args.map((one) => (one === 'SHOP' ? shop : one)))
  expect(done).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(shown) })
})

test('a command that the platform does not support says what to use', async () => {
  const done = await run('checks', 'run', '--detach', '--check-id', shop)
  expect(done.exitCode).not.toBe(0)
  expect(done.stdout + done.stderr).toContain('/v1/checks/{id}/runs')
})
