// Hears what other processes announce on the database, on a connection of its own that is made anew
// whenever it is lost.
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { clientConfig, type DatabaseAddress } from './database.ts'

/** What to listen to. */
export interface ListenOptions {
  address: DatabaseAddress
  /** Names that need no quoting. */
  channel: string
  /** Called with each announcement, and with nothing once the connection stands: some may have been missed. */
  onNews: (payload?: string) => void
  /** Ends it. */
  signal: AbortSignal
}

const AGAIN_MS = 1000

/** Listens until the signal fires; resolves then, and never rejects. */
export async function listen(options: ListenOptions): Promise<void> {
  const { signal } = options
  while (!signal.aborted) {
    await listenOnce(options).catch(() => undefined)
    await sleep(AGAIN_MS, undefined, { signal }).catch(() => undefined)
  }
}

/** Rejects when there is no connection; resolves when it is lost or no longer wanted. */
async function listenOnce({ address, channel, onNews, signal }: ListenOptions): Promise<void> {
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
  signal.addEventListener('abort', end, { once: true })
  try {
    if (signal.aborted) return
    const standing = begin(client, channel, onNews)
    await Promise.race([standing, over])
    await over
  } finally {
    signal.removeEventListener('abort', end)
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
