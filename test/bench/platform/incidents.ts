// Listing incidents: requests per CPU-second of the server, against a bare Hono route that only runs
// the same query; and the time of a page by the number of incidents.
import { fork, type ChildProcess } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createAccount } from '../../../src/platform/accounts/queries/accounts.ts'
import { ensureApiKey } from '../../../src/platform/accounts/queries/api-keys.ts'
import { openDatabase, type Database } from '../../../src/database/database.ts'
import { migrate } from '../../../src/database/migrate.ts'
import { load, type LoadFigures } from './http-load.ts'
import type { ServerOrder } from './incidents-server.ts'
import { cpuMsOf, median } from '../process-figures.ts'
import { debianMajors, startServer } from '../../support/database/database-servers.ts'
import { markdownTable } from '../table.ts'

const KINDS = ['same query', 'platform'] as const
const ROUNDS = 5
const ROUND_MS = 4_000
const WARM_MS = 2_000
const CONNECTIONS = 8

interface Account {
  id: string
  headers: Record<string, string>
}

/** An account with `incidents` incidents, each on a service and with three updates. */
async function fill(database: Database, incidents: number): Promise<Account> {
  const id = randomUUID()
  const secret = `bench_${randomUUID()}`
  const hash = createHash('sha256').update(secret).digest()
  await createAccount(database, { id, name: `${incidents} incidents` })
  await ensureApiKey(database, {
    accountId: id,
    name: 'bench',
    role: 'Read Only',
    hash,
    suffix: secret.slice(-4),
  })
  await database.transaction(
    async (tx) => {
      await tx.query(
        `with service as (
           insert into services (id, account_id, name) values (gen_random_uuid(), $1, 'Web')
           returning id
         ), made as (
           insert into incidents (id, account_id, name, severity, last_update_status, created_at)
           select gen_random_uuid(), $1, 'Sign-in is slow, number ' || n, 'MINOR', 'RESOLVED',
             now() - n * interval '1 minute'
           from generate_series(1, $2::int) n returning id
         ), linked as (
           insert into incident_services (incident_id, service_id, position)
           select made.id, service.id, 1 from made, service
         )
         insert into incident_updates
           (id, incident_id, description, status, public_at, notify_subscribers)
         select gen_random_uuid(), made.id, 'We are looking into what happened and will report.',
           case n when 3 then 'RESOLVED' else 'INVESTIGATING' end, now() + n * interval '1 s', false
         from made, generate_series(1, 3) n`,
        [id, incidents],
      )
    },
    { statementTimeoutMs: 300_000 },
  )
  return { id, headers: { Authorization: `Bearer ${secret}`, 'X-Service-Account': id } }
}

interface Running {
  child: ChildProcess
  port: number
}

async function start(order: ServerOrder): Promise<Running> {
  const child = fork(new URL('incidents-server.ts', import.meta.url))
  child.send(order)
  const [{ port }] = (await once(child, 'message')) as [{ port: number }]
  return { child, port }
}

async function stop({ child }: Running): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

interface Round extends LoadFigures {
  perCpuSecond: number
}

async function round(running: Running, account: Account, path: string, ms: number) {
  const { child, port } = running
  const pid = child.pid ?? 0
  const before = cpuMsOf(pid)
  const { headers } = account
  const figures = await load({ port, path, headers, connections: CONNECTIONS, ms })
  const perCpuSecond = (figures.requests * 1000) / (cpuMsOf(pid) - before)
  return { ...figures, perCpuSecond }
}

/** Rejects when the page of a server is incomplete. */
async function checkPage({ port }: Running, account: Account, limit: number): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}${pathOf(limit)}`, account)
  const { entries = [] } = response.ok ? ((await response.json()) as { entries?: unknown[] }) : {}
  if (entries.length === limit) return
  throw new Error(`expected ${limit} incidents, not ${entries.length}: status ${response.status}`)
}

const pathOf = (limit: number) => `/v1/status-pages/incidents?limit=${limit}`

/** Rounds of all kinds in turn, so that other load of the machine affects all alike. */
async function compare(databaseUrl: string, account: Account, limit: number): Promise<void> {
  const path = pathOf(limit)
  const common = { databaseUrl, accountId: account.id, limit }
  const servers = new Map<string, Running>()
  const rounds = new Map<string, Round[]>()
  for (const kind of KINDS) {
    const running = await start({ ...common, kind })
    await checkPage(running, account, limit)
    servers.set(kind, running)
  }
  for (let number = -1; number < ROUNDS; number++) {
    for (const [kind, running] of servers) {
      const one = await round(running, account, path, number < 0 ? WARM_MS : ROUND_MS)
      if (number >= 0) rounds.set(kind, [...(rounds.get(kind) ?? []), one])
    }
  }
  for (const running of servers.values()) await stop(running)
  printComparison(limit, rounds)
}

function printComparison(limit: number, rounds: Map<string, Round[]>): void {
  const middle = (kind: string, of: (one: Round) => number) =>
    median((rounds.get(kind) ?? []).map(of))
  const query = middle('same query', (one) => one.perCpuSecond)
  const rows = KINDS.map((kind) => [
    kind,
    Math.round(middle(kind, (one) => one.perCpuSecond)),
    `${Math.round((100 * middle(kind, (one) => one.perCpuSecond)) / query)} %`,
    Math.round(middle(kind, (one) => one.requests / one.seconds)),
    middle(kind, (one) => one.p50Ms).toFixed(1),
    middle(kind, (one) => one.p99Ms).toFixed(1),
  ])
  const head = ['server', 'requests/CPU-s', 'of same query', 'requests/s', 'p50 ms', 'p99 ms']
  process.stdout.write(`limit=${limit}\n\n`)
  process.stdout.write(`${markdownTable([head, ...rows])}\n\n`)
}

async function growth(databaseUrl: string, accounts: Map<number, Account>): Promise<void> {
  const rows: (string | number)[][] = []
  for (const [incidents, account] of accounts) {
    const limit = 20
    const common = { databaseUrl, accountId: account.id, limit }
    const running = await start({ ...common, kind: 'platform' })
    await checkPage(running, account, limit)
    const path = pathOf(limit)
    await round(running, account, path, WARM_MS)
    const one = await round(running, account, path, ROUND_MS)
    await stop(running)
    rows.push([incidents, Math.round(one.perCpuSecond), one.p50Ms.toFixed(1), one.p99Ms.toFixed(1)])
  }
  const head = ['incidents', 'requests/CPU-s', 'p50 ms', 'p99 ms']
  process.stdout.write(`${markdownTable([head, ...rows])}\n`)
}

/**
 * Runs on the database of BENCH_DATABASE_URL, which must be used for nothing else; without it on the embedded
 * PostgreSQL, and on Debian's if it is installed.
 */
export async function benchIncidents(): Promise<void> {
  const given = process.env['BENCH_DATABASE_URL']
  if (given !== undefined) return benchOn(given)
  for (const name of debianMajors().length === 0 ? ['embedded'] : ['embedded', 'other']) {
    const server = await startServer(name)
    const { urlPattern, template } = server.running
    process.stdout.write(`### ${name === 'embedded' ? 'embedded' : 'Debian’s'} PostgreSQL\n\n`)
    await benchOn(urlPattern.replace('{database}', template))
    await server.stop()
  }
}

async function benchOn(databaseUrl: string): Promise<void> {
  const database = openDatabase({ address: { url: databaseUrl }, applicationName: 'bench' })
  await migrate(database)
  const accounts = new Map<number, Account>()
  for (const incidents of [100, 10_000, 100_000]) {
    accounts.set(incidents, await fill(database, incidents))
  }
  await database.query('vacuum analyze')
  await database.close()
  const account = accounts.get(10_000)
  if (account === undefined) return
  for (const limit of [20, 100]) await compare(databaseUrl, account, limit)
  await growth(databaseUrl, accounts)
}
