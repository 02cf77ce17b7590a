// Subscribes to what other processes announce on the database, on a connection of its own that is made anew
// whenever it is lost. A heartbeat finds connections that are lost without a word, as in a fail-over.
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { clientConfig, type Database, type DatabaseAddress } from './database.ts'

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
  /** Its connections are cut as well when the server is found where this one was silent, and they were, too. */
  database?: Pick<Database, 'noteReceived'>
}

const AGAIN_MS = 500
const HEARTBEAT_MS = 10_000
/** An answer that takes longer never comes. */
const ANSWER_MS_MAX = 2_000

/** Listens until the signal fires; resolves then, and never rejects. */
export async function listen(options: ListenOptions): Promise<void> {
  const { signal } = options
  let cutSilent: (() => void) | undefined
  const onStanding = () => {
    cutSilent?.()
    cutSilent = undefined
    options.onNews()
  }
  while (!signal.aborted) {
    cutSilent = (await listenOnce(options, onStanding).catch(() => undefined)) ?? cutSilent
    await sleep(AGAIN_MS, undefined, { signal }).catch(() => undefined)
  }
}

/**
 * Rejects when there is no connection; resolves when it is lost or no longer wanted, and when the server falls
 * silent with the function that cuts what is silent beside it.
 */
async function listenOnce(
  options: ListenOptions,
  onStanding: () => void,
): Promise<(() => void) | undefined> {
  const { address, signal } = options
  const socket = new Socket()
  const client = new Client({
    ...clientConfig(address),
    application_name: 'vedette listener',
    stream: () => socket,
  })
  // The driver's own end() leaves a connect() that is under way without an answer for ever.
  const over = new Promise<undefined>((resolve) => {
    socket.once('close', () => resolve(undefined))
    client.on('error', () => resolve(undefined))
  })
  const end = () => void socket.destroy()
  const ended = new AbortController()
  signal.addEventListener('abort', end, { once: true })
  try {
    if (signal.aborted) return undefined
    const listening = begin(client, options).then(() => {
      onStanding()
      return heartbeat(client, options, ended.signal)
    })
    return await Promise.race([listening, over])
  } finally {
    signal.removeEventListener('abort', end)
    ended.abort()
    end()
  }
}

async function begin(client: Client, { channel, onNews }: ListenOptions): Promise<void> {
  await client.connect()
  client.on('notification', ({ payload }) => onNews(payload))
  const ask = { text: `listen ${channel}`, query_timeout: ANSWER_MS_MAX }
  await client.query(ask)
}

/** Resolves when an answer is overdue. */
async function heartbeat(
  client: Client,
  { heartbeatMs = HEARTBEAT_MS, database }: ListenOptions,
  signal: AbortSignal,
): Promise<(() => void) | undefined> {
  const beat = { text: 'select 1', query_timeout: ANSWER_MS_MAX }
  for (;;) {
    await sleep(heartbeatMs, undefined, { signal })
    const cutSilent = database?.noteReceived()
    const isAnswered = await client.query(beat).then(
      () => true,
      () => false,
    )
    if (!isAnswered) return cutSilent
  }
}
