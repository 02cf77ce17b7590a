// Aim: simple probes of load balancers are answered, and requests that HTTP forbids are refused.
import { afterAll, expect, test } from 'vitest'
import { createHttpServer } from '../../../src/platform/http/http-server.ts'
import { createProbes } from '../../../src/platform/http/probes.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { listening } from '../../support/test-server.ts'

const probes = createProbes({
  phase: () => 'running',
  waitingFor: () => '',
  databaseProblem: async () => undefined,
  facts: () => ({ version: '1.2.3' }),
})
const server = await listening(createHttpServer(probes.fetch))
const { port } = server
afterAll(() => server.close())

test.each(['/-/readiness', '/-/liveness', '/health'])(
  'HTTP/1.0 without Host is answered on %s',
  async (path) => {
    const { status, text } = await sendRaw(`GET ${path} HTTP/1.0\r\n\r\n`, { port })
    expect(status).toBe(200)
    expect(text).not.toContain('chunked')
  },
)

test('HTTP/1.0 with an empty Host is answered', async () => {
  const { status } = await sendRaw('GET /-/readiness HTTP/1.0\r\nHost:\r\n\r\n', { port })
  expect(status).toBe(200)
})
