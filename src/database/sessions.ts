// Refuses a pooler that gives each transaction another session: prepared statements and LISTEN need one that lasts.
import { Client } from 'pg'
import { clientConfig, type DatabaseAddress } from './database.ts'
import { MigrationError } from './migrate.ts'

/** Other clients of the pooler may use the same sessions in between. */
const TRIES = 5
const ANSWER_MS_MAX = 10_000

/**
 * Throws MigrationError `POOLING` when two connections that are open at once share a session of the server. Throws what
 * the database throws when it is away.
 */
export async function requireSessions(address: DatabaseAddress): Promise<void> {
  const clients = [new Client(clientConfig(address)), new Client(clientConfig(address))] as const
  try {
    for (const client of clients) {
      client.on('error', () => undefined)
      await client.connect()
    }
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const [one, other] = [await serverProcess(clients[0]), await serverProcess(clients[1])]
      if (one === other) throw new MigrationError('POOLING', TRANSACTION_POOLING)
    }
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)))
  }
}

const TRANSACTION_POOLING =
  'DATABASE_URL leads to a pooler that changes sessions between transactions; use session pooling ' +
  '(PgBouncer: pool_mode = session) or connect to PostgreSQL itself'

async function serverProcess(client: Client): Promise<number | undefined> {
  const ask = { text: 'select pg_backend_pid() as pid', query_timeout: ANSWER_MS_MAX }
  const { rows } = await client.query<{ pid: number }>(ask)
  return rows[0]?.pid
}
