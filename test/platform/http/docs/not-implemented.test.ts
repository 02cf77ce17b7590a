// Aim: a client that asks for an operation of the public document which is not here learns what to use instead.
import { expect, test } from 'vitest'
import { usePublicApi } from '../../../support/platform/public-api.ts'

const { api } = usePublicApi()
const ID = '0b0f1c3e-6a55-4d3f-9a5e-0a6f6d2f9a01'

test.each([
  ['GET', '/v1/accounts', 'GET /v1/accounts/me'],
  ['GET', `/v1/accounts/${ID}/entitlements`, 'There are no plans'],
  ['PATCH', `/v1/accounts/${ID}/members/${ID}`, 'vedette keys'],
  ['GET', `/v2/check-groups/${ID}/checks/${ID}`, '/v1/checks?groupId='],
  ['GET', `/v1/check-results/${ID}/${ID}/assets`, 'GET /v1/artifacts/{id}'],
  ['POST', '/v2/check-sessions/trigger', '/v1/checks/{id}/runs'],
  ['POST', '/v1/checks', 'POST /v1/checks/url'],
  ['GET', `/v3/checks/${ID}?limit=1`, 'GET /v1/checks/{id}'],
  ['PUT', '/v1/dashboards/x', 'There are no dashboards'],
  ['DELETE', `/v1/incidents/${ID}`, '/v1/status-pages/incidents'],
  ['GET', '/v1/runtimes/2026.04', 'GET /v1/runtimes'],
  ['GET', '/v1/static-ipv6s-by-region', 'GET /v1/private-locations'],
  ['GET', `/v1/test-session-error-groups/${ID}`, 'vedette check'],
  ['POST', '/next/checkly-storage/upload-code-bundle', 'POST /v1/apply'],
])('%s %s answers 501 with what to use', async (method, path, instead) => {
  const answer = await fetch(`${api.url}${path}`, { method })
  expect(answer.status).toBe(501)
  expect(await answer.json()).toEqual({
    statusCode: 501,
    error: 'Not Implemented',
    message: expect.stringContaining(instead),
  })
})

test.each(['/v1/nothing', '/v1', '/v1/incidentsx', '/v1/checks/nothing'])(
  '%s is an unknown route',
  async (path) => {
    expect((await fetch(`${api.url}${path}`)).status).toBe(404)
  },
)
