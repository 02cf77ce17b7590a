// The outbox of an account: notifications that a test adds, senders as in real processes, and receivers with
// configurable answers.
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, expect } from 'vitest'
import type { AlertPayload } from '../../../../src/contract/api/alert-payload.ts'
import { sendWebhooks, type OutboxOptions } from '../../../../src/platform/alerts/webhook-outbox.ts'
import { insertNotifications } from '../../../../src/platform/alerts/queries/alert-notifications.ts'
import { collectingLog } from '../../collecting-log.ts'
import { CIPHER, startReceiver } from './alerted-account.ts'
import { useDatabase } from '../../database/database.ts'
import { servePublicApi, type ApiClient } from '../public-api.ts'

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

/** Answers with these statuses in turn, then always with the last one. */
export const statuses =
  (...codes: number[]) =>
  (response: ServerResponse, n: number) =>
    void response.writeHead(codes[Math.min(n, codes.length - 1)] ?? 500).end()

/** An outbox for the tests of a file, with a fresh account for each test. */
export function useOutbox() {
  const database = useDatabase()
  const { addClient } = servePublicApi(database)
  let client: ApiClient
  let stopping = new AbortController()
  let sending: Promise<void>[] = []
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
  const rows = () =>
    database().database.query<OutboxRow>(
      `select id, payload ->> 'title' as title, state, attempts::int, status, message
       from alert_notifications where account_id = $1 order by seq`,
      [client.accountId],
    )
  return {
    database,
    client: () => client,
    /** Closed after the test. */
    opened,
    /** Starts a sender as a process does; by default three tries with a minimal pause. */
    start: (more: Partial<OutboxOptions> = {}) => {
      const { log } = collectingLog()
      const againMs = (attempt: number) => (attempt < 3 ? 10 : undefined)
      const options = { database: database().database, cipher: CIPHER, log, now: Date.now }
      sending.push(sendWebhooks({ ...options, againMs, restMs: 10, ...more }, stopping.signal))
    },
    receiver: async (...answer: Parameters<typeof startReceiver>) => {
      const one = await startReceiver(...answer)
      opened.push(one)
      return one
    },
    /** Makes a channel; returns its id. */
    channel: async (config: object) => {
      const body = { type: 'WEBHOOK', config: { name: 'x', webhookSecret: 'shh', ...config } }
      const made = await client.call('POST', '/v1/alert-channels', { body })
      expect([made.status, made.status === 201 ? '' : made.text]).toEqual([201, ''])
      return made.body.id as number
    },
    /** Puts notifications of one topic into the outbox. */
    post: (
      channelId: number,
      titles: readonly (string | GivenPayload)[],
      topic: string = randomUUID(),
    ) =>
      insertNotifications(
        database().database,
        titles.map((given) => ({
          accountId: client.accountId,
          channelId,
          monitorId: null,
          topic,
          payload: payloadOf(client.accountId, given),
        })),
      ),
    /** The rows of the account, oldest first. */
    rows,
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
  return {
    type: 'alert.failure',
    at: '2026-06-01T00:00:00.000Z',
    accountId,
    title: 'Shop is failing',
    monitor: {
      id: randomUUID(),
      name: 'Shop "A"',
      checkType: 'URL',
      tags: ['a', 'b'],
      group: null,
    },
    alert: { since: '2026-06-01T00:00:00.000Z' },
    locations: [{ id: randomUUID(), name: 'North', slugName: 'north' }],
    run: null,
    incidentId: null,
    links: {},
    ...(typeof given === 'string' ? { title: given } : given),
  }
}
