// An account with a web shop that is monitored: a location, a service, an alert channel, and a clock that stands.
import { randomUUID } from 'node:crypto'
import { beforeEach } from 'vitest'
import type { Payload } from '../../../../src/contract/api/alert-payload.ts'
import type { WireResult } from '../../../../src/contract/protocol/agent-protocol.ts'
import { type Alerting, createAlerting } from '../../../../src/platform/alerts/alerting.ts'
import { collectingLog } from '../../collecting-log.ts'
import { type DatabaseServer, useDatabase } from '../../database/database.ts'
import { addLocation } from '../locations.ts'
import { addResult } from '../monitor-rows.ts'
import { placeMonitor } from '../placed-monitors.ts'
import { servePublicApi, TEST_CIPHER, type ApiClient, type Loose } from '../public-api.ts'

export const MINUTE = 60_000
/** Where the account's clock stands. */
export const START = Date.UTC(2026, 5, 1)
export const INCIDENTS = '/v1/status-pages/incidents'
export const SERVICES = '/v1/status-pages/services'

/** A run to be recorded: verdict and slot, in milliseconds. */
export interface GivenRun extends Pick<WireResult, 'monitorId' | 'slot' | 'verdict' | 'onDemand'> {
  locationId: string
  failures?: { code: string; message: string }[]
  late?: boolean
}

/** What each test gets anew. */
interface Scene {
  client: ApiClient
  accountId: string
  location: string
  service: { id: string }
  alerting: Alerting
  /** Of the log. */
  lines: readonly string[]
}

/** Gives every test of the suite an account of its own, on this PostgreSQL. */
export function useShop(server?: DatabaseServer) {
  const database = useDatabase(server)
  const db = () => database().database
  const publicUrl = 'https://vedette.example.com/'
  const { addClient } = servePublicApi(database, () => ({ publicUrl }))
  const clock = { nowMs: START, now: () => clock.nowMs }
  const scene = {} as Scene

  beforeEach(async () => {
    await db().query('create table if not exists results_any partition of results default')
    clock.nowMs = START
    const { log, lines } = collectingLog()
    const client = await addClient()
    const { accountId } = client
    const alerting = createAlerting({ database: db(), cipher: TEST_CIPHER, clock, log, publicUrl })
    Object.assign(scene, { client, accountId, alerting, lines })
    scene.location = await addPlace('north')
    scene.service = (await client.call('POST', SERVICES, { body: { name: 'Shop' } })).body
    await addChannel({ autoSubscribe: true })
  })

  const addPlace = async (slugName: string) =>
    (await addLocation(db(), { accountId: scene.accountId, slugName })).id
  const addChannel = async (fields: object = {}): Promise<{ id: number }> => {
    const config = { name: 'on call', url: 'http://127.0.0.1:1/' }
    const body = { type: 'WEBHOOK', config, ...fields }
    return (await scene.client.call('POST', '/v1/alert-channels', { body })).body
  }
  const monitor = async (fields: object = {}, locations = [scene.location]): Promise<string> => {
    const id = randomUUID()
    const common = { id, name: 'Shop', checkType: 'URL', runParallel: true, triggerIncident: null }
    const alerts = { useGlobalAlertSettings: true, alertChannelSubscriptions: [] }
    const definition = { ...common, ...alerts, ...fields }
    await db().query(
      `insert into monitors (id, account_id, check_type, name, activated, muted, tags, definition,
         effective)
       values ($1, $2, 'URL', 'Shop', true, false, '{shop,web}', $3, $3)`,
      [id, scene.accountId, TEST_CIPHER.encrypt(JSON.stringify(definition))],
    )
    const era = { monitorId: id, fromMs: 0, everyMs: MINUTE }
    for (const one of locations) await placeMonitor(db(), one, era)
    return id
  }
  const trigger = (fields: object = {}) => ({
    triggerIncident: {
      serviceId: scene.service.id,
      severity: 'MAJOR',
      name: 'The shop is down',
      description: 'We look into it.',
      notifySubscribers: false,
      ...fields,
    },
  })
  const run = (
    monitorId: string,
    minute: number,
    verdict: GivenRun['verdict'],
    locationId = scene.location,
  ): GivenRun => ({
    monitorId,
    locationId,
    slot: START + minute * MINUTE,
    verdict,
    ...(verdict === 'failed' && {
      failures: [{ code: 'CONNECT_REFUSED', message: 'the target refused' }],
    }),
  })
  /** Passes results to alerting, without recording them. */
  const notify = (tx: Parameters<Alerting['onRecorded']>[0], runs: GivenRun[]) =>
    scene.alerting.onRecorded(tx, {
      accountId: scene.accountId,
      locationId: runs[0]?.locationId ?? '',
      agentId: randomUUID(),
      results: runs.map((given) => {
        const { late = false, locationId: _, ...one } = given
        const more = { startedAt: one.slot, durationMs: 12, responseTimeMs: 10, attempts: 1 }
        return { late, result: { ...one, ...more } }
      }),
    })
  const record = (...runs: GivenRun[]) =>
    db().transaction(async (tx) => {
      for (const { locationId: id, monitorId, slot: slotMs, verdict } of runs) {
        await addResult(tx, { id, accountId: scene.accountId }, { monitorId, slotMs, verdict })
      }
      await notify(tx, runs)
    })
  /** Notifications in order. */
  const notifications = () =>
    db().query<{ kind: string; at: Date; payload: Payload; channel: number }>(
      `select kind, happened_at as at, payload, channel_id as channel from alert_notifications
       where account_id = $1 order by seq`,
      [scene.accountId],
    )
  return Object.assign(scene, {
    clock,
    db,
    addChannel,
    addPlace,
    /** Adds a monitor, by default in the location; `fields` go into its definition. */
    monitor,
    trigger,
    run,
    notify,
    record,
    notifications,
    kinds: async () => (await notifications()).map(({ kind }) => kind),
    incidents: async (): Promise<Loose[]> => (await scene.client.get(INCIDENTS)).entries,
    states: () => db().query('select * from alert_states where account_id = $1', [scene.accountId]),
    /** Changes the monitor's row. */
    change: (id: string, set: string) =>
      db().query(`update monitors set ${set} where id = $1`, [id]),
    /** Runs the background jobs of alerting once. */
    runJobs: async () => {
      const signal = AbortSignal.timeout(20_000)
      for (const job of scene.alerting.backgroundJobs) await job.run(signal)
    },
  })
}
