// Aim: simple probes of load balancers are answered, and requests that HTTP forbids are refused.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createHttpServer } from '../../../src/platform/http/http-server.ts'
import { createProbes } from '../../../src/platform/http/probes.ts'
import { sendRaw } from '../../support/raw-http.ts'

const probes = createProbes({
  phase: () => 'running',
  waitingFor: () => '',
  databaseProblem: async () => undefined,
  facts: () => ({ version: '1.2.3' }),
  metrics: async () => 'a 1\n',
})
const server = createHttpServer(probes.fetch)
let port: number

beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  ;({ port } = server.address() as AddressInfo)
})
afterAll(() => server.close())

test.each(['/-/readiness', '/-/liveness', '/health', '/metrics'])(
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

test('HTTP/1.1 without Host is refused', async () => {
  const text = 'GET /-/readiness HTTP/1.1\r\nConnection: close\r\n\r\n'
  expect((await sendRaw(text, { port })).status).toBe(400)
})
