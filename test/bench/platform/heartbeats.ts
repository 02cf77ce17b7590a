// Receiving pings: pings per CPU-second of a platform process, each stored before it is answered, and memory.
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type Database, openDatabase } from '../../../src/database/database.ts'
import { createAccount } from '../../../src/platform/accounts/queries/accounts.ts'
import { watchHeartbeats } from '../../../src/platform/heartbeats/queries/watch.ts'
import { ensurePartitions } from '../../../src/platform/results/queries/result-partitions.ts'
import { startServer } from '../../support/database/database-servers.ts'
import { cpuMsOf, memoryMiBOf } from '../process-figures.ts'
import { markdownTable } from '../table.ts'
import { load } from './http-load.ts'

const HEARTBEATS = 10_000
const CONNECTIONS = 64
const LOAD_MS = 10_000

/** Watches heartbeats of one account; returns their tokens. */
async function fill(database: Database): Promise<string[]> {
  const accountId = randomUUID()
  await ensurePartitions(database, Date.now() - 86_400_000, Date.now() + 86_400_000)
  await createAccount(database, { id: accountId, name: 'bench' })
  const rows = await database.query<{ id: string }>(
    `insert into monitors (id, account_id, check_type, name, activated, muted, definition, effective)
     select gen_random_uuid(), $1, 'HEARTBEAT', 'm', true, false, '', '' from generate_series(1, $2::int)
     returning id`,
    [accountId, HEARTBEATS],
  )
  const timing = { period: 1, periodUnit: 'days', grace: 1, graceUnit: 'hours' } as const
  const watched = rows.map(({ id }) => ({
    monitorId: id,
    heartbeat: { ...timing, pingToken: randomUUID() },
    isActive: true,
  }))
  await database.transaction((tx) => watchHeartbeats(tx, { accountId, nowMs: Date.now() }, watched))
  await database.query('vacuum analyze')
  return watched.map(({ heartbeat }) => heartbeat.pingToken)
}

/** Runs on an embedded PostgreSQL of its own. */
export async function benchHeartbeats(): Promise<void> {
  const server = await startServer('embedded')
  const databaseUrl = server.running.urlPattern.replace('{database}', server.running.template)
  const database = openDatabase({ address: { url: databaseUrl }, applicationName: 'bench' })
  const tokens = await fill(database)
  const child = fork(new URL('heartbeats-server.ts', import.meta.url))
  child.send(databaseUrl)
  const [{ port }] = (await once(child, 'message')) as [{ port: number }]
  let asked = 0
  const path = () => `/ping/${tokens[asked++ % tokens.length]}`
  const ask = { port, path, headers: {}, connections: CONNECTIONS }
  await load({ ...ask, ms: 2_000 })
  const pid = child.pid ?? 0
  const before = cpuMsOf(pid)
  const { requests, seconds, p99Ms } = await load({ ...ask, ms: LOAD_MS })
  const cpuMs = cpuMsOf(pid) - before
  const [stored] = await database.query<{ count: number }>('select count(*) as count from results')
  if ((stored?.count ?? 0) < requests)
    throw new Error(`stored ${stored?.count} of ${requests} pings`)
  const figures = [
    ['pings per CPU-second of the platform', Math.round((requests * 1000) / cpuMs)],
    ['pings per second', Math.round(requests / seconds)],
    ['p99 of an answer', `${Math.round(p99Ms)} ms`],
    ['memory of the platform, peak MiB', Math.round(memoryMiBOf(pid).peak)],
  ]
  process.stdout.write(`${markdownTable([['what', 'figure'], ...figures])}\n`)
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
  await database.close()
  await server.stop()
}
