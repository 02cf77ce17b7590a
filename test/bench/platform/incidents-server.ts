// The servers of the bench of incidents, each in a separate process: the real app, and a bare route that runs the same
// query and sends its result.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { Pool } from 'pg'
import { createApp } from '../../../src/platform/app.ts'
import { createHttpServer } from '../../../src/platform/http/http-server.ts'
import { createCipher } from '../../../src/platform/secrets/cipher.ts'
import { openDatabase, type Statement } from '../../../src/database/database.ts'
import { listIncidents } from '../../../src/platform/incidents/queries.ts'

/** The kind of server, and its database. */
export interface ServerOrder {
  kind: 'platform' | 'same query'
  databaseUrl: string
  accountId: string
  limit: number
}

const JSON_HEADERS = { 'Content-Type': 'application/json; charset=utf-8' }

function platform(order: ServerOrder): Server {
  const database = openDatabase({
    address: { url: order.databaseUrl },
    applicationName: 'bench',
  })
  const { app } = createApp({
    database,
    cipher: createCipher('what is encrypted here is of no worth'),
    clock: Date,
    log: { error: console.error, warn: console.error },
    // High enough for no refusal.
    defaultLimit: { limit: 1_000_000_000, windowS: 60 },
  })
  return createHttpServer(app.fetch as never)
}

async function sameQuery(order: ServerOrder): Promise<Server> {
  const pool = new Pool({ connectionString: order.databaseUrl, max: 16 })
  const { text, name, values } = await pageQuery(order)
  const app = new Hono()
  app.get('/v1/status-pages/incidents', async (c) => {
    const { rows } = await pool.query<{ entries: string }>({ text, name, values })
    return c.body(`{"entries":[${rows[0]?.entries}]}`, 200, JSON_HEADERS)
  })
  return createAdaptorServer({ fetch: app.fetch, createServer }) as Server
}

/** The platform's statement for this page, intercepted. */
async function pageQuery(order: ServerOrder) {
  let caught: { text: string; name: string; values: unknown[] } | undefined
  const connection = {
    async query(statement: string | Statement<object>, values: readonly unknown[] = []) {
      const { text, name = '' } = statement as Statement<object>
      caught = { text, name, values: [...values] }
      return [{ entries: '', length: 0, more: false, last: null }] as never
    },
  }
  await listIncidents(connection, {
    owner: order.accountId,
    limit: order.limit,
    after: undefined,
  })
  if (caught === undefined) throw new Error('no statement')
  return caught
}

async function serve(order: ServerOrder): Promise<void> {
  const server = order.kind === 'platform' ? platform(order) : await sameQuery(order)
  server.listen(0, '127.0.0.1', () => {
    process.send?.({ port: (server.address() as AddressInfo).port })
  })
}

// No server may outlive a failed bench.
process.once('disconnect', () => process.exit())
process.once('message', (order: ServerOrder) => void serve(order))
