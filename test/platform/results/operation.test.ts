// Aim: a batch is accepted compressed or plain, within its bounds, only with a key of its location. A broken or too
// large one or a gzip bomb is refused as a whole, and faulty agents do not fill the log.
import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { beforeAll, expect, test } from 'vitest'
import {
  PROTOCOL_BOUNDS,
  type ResultsAnswer,
} from '../../../src/contract/protocol/agent-protocol.ts'
import { ensurePartitions } from '../../../src/platform/results/queries/result-partitions.ts'
import { useAgentsApi } from '../../support/platform/agents-api.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { addLocation } from '../../support/platform/locations.ts'
import { addMonitor, type PlacedMonitor, resultAt } from '../../support/platform/placed-monitors.ts'

const DAY_MS = 86_400_000
const agentId = randomUUID()

const use = useDatabase(DATABASE_SERVERS[0])
const { api } = useAgentsApi(use)
let key: string
let monitor: PlacedMonitor

beforeAll(async () => {
  const { database } = use()
  await ensurePartitions(database, Date.now() - 2 * DAY_MS, Date.now() + DAY_MS)
  const here = await addLocation(database)
  monitor = await addMonitor(database, here, { fromMs: Date.now() - DAY_MS, everyMs: 10_000 })
  key = here.secret
})

const post = async (body: string | Buffer<ArrayBuffer>, headers: Record<string, string> = {}) => {
  const response = await fetch(`${api.url}/agent/v1/results`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...headers,
    },
    body,
  })
  const text = await response.text()
  api.check('POST', '/agent/v1/results', {
    status: response.status,
    headers: response.headers,
    text,
  })
  return { status: response.status, body: JSON.parse(text) as ResultsAnswer }
}
const packed = (value: unknown) => gzipSync(JSON.stringify(value))
const GZIP = { 'content-encoding': 'gzip' }
const results = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, n) => resultAt(monitor, from + n))

test('a batch is accepted plain and compressed, and recorded once', async () => {
  const plain = await post(JSON.stringify({ agentId, results: results(0, 10) }))
  expect(plain).toEqual({ status: 200, body: { recorded: 10, known: 0, refused: [] } })
  const again = await post(packed({ agentId, results: results(0, 1000) }), GZIP)
  expect(again).toEqual({ status: 200, body: { recorded: 990, known: 10, refused: [] } })
})

const bomb = gzipSync(Buffer.alloc(PROTOCOL_BOUNDS.batchUnpackedBytesMax + 1, 32))
const wrong: [string, () => string | Buffer<ArrayBuffer>, Record<string, string>, number][] = [
  ['no JSON', () => '{', {}, 400],
  ['no batch', () => '[]', {}, 400],
  ['no agent', () => JSON.stringify({ results: [] }), {}, 400],
  ['no gzip', () => 'plain', GZIP, 400],
  ['a torn gzip', () => packed({ agentId, results: [] }).subarray(0, -9), GZIP, 400],
  ['a bomb', () => bomb, GZIP, 413],
  ['too many bytes', () => 'x'.repeat(PROTOCOL_BOUNDS.batchBytesMax + 1), {}, 413],
  ['too many results', () => packed({ agentId, results: Array(1001).fill(0) }), GZIP, 413],
  ['another coding', () => '{}', { 'content-encoding': 'br' }, 415],
  ['another type', () => '{}', { 'content-type': 'text/plain' }, 415],
  ['another key', () => '{}', { authorization: 'Bearer pl_unknown' }, 401],
]

test.each(wrong)('%s is refused', async (_, body, headers, status) => {
  expect((await post(body(), headers)).status).toBe(status)
})

test('bytes that are not UTF-8 affect one result at most', async () => {
  const text = JSON.stringify({ agentId, results: [...results(2000, 2001), { monitorId: '#' }] })
  const body = Buffer.from(text.replace('#', '\xFF'), 'latin1')
  expect(await post(body)).toMatchObject({
    body: { recorded: 1, refused: [{ index: 1, code: 'MALFORMED' }] },
  })
})
