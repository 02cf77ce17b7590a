// Aim: a check that no agent runs never looks as if it passed, and none is created that could never run.
import { beforeAll, describe, expect, test } from 'vitest'
import { CHECK_UNPLACED, HEARTBEAT_UNWATCHED } from '../../../src/contract/unwatched.ts'
import { createCipher } from '../../../src/platform/secrets/cipher.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import { HEARTBEAT_BODY, storeHeartbeat } from '../../support/platform/stored-heartbeat.ts'
import { makeLocation } from '../../support/platform/named-locations.ts'
import { addClient, usePublicApi } from '../../support/platform/public-api.ts'

const cipher = createCipher('a secret of these tests')

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const { database, api, client } = usePublicApi({ cipher }, server)
  beforeAll(() => makeLocation(client, 'north'))

  test('no heartbeat check is created', async () => {
    const refused = await client.call('POST', '/v1/checks/heartbeat', { body: HEARTBEAT_BODY })
    expect(refused.status).toBe(501)
    expect(refused.body).toEqual({
      statusCode: 501,
      error: 'Not Implemented',
      message: HEARTBEAT_UNWATCHED,
    })
    expect((await client.call('GET', '/v1/checks?checkType=HEARTBEAT')).body).toEqual([])
  })

  test('a heartbeat check of an earlier version says that it is not watched', async () => {
    const parts = { database: database().database, cipher }
    const other = await addClient(api, parts.database)
    const id = await storeHeartbeat(parts, other.accountId)
    const { body: made } = await other.call('GET', `/v1/checks/${id}`)
    expect(made).toMatchObject({ checkType: 'HEARTBEAT', warning: HEARTBEAT_UNWATCHED })
    expect((await other.call('GET', '/v1/checks')).body).toEqual([made])
    const put = await other.call('PUT', `/v1/checks/heartbeat/${id}`, { body: made })
    expect(put.body).toEqual({ ...made, updated_at: put.body.updated_at })
    const status = await other.call('GET', `/v1/check-statuses/${id}`)
    expect(status.body).toMatchObject({
      verdict: null,
      hasErrors: true,
      warning: HEARTBEAT_UNWATCHED,
    })
    expect((await other.call('GET', '/v1/check-statuses')).body).toEqual([status.body])
    await other.call('PATCH', `/v1/checks/${id}`, { body: { activated: false } })
    const { body: off } = await other.call('GET', `/v1/check-statuses/${id}`)
    expect(off).toMatchObject({ activated: false, hasErrors: false })
    expect(off).not.toHaveProperty('warning')
  })

  test('a check in public locations only does not look as if it passed', async () => {
    const { body: check } = await client.call('POST', '/v1/checks/url', {
      body: { name: 'Shop', locations: ['eu-west-1'], request: { url: 'https://example.org/' } },
    })
    const path = `/v1/check-statuses/${check.id}`
    expect((await client.call('GET', path)).body).toMatchObject({
      verdict: null,
      hasErrors: true,
      warning: CHECK_UNPLACED,
    })
    const body = { privateLocations: ['north'] }
    await client.call('PATCH', `/v1/checks/${check.id}`, { body })
    const { body: placed } = await client.call('GET', path)
    expect(placed).toMatchObject({ verdict: null, hasErrors: false })
    expect(placed).not.toHaveProperty('warning')
  })
})
