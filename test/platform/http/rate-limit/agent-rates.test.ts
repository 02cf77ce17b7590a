// Aim: a key whose agents call without end receives the time to retry; the more agents, the more it may.
import { beforeEach, expect, test } from 'vitest'
import { AGENT_POLICIES, AGENTS_SPARE } from '../../../../src/contract/api/rate-policy.ts'
import { AgentRates } from '../../../../src/platform/http/rate-limit/agent-rates.ts'
import { startAgentsApi, type AgentsApi } from '../../../support/platform/agents-api.ts'
import { useDatabase } from '../../../support/database/database.ts'
import { FakeAgent } from '../../../support/platform/fake-agent.ts'
import { addLocation, type TestLocation } from '../../../support/platform/locations.ts'

const WINDOW_S = 10
const LIMIT = 2
const kinds = ['sync', 'presence', 'bundles', 'results', 'artifacts', 'faults'] as const
const policies = Object.fromEntries(
  kinds.map((kind) => [kind, { name: `agent-${kind}`, limit: LIMIT, windowS: WINDOW_S }]),
) as typeof AGENT_POLICIES
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
const call = (api: AgentsApi, path: string, { secret } = location) => {
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
  return fetch(`${api.url}/agent/v1/${path}`, { method: 'POST', headers, body: '{}' })
}

test('past its limit a key receives 429 and the time to retry; others are not limited', () =>
  withApi(async (api) => {
    const other = await addLocation(use().database)
    const limit = LIMIT * AGENTS_SPARE
    for (let n = 0; n < limit; n++) expect((await call(api, 'results')).status).toBe(400)
    nowMs += 2_500
    const over = await call(api, 'results')
    const { status, headers } = over
    const text = await over.text()
    api.check('post', '/agent/v1/results', { status, headers, text })
    const attributes = { policy: 'agent-results', limit, remaining: 0, windowSeconds: WINDOW_S }
    expect(status).toBe(429)
    expect(JSON.parse(text)).toMatchObject({ statusCode: 429, attributes })
    expect(headers.get('retry-after')).toBe('8')
    // Its body was not read, and must not hold the connection.
    expect(headers.get('connection')).toBe('close')
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
    const limit = LIMIT * (3 + AGENTS_SPARE)
    for (let n = 0; n <= limit; n++) statuses.push((await call(api, 'results')).status)
    expect(statuses.indexOf(429)).toBe(limit)
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
