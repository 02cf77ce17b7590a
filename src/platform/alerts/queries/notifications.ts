// Subscribes to what other processes announce on the database, on a connection of its own that is made anew
// whenever it is lost. A heartbeat finds connections that are lost without a word, as in a fail-over.
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { clientConfig, type DatabaseAddress } from '../../../database/database.ts'

/** What to listen to. */
export interface ListenOptions {
  address: DatabaseAddress
  /** Names that need no quoting. */
  channel: string
  /** Called with each announcement, and with nothing once the connection stands: some may have been missed. */
  onNews: (payload?: string) => void
  /** Ends it. */
  signal: AbortSignal
  /** Between questions to a server that may be gone without a word. */
  heartbeatMs?: number
}

const AGAIN_MS = 1000
const HEARTBEAT_MS = 10_000
/** An answer that takes longer never comes. */
const ANSWER_MS_MAX = 3_000

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
  const { address, channel, onNews, signal, heartbeatMs = HEARTBEAT_MS } = options
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
    const listening = begin(client, channel, onNews).then(() =>
      heartbeat(client, heartbeatMs, ended.signal),
    )
    await Promise.race([listening, over])
  } finally {
    signal.removeEventListener('abort', end)
    ended.abort()
    end()
  }
}

async function begin(
  client: Client,
  channel: string,
  onNews: ListenOptions['onNews'],
): Promise<void> {
  await client.connect()
  client.on('notification', ({ payload }) => onNews(payload))
  await client.query(`listen ${channel}`)
  onNews()
}

/** Rejects when an answer is overdue. */
async function heartbeat(client: Client, everyMs: number, signal: AbortSignal): Promise<void> {
  const beat = { text: 'select 1', query_timeout: ANSWER_MS_MAX }
  while (!signal.aborted) {
    await sleep(everyMs, undefined, { signal })
    await client.query(beat)
  }
}
