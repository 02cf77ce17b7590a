// Probes and metrics are only read.
import { expect, test } from 'vitest'
import { createMetricsApp, createProbes } from '../../../src/platform/http/probes.ts'

const probes = createProbes({
  phase: () => 'running',
  waitingFor: () => '',
  databaseProblem: () => Promise.resolve(undefined),
  facts: () => ({}),
})
const metrics = createMetricsApp(() => Promise.resolve('a 1\n'))

test.each([
  ['/-/liveness', probes],
  ['/-/readiness', probes],
  ['/health', probes],
  ['/metrics', metrics],
])('another method on %s is 405', async (path, app) => {
  for (const method of ['GET', 'HEAD'])
    expect((await app.request(path, { method })).status).toBe(200)
  const refused = await app.request(path, { method: 'POST' })
  expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
})
