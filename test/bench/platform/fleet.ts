// The whole installation under its specified load: 10,000 URL monitors every 10 s over two agents that report to
// one platform on an external PostgreSQL, each a process. Every slot is accounted for at the end.
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Database, openDatabase } from '../../../src/database/database.ts'
import { debianMajors, startServer } from '../../support/database/database-servers.ts'
import { freePort } from '../../support/network/free-port.ts'
import { startNginx } from '../../support/network/nginx.ts'
import { accountOf, type Account, checkAccount } from './fleet-account.ts'
import { bucketGrowth, growth, quantile, scrape, sum } from '../metrics-text.ts'
import { postgresProcesses, type PostgresProcesses } from './postgres-figures.ts'
import { cpuMsOf, memoryMiBOf } from '../process-figures.ts'
import { type RunningProgram, startProgram } from '../program.ts'
import { markdownTable } from '../table.ts'

const MONITORS = 10_000
const EVERY_SECONDS = 10
const AGENTS = 2
const WARM_UP_MS = 20_000
const MEASURED_MS = 120_000
const SCRAPE_EVERY_MS = 15_000
const SYNC_MS = 60_000
/** Sampling interval of prom-client for the event loop: its figure includes this interval. */
const LOOP_LOOKS_MS = 10

interface Installation {
  database: Database
  postgres: PostgresProcesses
  platform: RunningProgram
  /** Root of the platform's metrics. */
  metricsUrl: string
  agents: RunningProgram[]
  /** Starts the agent with this number, or starts it again. */
  startAgent: (number: number) => Promise<RunningProgram>
  /** Calls the public API; throws unless it succeeds. */
  api: (path: string, body: object) => Promise<Record<string, string>>
}

/** Prints the account, lateness, and the resources of each part, with Debian's or the embedded PostgreSQL. */
export async function benchFleet(): Promise<void> {
  const given = process.env['BENCH_DATABASE_URL']
  if (given !== undefined) return benchOn(given)
  const name = debianMajors().length === 0 ? 'embedded' : 'other'
  process.stdout.write(`${name === 'embedded' ? 'embedded' : 'Debian’s'} PostgreSQL\n\n`)
  // As in production: written data must survive a power failure.
  const server = await startServer(name, {})
  const { urlPattern, template } = server.running
  await benchOn(urlPattern.replace('{database}', template))
  await server.stop()
}

async function benchOn(databaseUrl: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'))
  const nginx = await startNginx()
  const database = openDatabase({ address: { url: databaseUrl }, applicationName: 'bench' })
  const installed = await install(database, databaseUrl, folder)
  const synced = await firstSync(installed, nginx.url)
  await sleep(WARM_UP_MS)
  const measured = await measure(installed)
  const again = await syncAgain(installed)
  const meanwhile = await accountOf(database, measured.fromMs, measured.untilMs)
  const all = await accountOf(database, 0, Date.now())
  checkAccount(meanwhile, 0.99 * MONITORS * (MEASURED_MS / 1000 / EVERY_SECONDS))
  checkAccount(all, meanwhile.passed)
  for (const agent of installed.agents) await agent.close()
  await installed.platform.close()
  const rows = [
    ...accountRows('while measured', meanwhile),
    ...accountRows('from the first to after the restart', all),
    ...measured.rows,
    ...synced.rows,
    ...again,
  ]
  process.stdout.write(`${markdownTable([['figure', 'value'], ...rows])}\n`)
  await database.close()
  await nginx.close()
  await rm(folder, { recursive: true })
}

async function install(
  database: Database,
  databaseUrl: string,
  folder: string,
): Promise<Installation> {
  const [accountId, apiKey] = [randomUUID(), `vd_${randomBytes(24).toString('base64url')}`]
  const metricsPort = await freePort()
  const platform = await startProgram('platform', 'PORT', {
    METRICS_PORT: String(metricsPort),
    HOST: '127.0.0.1',
    DATABASE_URL: databaseUrl,
    DATA_DIR: join(folder, 'platform'),
    SECRETS_KEY: randomBytes(32).toString('hex'),
    ACCOUNT_ID: accountId,
    ADMIN_API_KEY: apiKey,
    ACCOUNTING_GRACE_SECONDS: '30',
  })
  const headers = {
    Authorization: `Bearer ${apiKey}`,
    'X-Service-Account': accountId,
    'Content-Type': 'application/json',
  }
  const api = async (path: string, body: object) => {
    const call = { method: 'POST', headers, body: JSON.stringify(body) }
    const answer = await fetch(platform.url + path, call)
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as Record<string, string>
  }
  const { id } = await api('/v1/private-locations', { name: 'bench', slugName: 'bench' })
  const { rawKey = '' } = await api(`/v1/private-locations/${id}/keys`, {})
  const startAgent = (number: number) => {
    const dataDir = join(folder, `agent-${number}`)
    const env = { API_KEY: rawKey, PLATFORM_URL: platform.url, DATA_DIR: dataDir }
    return startProgram('agent', 'AGENT_HEALTH_PORT', env, '/-/liveness')
  }
  const agents = await Promise.all(Array.from({ length: AGENTS }, (_, n) => startAgent(n)))
  const postgres = await postgresProcesses(database)
  const metricsUrl = `http://127.0.0.1:${metricsPort}`
  return { database, postgres, platform, metricsUrl, agents, startAgent, api }
}

/** Creates the monitors in one call, and waits until the agents have them. */
async function firstSync(installed: Installation, target: string) {
  const { agents, api, database } = installed
  const live = async () =>
    (await database.query(`select 1 from agents where state = 'live'`)).length
  await until(async () => (await live()) === AGENTS, 'the agents to be there')
  await Promise.all(agents.map((agent) => scrape(agent.url)))
  const beganMs = Date.now()
  const monitors = Array.from({ length: MONITORS }, (_, n) => ({
    key: `m${n}`,
    definition: {
      name: `monitor ${n}`,
      checkType: 'URL',
      frequency: 0,
      frequencyOffset: EVERY_SECONDS,
      request: {
        url: `${target}/?n=${n}`,
        assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }],
      },
    },
  }))
  const { applied, problems } = await api('/v1/apply', {
    name: 'bench.yaml',
    locations: ['bench'],
    monitors,
  })
  if (String(applied) !== 'true') throw new Error(JSON.stringify(problems).slice(0, 500))
  const appliedMs = Date.now() - beganMs
  await until(async () => (await monitorsOf(agents)) === MONITORS, 'all monitors to be there')
  const syncMs = Date.now() - beganMs - appliedMs
  const rows = [
    [`to apply ${MONITORS} monitors in one call`, `${appliedMs} ms`],
    ['from there until both agents have their half', `${syncMs} ms`],
    ['longest delay of an agent’s event loop meanwhile', await longestDelay(agents)],
  ]
  return { rows }
}

/** Restarts an agent: one answer gives it all its monitors. */
async function syncAgain({ agents, startAgent }: Installation): Promise<string[][]> {
  const last = agents.pop()
  if (last === undefined) throw new Error('there is an agent')
  const had = await monitorsOf([last])
  await last.close()
  const began = Date.now()
  const agent = await startAgent(AGENTS - 1)
  agents.push(agent)
  await until(async () => (await monitorsOf([agent])) === had, 'its monitors to be there again')
  const tookMs = Date.now() - began
  await sleep(2 * EVERY_SECONDS * 1000)
  return [
    [`from an agent’s start until it has its ${had} monitors`, `${tookMs} ms`],
    ['longest delay of its event loop, start and first runs included', await longestDelay([agent])],
  ]
}

async function monitorsOf(agents: readonly RunningProgram[]): Promise<number> {
  const counts = agents.map(async ({ url }) => {
    const answer = await fetch(`${url}/health`)
    return ((await answer.json()) as { monitors: number }).monitors
  })
  return (await Promise.all(counts)).reduce((all, one) => all + one, 0)
}

async function until(holds: () => Promise<boolean>, what: string): Promise<void> {
  const givenUpAt = Date.now() + SYNC_MS
  while (!(await holds())) {
    if (Date.now() > givenUpAt) throw new Error(`waited in vain for ${what}`)
    await sleep(50)
  }
}

/** Since the last scrape of each. */
async function longestDelay(agents: readonly RunningProgram[]): Promise<string> {
  const texts = await Promise.all(agents.map(({ url }) => scrape(url)))
  return shownDelay(Math.max(...texts.map(delayMsIn)))
}

function delayMsIn(text: string): number {
  return sum(text, 'nodejs_eventloop_lag_max_seconds') * 1000 - LOOP_LOOKS_MS
}

function shownDelay(ms: number): string {
  return `${Math.max(0, ms).toFixed(0)} ms`
}

/** A snapshot of all figures. */
interface Moment {
  atMs: number
  texts: string[]
  cpuMs: { platform: number; agents: number[]; postgres: number }
}

async function moment({ platform, agents, postgres }: Installation): Promise<Moment> {
  return {
    texts: await Promise.all(agents.map(({ url }) => scrape(url))),
    atMs: Date.now(),
    cpuMs: {
      platform: cpuMsOf(platform.pid),
      agents: agents.map(({ pid }) => cpuMsOf(pid)),
      postgres: postgres.cpuMs(),
    },
  }
}

async function measure(installed: Installation) {
  const before = await moment(installed)
  await scrape(installed.metricsUrl)
  // Scheduling delay of an idle process on this machine: the lower bound of lateness.
  const idle = monitorEventLoopDelay({ resolution: 1 })
  idle.enable()
  let delayMs = 0
  let after = before
  for (let waited = 0; waited < MEASURED_MS; waited += SCRAPE_EVERY_MS) {
    await sleep(SCRAPE_EVERY_MS)
    after = await moment(installed)
    delayMs = Math.max(delayMs, ...after.texts.map(delayMsIn))
  }
  idle.disable()
  const platformDelayMs = delayMsIn(await scrape(installed.metricsUrl))
  const rows = [
    ...deliveryRows(before, after),
    ['lateness of a timer in an idle process, p99', `${(idle.percentile(99) / 1e6).toFixed(1)} ms`],
    ['longest delay of an agent’s event loop', shownDelay(delayMs)],
    ['longest delay of the platform’s event loop', shownDelay(platformDelayMs)],
    ...useRows(installed, before, after),
  ]
  return { fromMs: before.atMs, untilMs: after.atMs, rows }
}

function deliveryRows(before: Moment, after: Moment): (string | number)[][] {
  const grown = (name: string) =>
    after.texts.reduce((all, text, n) => all + growth(before.texts[n] ?? '', text, name), 0)
  const delivered = grown('vedette_results_delivered_total')
  const platformMs = after.cpuMs.platform - before.cpuMs.platform
  const lateness = (q: number) =>
    after.texts
      .map((text, n) =>
        quantile(
          bucketGrowth(before.texts[n] ?? '', text, 'vedette_slot_lateness_seconds_bucket'),
          q,
        ),
      )
      .join(', ')
  const bytes = grown('vedette_delivery_sent_bytes_total')
  return [
    ['lateness p50, by agent', lateness(0.5)],
    ['lateness p99', lateness(0.99)],
    ['results delivered while measured', delivered],
    ['results per CPU-second of the platform', Math.round((delivered * 1000) / platformMs)],
    ['bytes of a result on the wire', (bytes / delivered).toFixed(1)],
    ['results in a batch', Math.round(delivered / grown('vedette_delivery_batches_total'))],
  ]
}

function useRows(
  { platform, agents, postgres }: Installation,
  before: Moment,
  after: Moment,
): string[][] {
  const tookMs = after.atMs - before.atMs
  const cores = (now: number, then: number) => `${((now - then) / tookMs).toFixed(2)} cores`
  const memory = (pid: number) => {
    const { now, peak } = memoryMiBOf(pid)
    return `${now.toFixed(0)} MiB, peak ${peak.toFixed(0)}`
  }
  return [
    ['platform', `${cores(after.cpuMs.platform, before.cpuMs.platform)}, ${memory(platform.pid)}`],
    ...agents.map(({ pid }, n) => [
      `agent ${n + 1}`,
      `${cores(after.cpuMs.agents[n] ?? 0, before.cpuMs.agents[n] ?? 0)}, ${memory(pid)}`,
    ]),
    [
      'PostgreSQL, all processes',
      `${cores(after.cpuMs.postgres, before.cpuMs.postgres)}, ${postgres.memoryMiB().toFixed(0)} MiB`,
    ],
  ]
}

function accountRows(
  span: string,
  { expected, recorded, missing, unexpected, passed, missed }: Account,
): (string | number)[][] {
  const reasons = Object.entries(missed).map(([reason, count]) => `${count} ${reason}`)
  const wrong = `${missing} without a row, ${unexpected} rows that nobody expects`
  return [
    [`slots expected / recorded ${span}`, `${expected} / ${recorded}; ${wrong}`],
    ['passed / missed', `${passed} / ${reasons.join(', ') || 'none'}`],
  ]
}
