// Aim: a client that reads all pages of incidents sees every lasting one exactly once and newest first, despite
// concurrent inserts and deletes; parameters are as documented.
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import {
  addClient,
  UNLIMITED,
  usePublicApi,
  type ApiClient,
} from '../../support/platform/public-api.ts'

const INCIDENTS = '/v1/status-pages/incidents'

interface Page {
  length: number
  entries: { id: string }[]
  nextId: string | null
}

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const { database, api } = usePublicApi({ defaultLimit: UNLIMITED }, server)

  /** Inserts incidents by SQL: `created` are ISO texts with microseconds. */
  const insert = async (accountId: string, created: string[]) => {
    const ids = created.map((): string => randomUUID())
    await database().database.query(
      `insert into incidents (id, account_id, name, severity, last_update_status, created_at)
       select one.id, $1, 'x', 'MINOR', 'RESOLVED', one.created
       from unnest($2::uuid[], $3::timestamptz[]) one (id, created)`,
      [accountId, ids, created],
    )
    return ids
  }
  const walk = async (client: ApiClient, limit: number, between = async () => {}) => {
    const seen: string[] = []
    let nextId: string | null = null
    do {
      const cursor: string = nextId === null ? '' : `&nextId=${nextId}`
      const path = `${INCIDENTS}?limit=${limit}${cursor}`
      const { status, body } = await client.call<Page>('GET', path)
      expect(status).toBe(200)
      expect(body.length).toBe(body.entries.length)
      expect(body.length).toBeLessThanOrEqual(limit)
      seen.push(...body.entries.map(({ id }) => id))
      nextId = body.nextId
      await between()
    } while (nextId !== null)
    return seen
  }

  test('the default limit is 20', async () => {
    const client = await addClient(api, database().database)
    await insert(client.accountId, Array<string>(21).fill('2026-01-01T00:00:00Z'))
    const { body } = await client.call<Page>('GET', INCIDENTS)
    expect(body.length).toBe(20)
    expect(body.nextId).toEqual(expect.any(String))
    const rest = await client.call<Page>('GET', `${INCIDENTS}?nextId=${body.nextId}`)
    expect(rest.body).toMatchObject({ length: 1, nextId: null })
  })

  test('nextId is null when the last page is full', async () => {
    const client = await addClient(api, database().database)
    await insert(client.accountId, Array<string>(20).fill('2026-01-01T00:00:00Z'))
    const { body } = await client.call<Page>('GET', INCIDENTS)
    expect(body).toMatchObject({ length: 20, nextId: null })
  })

  const limits = "0 101 -1 1.5 ten 1e1 99999999999999999999 %F0%28 '1'".split(' ')
  const cursors = ['', 'x', '%00', 'A'.repeat(34), '_'.repeat(34)]
  test.each([
    ...['', ...limits].map((one) => [`limit=${one}`, 400]),
    ...cursors.map((one) => [`nextId=${one}`, 400]),
    ...['limit=1&limit=2', 'other=1', 'a&b=&=c'].map((one) => [one, 400]),
    ...['limit=1', 'limit=100', 'limit=007', ''].map((one) => [one, 200]),
  ])('%s is answered with %s', async (query, status) => {
    const client = await addClient(api, database().database)
    expect((await client.call('GET', `${INCIDENTS}?${query}`)).status).toBe(status)
  })

  test('the order is newest first to the microsecond, and by id within it', async () => {
    const client = await addClient(api, database().database)
    const micros = ['000001', '000002', '999999', '123456', '123457', '000002']
    const created = micros.map((part) => `2026-01-01T00:00:00.${part}Z`)
    const ids = await insert(client.accountId, created)
    const expected = ids
      .map((id, index) => ({ id, created: created[index] ?? '' }))
      .sort((a, b) => (b.created + b.id < a.created + a.id ? -1 : 1))
      .map(({ id }) => id)
    for (const limit of [1, 2, 100]) expect(await walk(client, limit)).toEqual(expected)
  })

  test('a cursor stays valid when its row is deleted', async () => {
    const client = await addClient(api, database().database)
    const ids = await insert(client.accountId, ['2026-01-03Z', '2026-01-02Z', '2026-01-01Z'])
    const { body } = await client.call<Page>('GET', `${INCIDENTS}?limit=1`)
    await client.call('DELETE', `${INCIDENTS}/${ids[0]}`)
    await client.call('DELETE', `${INCIDENTS}/${ids[1]}`)
    const rest = await client.call<Page>('GET', `${INCIDENTS}?limit=1&nextId=${body.nextId}`)
    expect(rest.body.entries.map(({ id }) => id)).toEqual([ids[2]])
  })

  test('a walk while others insert and delete sees each lasting incident once', async () => {
    const client = await addClient(api, database().database)
    const { accountId } = client
    // Many share an instant, so that the id decides the order.
    const created = Array.from({ length: 100 }, (_, n) => `2026-01-01T00:00:00.00000${n % 7}Z`)
    const lasting = new Set(await insert(accountId, created))
    const passing = await insert(accountId, created.slice(0, 50))
    const stop = new AbortController()
    const churn = async () => {
      while (!stop.signal.aborted) {
        const id = passing.pop()
        if (id !== undefined) {
          await database().database.query('delete from incidents where id = $1', [id])
        }
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
    const client = await addClient(api, database().database)
    const ids = await insert(client.accountId, ['2026-01-03Z', '2026-01-02Z', '2026-01-01Z'])
    const enlarge = 'update incidents set update_bytes = 5000000 where id = any ($1)'
    await database().database.query(enlarge, [ids])
    const { body } = await client.call<Page>('GET', INCIDENTS)
    expect(body.length).toBe(2)
    expect(await walk(client, 20)).toEqual(ids)
  })
})
