// Aim: a key whose agents call without end receives the time to retry, and only its calls of that kind are;
// the more agents it has, the more it may, and healthy agents never reach the limit.
import { beforeEach, expect, test } from 'vitest'
import { AGENT_POLICIES, AGENTS_SPARE } from '../../../../src/contract/api/rate-policy.ts'
import { AgentRates } from '../../../../src/platform/http/rate-limit/agent-rates.ts'
import { startAgentsApi, type AgentsApi } from '../../../support/platform/agents-api.ts'
import { useDatabase } from '../../../support/database/database.ts'
import { FakeAgent } from '../../../support/platform/fake-agent.ts'
import { addLocation, type TestLocation } from '../../../support/platform/locations.ts'

const WINDOW_S = 10
const policies = {
  sync: { name: 'agent-sync', limit: 3, windowS: WINDOW_S },
  presence: { name: 'agent-presence', limit: 3, windowS: WINDOW_S },
  bundles: { name: 'agent-bundles', limit: 2, windowS: WINDOW_S },
  results: { name: 'agent-results', limit: 2, windowS: WINDOW_S },
  artifacts: { name: 'agent-artifacts', limit: 1, windowS: WINDOW_S },
  faults: { name: 'agent-faults', limit: 1, windowS: WINDOW_S },
}
const use = useDatabase()
let location: TestLocation
let nowMs = 0

beforeEach(async () => {
  location = await addLocation(use().database)
})

const withApi = async (work: (api: AgentsApi) => Promise<void>) => {
  const api = await startAgentsApi(use(), { rates: new AgentRates(policies, () => nowMs) })
  try {
    await work(api)
  } finally {
    await api.close()
  }
}
const call = (api: AgentsApi, path: string, { secret } = location) =>
  fetch(`${api.url}/agent/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: '{}',
  })

test('past its limit a key receives 429 and the time to retry; others are not limited', () =>
  withApi(async (api) => {
    const other = await addLocation(use().database)
    const limit = policies.results.limit * AGENTS_SPARE
    for (let n = 0; n < limit; n++) expect((await call(api, 'results')).status).toBe(400)
    nowMs += 2_500
    const over = await call(api, 'results')
    const { status, headers } = over
    const text = await over.text()
    api.check('post', '/agent/v1/results', { status, headers, text })
    expect(status).toBe(429)
    expect(JSON.parse(text)).toMatchObject({
      statusCode: 429,
      attributes: { policy: 'agent-results', limit, remaining: 0, windowSeconds: WINDOW_S },
    })
    expect(headers.get('retry-after')).toBe('8')
    expect((await call(api, 'sync')).status).toBe(400)
    expect((await call(api, 'results', other)).status).toBe(400)
    nowMs += 7_500
    expect((await call(api, 'results')).status).toBe(400)
  }))

test('what a key may grows with the live agents of its location', () =>
  withApi(async (api) => {
    for (let n = 0; n < 3; n++) await new FakeAgent(location.secret).sync(api)
    api.agents.forgetKeys()
    nowMs += WINDOW_S * 1000
    const statuses: number[] = []
    const limit = policies.results.limit * (3 + AGENTS_SPARE)
    for (let n = 0; n <= limit; n++) statuses.push((await call(api, 'results')).status)
    expect(statuses.indexOf(429)).toBe(limit)
  }))

test('a body that is not read does not hold the connection', () =>
  withApi(async (api) => {
    const limit = policies.sync.limit * AGENTS_SPARE
    for (let n = 0; n < limit; n++) await call(api, 'sync')
    const over = await call(api, 'sync')
    expect([over.status, over.headers.get('connection')]).toEqual([429, 'close'])
  }))

test('an agent that counts as lost after 30 s waits less than that', () => {
  for (const { windowS } of Object.values(AGENT_POLICIES)) expect(windowS).toBeLessThan(30)
})

test('windows of keys that do not call any more are deleted', () => {
  const rates = new AgentRates(policies, () => nowMs)
  const key = (n: number) => ({ id: `key ${n}`, agents: 0 }) as never
  for (let n = 0; n < 30_000; n++) {
    if (n % 1_000 === 0) nowMs += WINDOW_S * 1000
    rates.take(key(n), 'sync')
  }
  expect(rates.size).toBeLessThanOrEqual(10_000)
})
