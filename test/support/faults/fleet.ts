// A whole installation of real processes: platforms on one PostgreSQL, agents, monitors over the public API, and
// the check that every slot has exactly one row.
import { spawn } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { Database } from '../../../src/database/database.ts'
import { launchAgentProcess, type AgentProcess } from '../agent/agent-process.ts'
import type { RunningServer } from '../database/database-servers.ts'
import {
  createTestDatabase,
  DATABASE_SERVERS,
  type DatabaseServer,
  type TestDatabase,
} from '../database/database.ts'
import { eventually } from '../eventually.ts'
import { startPlatform, type StartedPlatform } from '../platform/platform-process.ts'

/** A location with the key of its agents. */
export interface FleetLocation {
  id: string
  slugName: string
  key: string
}

/** Options of an agent. */
export interface FleetAgentOptions {
  location: FleetLocation
  /** Default: the first platform. */
  platformUrl?: string
  /** Its data folder; reusing it is a restart. */
  name: string
  env?: Record<string, string>
  /** Prefix of the command line. */
  prefix?: readonly string[]
}

/** A whole installation. */
export class Fleet {
  readonly #made: TestDatabase
  readonly #folder: string
  readonly #env: Record<string, string>
  readonly #agents: AgentProcess[] = []
  readonly #accountId: string
  readonly #apiKey: string
  readonly platforms: StartedPlatform[] = []
  readonly target: Target
  #port = 0

  private constructor(
    made: TestDatabase,
    folder: string,
    target: Target,
    env: Record<string, string>,
  ) {
    this.#made = made
    this.#folder = folder
    this.target = target
    this.#accountId = randomUUID()
    this.#apiKey = `vd_${randomBytes(24).toString('base64url')}`
    this.#env = {
      DATABASE_URL: made.url,
      DATA_DIR: join(folder, 'platform'),
      SECRETS_KEY: randomBytes(32).toString('hex'),
      ACCOUNT_ID: this.#accountId,
      ADMIN_API_KEY: this.#apiKey,
      ACCOUNTING_GRACE_SECONDS: '5',
      RATE_LIMIT: '1000000',
      ...env,
    }
  }

  /** Makes a database, on Debian's PostgreSQL where there is one, and a target to watch; starts no process. */
  static async create(
    env: Record<string, string> = {},
    server: DatabaseServer | RunningServer | undefined = DATABASE_SERVERS.at(-1),
  ): Promise<Fleet> {
    const [made, folder, target] = await Promise.all([
      createTestDatabase(server),
      mkdtemp(join(tmpdir(), 'vedette-fleet-')),
      startTarget(),
    ])
    return new Fleet(made, folder, target, env)
  }

  get database(): Database {
    return this.#made.database
  }

  /** Starts a platform; restarts of the first one reuse its port, so that agents reconnect. */
  async startPlatform(env: Record<string, string> = {}): Promise<StartedPlatform> {
    const isFirst = this.platforms.length === 0
    const port = isFirst ? { PORT: String(this.#port) } : {}
    const started = await startPlatform({ ...this.#env, ...port, ...env })
    const listening = new URL(started.url)
    if (isFirst) this.#port = Number(listening.port)
    started.url = `http://127.0.0.1:${listening.port}`
    this.platforms.push(started)
    return started
  }

  /** Ends a platform with a signal, and forgets it. */
  async endPlatform(platform: StartedPlatform, signal: NodeJS.Signals): Promise<void> {
    platform.kill(signal)
    await platform.ended
    this.platforms.splice(this.platforms.indexOf(platform), 1)
  }

  /** Settings of commands that use the public API, such as `vedette run`. */
  commandSettings(): Record<string, string> {
    return {
      PLATFORM_URL: this.platforms[0]?.url ?? '',
      ACCOUNT_ID: this.#accountId,
      VEDETTE_API_KEY: this.#apiKey,
    }
  }

  /** Calls the public API; throws with the body where the status is 400 or above. */
  async api<T = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(this.platforms[0]?.url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#apiKey}`,
        'x-service-account': this.#accountId,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return (text === '' ? undefined : JSON.parse(text)) as T
  }

  async createLocation(slugName: string): Promise<FleetLocation> {
    const { id } = await this.api<{ id: string }>('POST', '/v1/private-locations', {
      name: slugName,
      slugName,
    })
    const { rawKey } = await this.api<{ rawKey: string }>(
      'POST',
      `/v1/private-locations/${id}/keys`,
    )
    return { id, slugName, key: rawKey }
  }

  /** Makes URL monitors of the target, each on a separate path; returns their ids. */
  async createMonitors(
    count: number,
    everySeconds: number,
    privateLocations: readonly string[],
    more: Record<string, unknown> = {},
  ): Promise<string[]> {
    const ids: string[] = []
    for (let n = 0; n < count; n++) {
      const { id } = await this.api<{ id: string }>('POST', '/v1/checks/url', {
        name: `monitor ${n}`,
        frequency: 0,
        frequencyOffset: everySeconds,
        privateLocations,
        request: { url: `${this.target.url}/${n}` },
        ...more,
      })
      ids.push(id)
    }
    return ids
  }

  /** Starts an agent; it may not be ready yet. */
  startAgent(options: FleetAgentOptions): AgentProcess {
    const env = {
      API_KEY: options.location.key,
      PLATFORM_URL: options.platformUrl ?? this.platforms[0]?.url ?? '',
      DATA_DIR: join(this.#folder, options.name),
      ...options.env,
    }
    const agent = launchAgentProcess(env, options.prefix)
    this.#agents.push(agent)
    return agent
  }

  /** Resolves when exactly this many agents are live. */
  async agents(count: number, ms = 60_000): Promise<void> {
    const live = `select id from agents where state = 'live'`
    await eventually(async () => (await this.database.query(live)).length === count, {
      ms,
      what: `${count} live agents`,
    })
  }

  /**
   * Waits until the platform has swept every slot before `until`, then checks the tables against the definitions
   * by an independent computation.
   */
  async account(until: number = Date.now(), waitMs = 120_000): Promise<Account> {
    return accountIn(this.database, until, waitMs)
  }

  /** Whether this many monitors have passed in slots at or after this instant. */
  async havePassed(since: number, monitors: number): Promise<boolean> {
    const [row] = await this.database.query<{ n: number }>(
      `select count(distinct monitor_id)::int as n from results
       where slot >= to_timestamp($1::float8 / 1000) and verdict = 'passed'`,
      [since],
    )
    return row !== undefined && row.n >= monitors
  }

  /** Number of requests that the target has received. */
  requests(): number {
    return this.target.requests
  }

  async close(): Promise<void> {
    for (const agent of this.#agents) agent.child.kill('SIGKILL')
    await Promise.all(this.#agents.map((agent) => agent.ended))
    for (const platform of this.platforms) platform.kill('SIGKILL')
    await Promise.all(this.platforms.map((platform) => platform.ended))
    this.target.close()
    await this.#made.drop()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** A fleet of one test, with a running platform, a location, and a live agent of each name. */
export async function fleetOf(
  names: readonly string[],
  env: Record<string, string> = {},
  server?: RunningServer,
): Promise<{
  fleet: Fleet
  platform: StartedPlatform
  location: FleetLocation
  agents: AgentProcess[]
}> {
  const fleet = await Fleet.create(env, server)
  onTestFinished(() => fleet.close())
  const platform = await fleet.startPlatform()
  const location = await fleet.createLocation('cellar')
  const agents = names.map((name) => fleet.startAgent({ location, name }))
  await fleet.agents(names.length)
  return { fleet, platform, location, agents }
}

/** Counts over all slots before an instant. */
export interface Account {
  expected: number
  recorded: number
  /** Expected slots without a row. */
  missing: number
  /** Rows for slots that nobody expects. */
  unexpected: number
  byVerdict: Record<string, number>
  byReason: Record<string, number>
  /** A sample of the missed slots, for diagnosis. */
  examples: unknown[]
}

/**
 * Errors of an account whose slots should all have passed. A slow machine is no error: a few slots may be
 * overtaken on the agent.
 */
export function faultsOf(account: Account): Record<string, unknown> {
  const { expected, missing, unexpected, byReason, byVerdict, examples } = account
  const { 'still-running': late = 0, overloaded = 0, ...others } = byReason
  const { passed = 0, missed: _missed, ...otherVerdicts } = byVerdict
  const slow = late + overloaded
  const faults = {
    ...(missing > 0 && { missing }),
    ...(unexpected > 0 && { unexpected }),
    ...others,
    ...otherVerdicts,
    ...(slow > expected / 10 && { slow }),
    ...(passed === 0 && { passed }),
  }
  return Object.keys(faults).length === 0 ? {} : { ...faults, examples }
}

/** The same for any database of a platform. */
export async function accountIn(
  database: Database,
  until: number = Date.now(),
  waitMs = 120_000,
): Promise<Account> {
  const swept = 'select swept_until_ms as swept from accounting'
  await eventually(
    async () => {
      const [row] = await database.query<{ swept: number }>(swept)
      return row !== undefined && row.swept >= until
    },
    { ms: waitMs, what: 'the sweep up to now' },
  )
  return accountOf(database, until)
}

async function accountOf(database: Database, until: number): Promise<Account> {
  const [row] = await database.query<Account>(
    `with expected as (
       select e.location_id, e.monitor_id, to_timestamp(s / 1000.0) as slot
       from expectations e, lateral generate_series(
         ((e.from_ms - e.offset_ms + e.every_ms - 1) / e.every_ms) * e.every_ms + e.offset_ms,
         least(coalesce(e.until_ms, $1::bigint), $1::bigint) - 1, e.every_ms) s
     ), rows as (
       select * from results where slot < to_timestamp($1::bigint / 1000.0)
     ), joined as (
       select e.slot as expected, r.slot as recorded, r.verdict, r.missed_reason
       from expected e full join rows r using (location_id, monitor_id, slot)
     )
     select count(expected)::int as expected, count(recorded)::int as recorded,
       count(*) filter (where recorded is null)::int as missing,
       count(*) filter (where expected is null)::int as unexpected,
       (select coalesce(jsonb_object_agg(verdict, n), '{}') from
         (select verdict, count(*) n from rows group by 1) v) as "byVerdict",
       (select coalesce(jsonb_object_agg(missed_reason, n), '{}') from
         (select missed_reason, count(*) n from rows where missed_reason is not null group by 1) m)
         as "byReason",
       (select coalesce(jsonb_agg(to_jsonb(e)), '[]') from (
         select r.monitor_id, r.slot, r.missed_reason, r.filled, r.received_at, r.started_at,
           p.from_ms, to_timestamp(p.from_ms / 1000.0) as placed, p.every_ms
         from rows r left join placements p using (location_id, monitor_id)
         where r.verdict <> 'passed' order by r.slot limit 10) e) as examples
     from joined`,
    [Math.floor(until)],
  )
  if (row === undefined) throw new Error('a count has one row')
  return row
}

/** The target of the fleet's monitors; it counts requests. */
export interface Target {
  url: string
  requests: number
  /** Listens on another address as well; the returned function ends that. */
  alsoIn(prefix: readonly string[]): () => void
  close(): void
}

async function startTarget(): Promise<Target> {
  const server: Server = createServer((_, response) => {
    target.requests++
    response.end('here')
  })
  await new Promise<void>((resolve) => server.listen(0, resolve))
  const target: Target = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: 0,
    alsoIn(prefix) {
      const { port } = new URL(target.url)
      const script = `require('http').createServer((q, s) => s.end('here')).listen(${port})`
      const child = spawn('env', [...prefix, process.execPath, '-e', script], { stdio: 'ignore' })
      return () => child.kill('SIGKILL')
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
  return target
}
