// Aim: a check that no agent runs never looks as if it passed.
import { beforeAll, describe, expect, test } from 'vitest'
import { CHECK_UNPLACED } from '../../../src/contract/unwatched.ts'
import { createCipher } from '../../../src/platform/secrets/cipher.ts'
import { DATABASE_SERVERS } from '../../support/database/database.ts'
import { makeLocation } from '../../support/platform/named-locations.ts'
import { usePublicApi } from '../../support/platform/public-api.ts'

const cipher = createCipher('a secret of these tests')

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const { client } = usePublicApi({ cipher }, server)
  beforeAll(() => makeLocation(client, 'north'))

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
