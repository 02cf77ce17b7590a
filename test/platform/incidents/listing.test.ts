// Aim: a client that reads all pages of incidents sees every lasting one exactly once and newest first, despite
// concurrent inserts and deletes; parameters are as documented.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { servePublicApi, type ApiClient } from '../../support/platform/public-api.ts'

const INCIDENTS = '/v1/status-pages/incidents'

interface Page {
  length: number
  entries: { id: string }[]
  nextId: string | null
}

const database = useDatabase(DATABASE_SERVERS[0])
const query = (text: string, values: unknown[]) => database().database.query(text, values)
const { addClient } = servePublicApi(database)

/** Inserts incidents by SQL: `created` are ISO texts with microseconds. */
const insert = async (accountId: string, created: string[]) => {
  const ids = created.map((): string => randomUUID())
  await query(
    `insert into incidents (id, account_id, name, severity, last_update_status, created_at)
     select one.id, $1, 'x', 'MINOR', 'RESOLVED', one.created
     from unnest($2::uuid[], $3::timestamptz[]) one (id, created)`,
    [accountId, ids, created],
  )
  return ids
}
/** A client, and the incidents of its account. */
const withIncidents = async (...created: string[]) => {
  const client = await addClient()
  return { client, ids: await insert(client.accountId, created) }
}
const days = ['2026-01-03Z', '2026-01-02Z', '2026-01-01Z']
const list = async (client: ApiClient, asked = '') =>
  client.call<Page>('GET', `${INCIDENTS}?${asked}`)
const walk = async (client: ApiClient, limit: number) => {
  const seen: string[] = []
  let nextId: string | null = null
  do {
    const cursor: string = nextId === null ? '' : `&nextId=${nextId}`
    const { status, body } = await list(client, `limit=${limit}${cursor}`)
    expect([status, body.length]).toEqual([200, body.entries.length])
    expect(body.length).toBeLessThanOrEqual(limit)
    seen.push(...body.entries.map(({ id }) => id))
    nextId = body.nextId
  } while (nextId !== null)
  return seen
}

test('the default limit is 20', async () => {
  const { client } = await withIncidents(...Array<string>(21).fill('2026-01-01T00:00:00Z'))
  const { body } = await list(client)
  expect(body).toMatchObject({ length: 20, nextId: expect.any(String) })
  const rest = await list(client, `nextId=${body.nextId}`)
  expect(rest.body).toMatchObject({ length: 1, nextId: null })
})

test('nextId is null when the last page is full', async () => {
  const { client } = await withIncidents(...days)
  expect((await list(client, 'limit=3')).body).toMatchObject({ length: 3, nextId: null })
})

const limits = "0 101 -1 1.5 ten 1e1 99999999999999999999 %F0%28 '1'".split(' ')
const cursors = ['', 'x', '%00', 'A'.repeat(34), '_'.repeat(34)]
test.each([
  ...['', ...limits].map((one) => [`limit=${one}`, 400]),
  ...cursors.map((one) => [`nextId=${one}`, 400]),
  ...['limit=1&limit=2', 'other=1', 'a&b=&=c'].map((one) => [one, 400]),
  ...['limit=1', 'limit=100', 'limit=007', ''].map((one) => [one, 200]),
])('%s is answered with %s', async (asked, status) => {
  expect((await list(await addClient(), String(asked))).status).toBe(status)
})

test('the order is newest first to the microsecond, and by id within it', async () => {
  const micros = ['000001', '000002', '999999', '123456', '123457', '000002']
  const { client, ids } = await withIncidents(
    ...micros.map((part) => `2026-01-01T00:00:00.${part}Z`),
  )
  const expected = ids
    .map((id, n) => `${micros[n]} ${id}`)
    .toSorted()
    .toReversed()
    .map((one) => one.split(' ')[1])
  for (const limit of [1, 2, 100]) expect(await walk(client, limit)).toEqual(expected)
})

test('a cursor stays valid when its row is deleted', async () => {
  const { client, ids } = await withIncidents(...days)
  const { body } = await list(client, 'limit=1')
  for (const id of ids.slice(0, 2)) await client.call('DELETE', `${INCIDENTS}/${id}`)
  const rest = await list(client, `limit=1&nextId=${body.nextId}`)
  expect(rest.body.entries.map(({ id }) => id)).toEqual([ids[2]])
})

test('a walk while others insert and delete sees each lasting incident once', async () => {
  const client = await addClient()
  const { accountId } = client
  // Many share an instant, so that the id decides the order.
  const created = Array.from({ length: 100 }, (_, n) => `2026-01-01T00:00:00.00000${n % 7}Z`)
  const lasting = new Set(await insert(accountId, created))
  const passing = await insert(accountId, created.slice(0, 50))
  const stop = new AbortController()
  const churn = async () => {
    while (!stop.signal.aborted) {
      const id = passing.pop()
      if (id !== undefined) await query('delete from incidents where id = $1', [id])
      const [fresh] = await insert(accountId, [created[passing.length % 7] ?? ''])
      passing.unshift(fresh ?? '')
    }
  }
  const others = [churn(), churn(), churn()]
  try {
    for (const limit of [1, 7, 20, 100]) {
      const seen = await walk(client, limit)
      expect(new Set(seen).size).toBe(seen.length)
      expect(seen.filter((id) => lasting.has(id))).toHaveLength(lasting.size)
    }
  } finally {
    stop.abort()
    await Promise.all(others)
  }
})

test('a page with very much text ends early and leads on', async () => {
  const { client, ids } = await withIncidents(...days)
  await query('update incidents set update_bytes = 5000000 where id = any ($1)', [ids])
  expect((await list(client)).body.length).toBe(2)
  expect(await walk(client, 20)).toEqual(ids)
})
