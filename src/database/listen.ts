// Subscribes to notifications of other processes (LISTEN) on its own connection, which is reopened whenever it is
// lost. A heartbeat detects connections that are lost without a close, as in a fail-over.
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { clientConfig, type Database, type DatabaseAddress } from './database.ts'

export interface ListenOptions {
  address: DatabaseAddress
  /** Names that need no quoting. */
  channel: string
  /** Called with each notification, and without one after (re)connecting: some may have been missed. */
  onNews: (payload?: string) => void
  signal: AbortSignal
  /** Interval of heartbeats to the server. */
  heartbeatMs?: number
  /** How long the server may take to answer. */
  answerMs?: number
  /** A pool on the same server: its idle connections are closed when this one stops answering. */
  database?: Pick<Database, 'markReceived'>
}

const AGAIN_MS = 500
const HEARTBEAT_MS = 10_000
const ANSWER_MS = 2_000

/** Listens until the signal fires; resolves then, and never rejects. */
export async function listen(options: ListenOptions): Promise<void> {
  const { signal } = options
  while (!signal.aborted) {
    await listenOnce(options).catch(() => undefined)
    await sleep(AGAIN_MS, undefined, { signal }).catch(() => undefined)
  }
}

/** Rejects when there is no connection; resolves when it is lost or no longer wanted. */
async function listenOnce(options: ListenOptions): Promise<void> {
  const { address, signal } = options
  const socket = new Socket()
  const client = new Client({
    ...clientConfig(address),
    application_name: 'vedette listener',
    stream: () => socket,
  })
  // The driver's own end() leaves a connect() that is under way without an answer for ever.
  const over = new Promise<void>((resolve) => {
    socket.once('close', () => resolve())
    client.on('error', () => resolve())
  })
  const end = () => void socket.destroy()
  const ended = new AbortController()
  signal.addEventListener('abort', end, { once: true })
  try {
    if (signal.aborted) return
    const listening = begin(client, options).then(() => heartbeat(client, options, ended.signal))
    await Promise.race([listening, over])
  } finally {
    signal.removeEventListener('abort', end)
    ended.abort()
    end()
  }
}

async function begin(
  client: Client,
  { channel, onNews, answerMs = ANSWER_MS }: ListenOptions,
): Promise<void> {
  await client.connect()
  client.on('notification', ({ payload }) => onNews(payload))
  const ask = { text: `listen ${channel}`, query_timeout: answerMs }
  await client.query(ask)
  onNews()
}

/** Rejects when an answer is overdue; what the pool waits for from the same server is then lost, too. */
async function heartbeat(
  client: Client,
  { heartbeatMs = HEARTBEAT_MS, answerMs = ANSWER_MS, database }: ListenOptions,
  signal: AbortSignal,
): Promise<void> {
  const beat = { text: 'select 1', query_timeout: answerMs }
  for (;;) {
    await sleep(heartbeatMs, undefined, { signal })
    const cutIdle = database?.markReceived()
    await client.query(beat).catch((error: unknown) => {
      cutIdle?.()
      throw error
    })
  }
}
