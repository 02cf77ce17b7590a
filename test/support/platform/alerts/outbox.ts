// The outbox of an account: notifications that a test adds, senders as in real processes, and receivers with
// configurable answers.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect } from 'vitest'
import type { AlertPayload } from '../../../../src/contract/api/alert-payload.ts'
import { sendWebhooks, type OutboxOptions } from '../../../../src/platform/alerts/webhook-outbox.ts'
import { insertNotifications } from '../../../../src/platform/alerts/queries/alert-notifications.ts'
import { collectingLog } from '../../collecting-log.ts'
import { useDatabase } from '../../database/database.ts'
import { startHttpServer } from '../../test-server.ts'
import { servePublicApi, TEST_CIPHER, type ApiClient } from '../public-api.ts'

/** A row of the outbox. */
export interface OutboxRow {
  id: string
  title: string
  state: string
  attempts: number
  status: number | null
  message: string | null
}

/** Fields of a notification that a test sets; the rest has defaults. */
export type GivenPayload = Partial<AlertPayload>

/** A received webhook. */
export interface Arrived {
  method: string
  url: string
  headers: IncomingMessage['headers']
  body: string
  /** The body as JSON. */
  payload: AlertPayload & { id: string }
}

/** Answers the n-th webhook, from 0. */
export type Answer = (response: ServerResponse, n: number, arrived: Arrived) => void

/** Answers with these statuses in turn, then always with the last one. */
export const statuses =
  (...codes: number[]): Answer =>
  (response, n) =>
    void response.writeHead(codes[Math.min(n, codes.length - 1)] ?? 500).end()

/** An outbox for the tests of a file, with a fresh account for each test. */
export function useOutbox() {
  const database = useDatabase()
  const db = () => database().database
  const { addClient } = servePublicApi(database)
  let client: ApiClient
  let stopping = new AbortController()
  let sending: Promise<void>[] = []
  /** Closed after the test. */
  const opened: AsyncDisposable[] = []
  beforeEach(async () => {
    client = await addClient()
  })
  afterEach(async () => {
    stopping.abort()
    await Promise.all(sending)
    sending = []
    stopping = new AbortController()
    await Promise.all(opened.splice(0).map((one) => one[Symbol.asyncDispose]()))
  })
  /** The rows of the account, oldest first. */
  const rows = () =>
    db().query<OutboxRow>(
      `select id, payload ->> 'title' as title, state, attempts::int, status, message
       from alert_notifications where account_id = $1 order by seq`,
      [client.accountId],
    )
  /** Starts a sender as a process does; by default three tries with a minimal pause. */
  const start = (more: Partial<OutboxOptions> = {}) => {
    const { log } = collectingLog()
    const againMs = (attempt: number) => (attempt < 3 ? 10 : undefined)
    const options = { database: db(), cipher: TEST_CIPHER, log, now: Date.now }
    sending.push(sendWebhooks({ ...options, againMs, restMs: 10, ...more }, stopping.signal))
  }
  const receiver = async (answer: Answer = statuses(204)) => {
    const arrived: Arrived[] = []
    const server = await startHttpServer((request, response) => {
      const { method = '', url = '', headers } = request
      const read = async () => {
        const body = await text(request)
        const payload = (body.startsWith('{') ? JSON.parse(body) : {}) as Arrived['payload']
        const one = { method, url, headers, body, payload }
        answer(response, arrived.push(one) - 1, one)
      }
      read().catch(() => response.destroy())
    })
    opened.push(server)
    return {
      url: `http://${server.authority}/hook`,
      arrived,
      titles: () => arrived.map(({ payload }) => payload.title),
      /** Resolves when `count` have arrived in total. */
      waitFor: (count: number) => expect.poll(() => arrived.length).toBeGreaterThanOrEqual(count),
    }
  }
  /** Makes a channel; returns its id. */
  const channel = async (config: object) => {
    const body = { type: 'WEBHOOK', config: { name: 'x', webhookSecret: 'shh', ...config } }
    const made = await client.call('POST', '/v1/alert-channels', { body })
    expect([made.status, made.status === 201 ? '' : made.text]).toEqual([201, ''])
    return made.body.id as number
  }
  /** Puts notifications of one topic into the outbox. */
  const post = (
    channelId: number,
    titles: readonly (string | GivenPayload)[],
    topic: string = randomUUID(),
  ) => {
    const { accountId } = client
    const common = { accountId, channelId, monitorId: null, topic }
    const all = titles.map((given) => ({ ...common, payload: payloadOf(accountId, given) }))
    return insertNotifications(db(), all)
  }
  /** A receiver, and one notification for it in the outbox. */
  const posted = async (answer?: Answer) => {
    const to = await receiver(answer)
    await post(await channel({ url: to.url }), ['a'])
    return to
  }
  return {
    db,
    client: () => client,
    opened,
    start,
    receiver,
    channel,
    post,
    rows,
    posted,
    /** Resolves when no notification of the account waits. */
    settled: async () => {
      for (;;) {
        const all = await rows()
        if (all.every(({ state }) => state !== 'waiting')) return all
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    },
  }
}

function payloadOf(accountId: string, given: string | GivenPayload): AlertPayload {
  const at = '2026-06-01T00:00:00.000Z'
  const id = randomUUID()
  return {
    type: 'alert.failure',
    at,
    accountId,
    title: 'Shop is failing',
    monitor: { id, name: 'Shop "A"', checkType: 'URL', tags: ['a', 'b'], group: null },
    alert: { since: at },
    locations: [{ id, name: 'North', slugName: 'north' }],
    run: null,
    incidentId: null,
    links: {},
    ...(typeof given === 'string' ? { title: given } : given),
  }
}
