// Aim: a status page never shows a deleted service, also when the page is written while the service is being
// deleted: the second transaction waits for the first and sees its changes.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Queryable } from '../../../src/database/database.ts'
import { deleteService } from '../../../src/platform/services/queries.ts'
import { insertStatusPage, setCards } from '../../../src/platform/status-pages/queries.ts'
import { untilHolds } from '../../support/eventually.ts'
import { usePublicApi } from '../../support/platform/public-api.ts'

const SERVICES = '/v1/status-pages/services'
const { database: use, client } = usePublicApi()

const makeService = async () =>
  (await client.call<{ id: string }>('POST', SERVICES, { body: { name: 'Web' } })).body.id

/** Resolves when a session waits for the lock of another. */
const somebodyWaits = (database: Queryable) =>
  untilHolds(async () => {
    expect(await database.query('select 1 from pg_locks where not granted')).not.toEqual([])
  })

test('a service that a page has just added is not deleted', async () => {
  const { database } = use()
  const service = await makeService()
  const { accountId } = client
  const page = { id: randomUUID(), accountId, name: 'x', url: randomUUID(), customDomain: null }
  const deleting = await database.transaction(async (tx) => {
    await insertStatusPage(tx, { ...page, looks: {} })
    await setCards(tx, page, [{ id: randomUUID(), name: 'x', serviceIds: [service] }])
    const answer = client.call('DELETE', `${SERVICES}/${service}`)
    await somebodyWaits(database)
    return { answer }
  })
  expect((await deleting.answer).status).toBe(409)
})

test('a service that has just been deleted cannot be added', async () => {
  const { database } = use()
  const service = await makeService()
  const body = { name: 'x', url: randomUUID(), cards: [{ name: 'x', services: [{ id: service }] }] }
  const writing = await database.transaction(async (tx) => {
    await deleteService(tx, client.accountId, service)
    const answer = client.call('POST', '/v1/status-pages', { body })
    await somebodyWaits(database)
    return { answer }
  })
  expect((await writing.answer).status).toBe(404)
})
