// Notices about locations: one when a location with monitors has had no agent for ten minutes, one when it has
// an agent again. The first says whether an agent ever reported. Likewise one notice for all monitors when
// the network of its agents does not work, and one when it works again.
import type { LocationPayload } from '../../contract/api/alert-payload.ts'
import { insertNotices } from './queries/alert-notifications.ts'
import { markLocations, type NoticedLocation } from './queries/location-notices.ts'
import { hurryAlertStates } from './queries/states.ts'
import type { Database, Queryable } from '../../database/database.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { linkTo, type NoticeOptions } from '../incidents/notices.ts'

/** What a notice says in addition to the facts of its location. */
type Notice = Pick<LocationPayload, 'type' | 'title' | 'absence' | 'agents'>

/** Makes the background job that sends the notices. */
export function locationNoticesJob(database: Database, options: NoticeOptions): BackgroundJob {
  const notify = async (
    tx: Queryable,
    locations: readonly NoticedLocation[],
    noticeOf: (location: NoticedLocation) => Notice,
  ) => {
    for (const one of locations) {
      const payload = { ...factsOf(one, options), ...noticeOf(one) }
      await insertNotices(tx, payload, one.id)
    }
  }
  return {
    name: 'location-notices',
    everyMs: 15_000,
    timeoutMs: 30_000,
    run: () =>
      database.transaction(async (tx) => {
        const unattended = await markLocations(tx, 'unattended', 'begun')
        // The last verdicts from there no longer count, so alerts may end.
        const ids = unattended.map(({ id }) => id)
        await hurryAlertStates(tx, ids, options.now())
        await notify(tx, unattended, absenceOf)
        await notify(tx, await markLocations(tx, 'unattended', 'over'), ({ name }) => ({
          type: 'location.attended',
          title: `Location ${name} has an agent again`,
        }))
        await notify(tx, await markLocations(tx, 'network-unreachable', 'begun'), networkLossOf)
        await notify(tx, await markLocations(tx, 'network-unreachable', 'over'), ({ name }) => ({
          type: 'location.network-reachable',
          title: `Location ${name} reaches its network again`,
        }))
      }),
  }
}

function absenceOf({ name, lastSeenAt }: NoticedLocation): Notice {
  const type = 'location.unattended'
  return lastSeenAt === null
    ? {
        type,
        absence: 'never-reported',
        title: `Location ${name} has monitors, and no agent has ever reported from it`,
      }
    : {
        type,
        absence: 'stopped-reporting',
        title: `Location ${name} has no agent: the last one stopped reporting`,
      }
}

function networkLossOf({ name, agents }: NoticedLocation): Notice {
  const what = agents.every(({ problem }) => problem === 'RESOLVER_UNREACHABLE')
    ? 'reaches none of its name servers'
    : 'does not reach its own network'
  const title = `Location ${name} ${what}: its monitors are errored`
  return { type: 'location.network-unreachable', title, agents }
}

/** Fields of every notice about a location. */
function factsOf(
  { id, accountId, name, slugName, since, lastSeenAt }: NoticedLocation,
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
