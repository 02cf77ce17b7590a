// Notices about locations: one when a location with monitors has had no agent for ten minutes, one when it has
// an agent again. The first says whether an agent ever reported. Likewise one notice for all monitors when
// the network of its agents does not work, and one when it works again.
import type { LocationPayload } from '../../contract/api/alert-payload.ts'
import { readChannelChoices } from './queries/channels.ts'
import {
  insertNotifications,
  clearUnattended,
  clearNetworkLost,
  markNetworkLost,
  markUnattended,
  type LocationRow,
  type NetworkLossRow,
  type NewNotification,
} from './queries/alert-notifications.ts'
import { hurryAlertStates } from './queries/states.ts'
import type { Database, Queryable } from '../../database/database.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import type { NoticeOptions } from '../incidents/notices.ts'
import { linkTo } from '../incidents/payload-links.ts'

/** Time without an agent after which a location is reported. */
const ABSENT_MS = 600_000

/** Time without a working network after which an agent's location is reported. */
const NETWORK_LOST_MS = 30_000

/** Makes the background job that sends the notices. */
export function locationNoticesJob(database: Database, options: NoticeOptions): BackgroundJob {
  return {
    name: 'location-notices',
    everyMs: 15_000,
    timeoutMs: 30_000,
    run: () =>
      database.transaction(async (tx) => {
        const unattended = await markUnattended(tx, ABSENT_MS)
        // The last verdicts from there no longer count, so alerts may end.
        const ids = unattended.map(({ id }) => id)
        await hurryAlertStates(tx, ids, options.now())
        for (const location of unattended) {
          await notify(tx, payloadOf('location.unattended', location, options))
        }
        for (const location of await clearUnattended(tx)) {
          await notify(tx, payloadOf('location.attended', location, options))
        }
        for (const location of await markNetworkLost(tx, NETWORK_LOST_MS)) {
          await notify(tx, networkPayload('location.network-unreachable', location, options))
        }
        for (const location of await clearNetworkLost(tx)) {
          await notify(tx, networkPayload('location.network-reachable', location, options))
        }
      }),
  }
}

function payloadOf(
  type: 'location.unattended' | 'location.attended',
  location: LocationRow,
  options: NoticeOptions,
): LocationPayload {
  const { name } = location
  if (type === 'location.attended') {
    return { ...factsOf(location, options), type, title: `Location ${name} has an agent again` }
  }
  const absence = location.lastSeenAt === null ? 'never-reported' : 'stopped-reporting'
  return { ...factsOf(location, options), type, title: TITLES[absence](name), absence }
}

function networkPayload(
  type: 'location.network-unreachable' | 'location.network-reachable',
  location: NetworkLossRow,
  options: NoticeOptions,
): LocationPayload {
  const { name, agents } = location
  const facts = factsOf(location, options)
  if (type === 'location.network-reachable') {
    return { ...facts, type, title: `Location ${name} reaches its network again` }
  }
  const what = agents.every(({ problem }) => problem === 'RESOLVER_UNREACHABLE')
    ? 'reaches none of its name servers'
    : 'does not reach its own network'
  return { ...facts, type, title: `Location ${name} ${what}: its monitors are errored`, agents }
}

/** Fields of every notice about a location. */
function factsOf(
  { id, accountId, name, slugName, since, lastSeenAt }: LocationRow,
  options: NoticeOptions,
) {
  return {
    at: new Date(options.now()).toISOString(),
    accountId,
    location: { id, name, slugName },
    since: since?.toISOString() ?? null,
    lastSeenAt: lastSeenAt?.toISOString() ?? null,
    links: { location: linkTo(options, `/v1/private-locations/${id}`) },
  }
}

const TITLES = {
  'never-reported': (name: string) =>
    `Location ${name} has monitors, and no agent has ever reported from it`,
  'stopped-reporting': (name: string) =>
    `Location ${name} has no agent: the last one stopped reporting`,
}

async function notify(tx: Queryable, payload: LocationPayload): Promise<void> {
  const { accountId, location } = payload
  const channels = await readChannelChoices(tx, accountId)
  const all: NewNotification[] = channels
    .filter(({ sendNotices, isPaused }) => sendNotices && !isPaused)
    .map(({ id }) => ({ accountId, channelId: id, monitorId: null, topic: location.id, payload }))
  await insertNotifications(tx, all)
}
