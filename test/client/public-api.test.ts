// A platform, or a proxy in front of it, may repeat what it was sent: no message shows the key or the proxy's password.
import { expect, test } from 'vitest'
import { askPublicApi } from '../../src/client/public-api.ts'
import * as z from 'zod'
import { startHttpServer } from '../support/test-server.ts'

const KEY = 'pu_0123456789abcdef0123456789abcdef'
const PASSWORD = 'p@ss w0rd!'

test.each([
  ['as they are', (one: string) => one],
  ['in base64', (one: string) => Buffer.from(one).toString('base64')],
  ['cut short', (one: string) => `${one.slice(0, -2)}…`],
])('key and password are repeated %s', async (_, spelled) => {
  await using server = await startHttpServer((_request, response) => {
    const message = `no access with ${spelled(KEY)} by ${spelled(PASSWORD)}`
    response.writeHead(401).end(JSON.stringify({ message }))
  })
  const target = {
    platformUrl: `http://${server.authority}`,
    accountId: '',
    apiKey: KEY,
    proxyUrl: `http://me:${encodeURIComponent(PASSWORD)}@127.0.0.1:1`,
    noProxy: ['*'],
    keyFix: 'set OWN_KEY',
  }
  const asked = askPublicApi(target, { method: 'GET', path: '/v1/checks' }, z.object({}))
  const error = (await asked.catch((thrown: unknown) => thrown)) as Error
  expect(error).toMatchObject({ code: 'refused' })
  const { message } = error
  expect(message).toMatch(/^no access with .*; set OWN_KEY$/)
  for (const secret of [KEY, PASSWORD]) {
    expect(message).not.toContain(spelled(secret).slice(0, -4))
  }
})
