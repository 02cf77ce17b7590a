// An account with monitors in locations whose results a test records, and webhook receivers with configurable
// answers.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { WireResult } from '../../../../src/contract/protocol/agent-protocol.ts'
import type { Payload } from '../../../../src/contract/api/alert-payload.ts'
import { createAlerting, type Alerting } from '../../../../src/platform/alerts/alerting.ts'
import { createCipher } from '../../../../src/platform/secrets/cipher.ts'
import type { Database } from '../../../../src/database/database.ts'
import { collectingLog } from '../../collecting-log.ts'
import { startHttpServer, type TestServer } from '../../test-server.ts'

/** The public API of tests encrypts with it as well. */
export const CIPHER = createCipher('a secret that only tests know')

/** A clock that tests move. */
export interface SetClock {
  nowMs: number
  now(): number
}

/** A run to be recorded: verdict and slot, in milliseconds. */
export interface GivenRun {
  monitorId: string
  locationId: string
  slot: number
  verdict: WireResult['verdict']
  failures?: { code: string; message: string }[]
  late?: boolean
  onDemand?: string
}

/** The account and its operations. */
export interface AlertedAccount {
  accountId: string
  clock: SetClock
  /** Of its log. */
  lines: readonly string[]
  alerting: Alerting
  addLocation(name?: string): Promise<string>
  /** Adds a monitor in locations; `fields` go into its definition. */
  addMonitor(locationIds: string[], fields?: object): Promise<string>
  setMonitor(id: string, fields: { muted?: boolean; activated?: boolean }): Promise<void>
  record(...runs: GivenRun[]): Promise<void>
  /** Runs the background jobs of alerting once. */
  runBackgroundJobs(): Promise<void>
  /** Kinds of notifications in order, with their payload. */
  notifications(): Promise<{ kind: string; state: string; payload: Payload; channel: number }[]>
}

/** Creates alerting for an account of `database`, with all results in one partition. */
export async function createAlertedAccount(
  database: Database,
  accountId: string,
  { publicUrl }: { publicUrl?: string } = {},
): Promise<AlertedAccount> {
  await database.query('create table if not exists results_any partition of results default')
  const clock: SetClock = {
    nowMs: Date.now(),
    now() {
      return this.nowMs
    },
  }
  const { log, lines } = collectingLog()
  const outbox = { againMs: () => 20, restMs: 20 }
  const alerting = createAlerting({ database, cipher: CIPHER, clock, log, publicUrl, outbox })
  return {
    accountId,
    clock,
    lines,
    alerting,
    addLocation: (name = 'north') => addLocation(database, accountId, name),
    addMonitor: (locationIds, fields = {}) => addMonitor(database, accountId, locationIds, fields),
    async setMonitor(id, { muted, activated }) {
      await database.query(
        `update monitors set muted = coalesce($2, muted), activated = coalesce($3, activated)
         where id = $1`,
        [id, muted ?? null, activated ?? null],
      )
    },
    record: (...runs) => record(database, accountId, alerting, runs),
    async runBackgroundJobs() {
      const signal = AbortSignal.timeout(20_000)
      for (const backgroundJob of alerting.backgroundJobs) await backgroundJob.run(signal)
    },
    notifications: () =>
      database.query(
        `select kind, state, payload, channel_id as channel from alert_notifications
         where account_id = $1 order by seq`,
        [accountId],
      ),
  }
}

async function addLocation(database: Database, accountId: string, name: string): Promise<string> {
  const id = randomUUID()
  await database.query(
    'insert into private_locations (id, account_id, name, slug_name) values ($1, $2, $3, $4)',
    [id, accountId, name, `l-${id.slice(0, 8)}`],
  )
  return id
}

async function addMonitor(
  database: Database,
  accountId: string,
  locationIds: string[],
  fields: object,
): Promise<string> {
  const id = randomUUID()
  const definition = {
    id,
    name: 'Shop',
    checkType: 'URL',
    activated: true,
    muted: false,
    runParallel: true,
    useGlobalAlertSettings: true,
    alertChannelSubscriptions: [],
    triggerIncident: null,
    ...fields,
  }
  const encrypted = CIPHER.encrypt(JSON.stringify(definition))
  await database.query(
    `insert into monitors (id, account_id, check_type, name, activated, muted, tags, definition,
       effective)
     values ($1, $2, 'URL', $3, true, $4, '{shop,web}', $5, $5)`,
    [id, accountId, definition.name, definition.muted, encrypted],
  )
  await database.query(
    `insert into placements (location_id, monitor_id, revision, needs, every_ms, offset_ms, from_ms)
     select one, $2, 1, '{URL}', 60000, 0, 0 from unnest($1::uuid[]) one`,
    [locationIds, id],
  )
  return id
}

async function record(
  database: Database,
  accountId: string,
  { onRecorded }: Alerting,
  runs: readonly GivenRun[],
): Promise<void> {
  const locationId = runs[0]?.locationId ?? ''
  const results = runs.map((given) => {
    const { late = false, locationId: _, ...run } = given
    const more = { startedAt: run.slot, durationMs: 12, responseTimeMs: 10, attempts: 1 }
    return { late, result: { ...run, ...more } }
  })
  await database.transaction(async (tx) => {
    for (const { result } of results) {
      await tx.query(
        `insert into results (location_id, monitor_id, slot, account_id, verdict, started_at,
           duration_ms, attempts)
         values ($1, $2, $3, $4, $5, $3, 12, 1)`,
        [locationId, result.monitorId, new Date(result.slot), accountId, result.verdict],
      )
    }
    await onRecorded(tx, { accountId, locationId, agentId: randomUUID(), results })
  })
}

/** A received webhook. */
export interface Arrived {
  method: string
  url: string
  headers: IncomingMessage['headers']
  body: string
}

/** A receiver of webhooks. */
export interface Receiver extends TestServer {
  url: string
  arrived: Arrived[]
  /** Resolves when `count` have arrived in total. */
  waitFor(count: number): Promise<Arrived[]>
}

/** Starts a receiver; `answer` gives the answer to the n-th request, from 0. Default: 204. */
export async function startReceiver(
  answer: (response: ServerResponse, n: number, arrived: Arrived) => void = (response) =>
    void response.writeHead(204).end(),
): Promise<Receiver> {
  const arrived: Arrived[] = []
  const waiting: { count: number; resolve: () => void }[] = []
  const server = await startHttpServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => void chunks.push(chunk))
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      const one = { method, url, headers, body: Buffer.concat(chunks).toString('utf8') }
      arrived.push(one)
      answer(response, arrived.length - 1, one)
      for (const { count, resolve } of waiting) if (arrived.length >= count) resolve()
    })
  })
  return Object.assign(server, {
    url: `http://${server.authority}/hook`,
    arrived,
    async waitFor(count: number) {
      if (arrived.length < count) {
        await new Promise<void>((resolve) => void waiting.push({ count, resolve }))
      }
      return arrived
    },
  })
}
