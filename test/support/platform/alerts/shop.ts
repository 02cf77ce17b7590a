// An account with a web shop that is monitored: a location, a service, an alert channel, and a clock that stands.
import { beforeEach } from 'vitest'
import type { DatabaseServer } from '../../database/database.ts'
import { useDatabase } from '../../database/database.ts'
import { servePublicApi, type ApiClient, type Loose } from '../public-api.ts'
import { createAlertedAccount, type AlertedAccount, type GivenRun } from './alerted-account.ts'

export const MINUTE = 60_000
/** Where the account's clock stands. */
export const START = Date.UTC(2026, 5, 1)
export const INCIDENTS = '/v1/status-pages/incidents'
export const SERVICES = '/v1/status-pages/services'

/** Gives every test of the suite an account of its own, on this PostgreSQL. */
export function useShop(server: DatabaseServer | undefined) {
  const database = useDatabase(server)
  const { addClient } = servePublicApi(database)
  let client: ApiClient
  let account: AlertedAccount
  let location: string
  let service: { id: string }

  beforeEach(async () => {
    client = await addClient()
    const options = { publicUrl: 'https://vedette.example.com/' }
    account = await createAlertedAccount(database().database, client.accountId, options)
    account.clock.nowMs = START
    location = await account.addLocation()
    service = (await client.call('POST', SERVICES, { body: { name: 'Shop' } })).body
    await addChannel({ autoSubscribe: true })
  })

  const addChannel = async (fields: object = {}): Promise<{ id: number }> => {
    const config = { name: 'on call', url: 'http://127.0.0.1:1/' }
    const body = { type: 'WEBHOOK', config, ...fields }
    return (await client.call('POST', '/v1/alert-channels', { body })).body
  }
  const trigger = (fields: object = {}) => ({
    triggerIncident: {
      serviceId: service.id,
      severity: 'MAJOR',
      name: 'The shop is down',
      description: 'We look into it.',
      notifySubscribers: false,
      ...fields,
    },
  })
  const run = (monitorId: string, minute: number, verdict: GivenRun['verdict']): GivenRun => ({
    monitorId,
    locationId: location,
    slot: START + minute * MINUTE,
    verdict,
    ...(verdict === 'failed' && {
      failures: [{ code: 'CONNECT_REFUSED', message: 'the target refused' }],
    }),
  })
  const kinds = async () => (await account.notifications()).map(({ kind }) => kind)
  const incidents = async (): Promise<Loose[]> => (await client.call('GET', INCIDENTS)).body.entries
  const states = () =>
    database().database.query('select * from alert_states where account_id = $1', [
      account.accountId,
    ])
  return {
    database,
    /** Adds a monitor in the location. */
    monitor: (fields: object = {}) => account.addMonitor([location], fields),
    record: (...runs: GivenRun[]) => account.record(...runs),
    notifications: () => account.notifications(),
    runJobs: () => account.runBackgroundJobs(),
    addChannel,
    trigger,
    run,
    kinds,
    incidents,
    states,
    get client() {
      return client
    },
    get account() {
      return account
    },
    get location() {
      return location
    },
    get service() {
      return service
    },
  }
}
