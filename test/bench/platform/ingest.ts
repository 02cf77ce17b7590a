// Recording results: results per CPU-second of a platform process and of its database, bytes on the wire
// and memory, with 10,000 monitors of which each reports every 10 s in batches of 1,000.
import { fork } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { gzipSync } from 'node:zlib'
import { sweep, SWEEP_GRACE_MS } from '../../../src/platform/results/sweep.ts'
import { createAccount } from '../../../src/platform/accounts/queries/accounts.ts'
import { type Database, openDatabase } from '../../../src/database/database.ts'
import { ensurePartitions } from '../../../src/platform/results/queries/result-partitions.ts'
import { startServer } from '../../support/database/database-servers.ts'
import { postgresProcesses } from './postgres-figures.ts'
import { cpuMsOf, median, memoryMiBOf } from '../process-figures.ts'
import { markdownTable } from '../table.ts'

const MONITORS = 10_000
const EVERY_MS = 10_000
const BATCH = 1_000
const ROUNDS = 12
const WARM_ROUNDS = 2
const CONNECTIONS = 4

interface Location {
  key: string
  monitorIds: string[]
  startMs: number
}

/** One location with all monitors, expected since some time ago. */
async function fill(database: Database): Promise<Location> {
  const now = Date.now()
  const startMs = Math.floor(now / EVERY_MS) * EVERY_MS - ROUNDS * EVERY_MS - 60_000
  const [accountId, locationId] = [randomUUID(), randomUUID()]
  const key = `pl_${randomUUID()}`
  await ensurePartitions(database, now - 86_400_000, now + 86_400_000)
  await createAccount(database, { id: accountId, name: 'bench' })
  await database.query(
    `insert into private_locations (id, account_id, name, slug_name) values ($1, $2, 'b', 'b')`,
    [locationId, accountId],
  )
  await database.query(
    `insert into location_keys (id, location_id, hash, suffix) values ($1, $2, $3, $4)`,
    [randomUUID(), locationId, createHash('sha256').update(key).digest(), key.slice(-4)],
  )
  const rows = await database.query<{ id: string }>(
    `with made as (
       insert into monitors (id, account_id, check_type, name, activated, muted, definition, effective)
       select gen_random_uuid(), $1, 'URL', 'm', true, false, '', '' from generate_series(1, $2::int)
       returning id
     ), placed as (
       insert into placements (location_id, monitor_id, revision, needs, every_ms, offset_ms, from_ms)
       select $3, id, 1, '{URL}', $4, 0, $5 from made
     ), expected as (
       insert into expectations (location_id, monitor_id, from_ms, every_ms, offset_ms)
       select $3, id, $5, $4, 0 from made
     ) select id from made`,
    [accountId, MONITORS, locationId, EVERY_MS, startMs],
  )
  await database.query('vacuum analyze')
  return { key, monitorIds: rows.map(({ id }) => id), startMs }
}

/** Batches as agents send them: one failed result with its detail among a hundred. */
function batchesOf(of: Location, round: number): Buffer<ArrayBuffer>[] {
  const slot = of.startMs + round * EVERY_MS
  const agentId = randomUUID()
  const results = of.monitorIds.map((monitorId, n) => ({
    monitorId,
    slot,
    verdict: 'passed',
    attempts: 1,
    startedAt: slot + Math.round(Math.random() * 20),
    durationMs: Math.round(Math.random() * 100_000) / 1000,
    responseTimeMs: Math.round(Math.random() * 90_000) / 1000,
    ...(n % 100 === 0 && {
      verdict: 'failed',
      failures: [{ code: 'CONNECTION_REFUSED', message: 'connect ECONNREFUSED 192.0.2.1:443' }],
      detail: { observed: { ip: '192.0.2.1', port: 443, phases: { dns: 1.2 } }, attempts: [{}] },
    }),
  }))
  const batches: Buffer<ArrayBuffer>[] = []
  for (let at = 0; at < results.length; at += BATCH) {
    const body = JSON.stringify({ agentId, results: results.slice(at, at + BATCH) })
    batches.push(gzipSync(body))
  }
  return batches
}

async function send(url: string, key: string, batches: Buffer<ArrayBuffer>[]): Promise<void> {
  const left = [...batches]
  const one = async () => {
    for (let body = left.pop(); body !== undefined; body = left.pop()) {
      const answer = await fetch(`${url}/agent/v1/results`, {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${key}`,
          'Content-Type': 'application/json',
          'Content-Encoding': 'gzip',
        },
        body,
      })
      const { recorded } = (await answer.json()) as { recorded: number }
      if (recorded !== BATCH) throw new Error(`recorded ${recorded} of ${BATCH}`)
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, one))
}

/** Milliseconds to sweep the slots of ten seconds, all reported or none. */
async function sweepMs(database: Database, untilMs: number): Promise<number> {
  const parts = {
    database,
    retentionMs: 86_400_000,
    now: () => untilMs + SWEEP_GRACE_MS,
  }
  const begin = performance.now()
  const { expected } = await sweep(parts, AbortSignal.timeout(600_000))
  if (expected !== MONITORS) throw new Error(`swept ${expected} of ${MONITORS}`)
  return performance.now() - begin
}

/** A window whose slots were all reported, and one of which none was. */
async function sweepRows(database: Database, { startMs }: Location): Promise<string[][]> {
  await database.query('update expectations set opened_ms = from_ms')
  const times: number[] = []
  for (const round of [2, 3, 4, ROUNDS + 1]) {
    const untilMs = startMs + round * EVERY_MS
    // From the middle of an interval to the middle of the next.
    await database.query(
      `insert into accounting (swept_until_ms) values ($1)
       on conflict (one) do update set swept_until_ms = $1`,
      [untilMs - EVERY_MS / 2],
    )
    times.push(await sweepMs(database, untilMs + EVERY_MS / 2))
  }
  return [
    ['ms to sweep 10 s when all was reported', `${Math.round(median(times.slice(0, 3)))}`],
    ['ms to sweep 10 s when nothing was', `${Math.round(times[3] ?? 0)}`],
  ]
}

/** Runs on an embedded PostgreSQL of its own. */
export async function benchIngest(): Promise<void> {
  const server = await startServer('embedded')
  const databaseUrl = server.running.urlPattern.replace('{database}', server.running.template)
  const database = openDatabase({ address: { url: databaseUrl }, applicationName: 'bench' })
  const of = await fill(database)
  const child = fork(new URL('ingest-server.ts', import.meta.url))
  child.send(databaseUrl)
  const [{ port }] = (await once(child, 'message')) as [{ port: number }]
  const url = `http://127.0.0.1:${port}`
  const pid = child.pid ?? 0
  const postgres = await postgresProcesses(database)
  let bytes = 0
  let before = { platform: 0, database: 0, at: 0 }
  for (let round = 0; round < ROUNDS; round++) {
    const batches = batchesOf(of, round)
    if (round === WARM_ROUNDS) {
      const platform = cpuMsOf(pid)
      before = { platform, database: postgres.cpuMs(), at: performance.now() }
    }
    if (round >= WARM_ROUNDS) bytes += batches.reduce((sum, { length }) => sum + length, 0)
    await send(url, of.key, batches)
  }
  const results = (ROUNDS - WARM_ROUNDS) * MONITORS
  const platformMs = cpuMsOf(pid) - before.platform
  const databaseMs = postgres.cpuMs() - before.database
  const figures = [
    ['results', results],
    ['results per CPU-second of the platform', Math.round((results * 1000) / platformMs)],
    ['results per CPU-second of its PostgreSQL', Math.round((results * 1000) / databaseMs)],
    ['results per second', Math.round((results * 1000) / (performance.now() - before.at))],
    ['bytes per result on the wire, gzip', (bytes / results).toFixed(1)],
    ['memory of the platform, peak MiB', Math.round(memoryMiBOf(pid).peak)],
    ...(await sweepRows(database, of)),
  ]
  process.stdout.write(`${markdownTable([['what', 'figure'], ...figures])}\n`)
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
  await database.close()
  await server.stop()
}
