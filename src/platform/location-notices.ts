// Locations in which monitors stand and no agent does: told once after ten minutes, and once when an agent
// is there again. That no agent ever came and that one fell silent are told apart.
import type { LocationPayload } from '../contract/alert-payload.ts'
import { readChannelChoices } from '../store/alert-channels.ts'
import {
  insertNotifications,
  takeAttended,
  takeUnattended,
  type LocationRow,
  type NewNotification,
} from '../store/alert-notifications.ts'
import type { Database } from '../store/database.ts'
import type { Connection } from '../store/statement.ts'
import type { Chore } from './chores.ts'
import type { Told } from './incident-notices.ts'
import { linkTo } from './payload-links.ts'

/** How long a location is without agents before that is told. */
export const ABSENT_MS = 600_000

/** The chore that tells. */
export function locationNoticesChore(database: Database, told: Told): Chore {
  return {
    name: 'location-notices',
    everyMs: 15_000,
    leaseMs: 30_000,
    run: () =>
      database.transaction(async (inside) => {
        for (const location of await takeUnattended(inside, ABSENT_MS)) {
          await tell(inside, payloadOf('location.unattended', location, told))
        }
        for (const location of await takeAttended(inside)) {
          await tell(inside, payloadOf('location.attended', location, told))
        }
      }),
  }
}

function payloadOf(
  type: LocationPayload['type'],
  { id, accountId, name, slugName, since, lastSeenAt }: LocationRow,
  told: Told,
): LocationPayload {
  const absence = lastSeenAt === null ? 'never-reported' : 'stopped-reporting'
  const isAbsent = type === 'location.unattended'
  return {
    type,
    at: new Date(told.now()).toISOString(),
    accountId,
    title: isAbsent ? TITLES[absence](name) : `Location ${name} has an agent again`,
    location: { id, name, slugName },
    ...(isAbsent && { absence }),
    since: since?.toISOString() ?? null,
    lastSeenAt: lastSeenAt?.toISOString() ?? null,
    links: { location: linkTo(told, `/v1/private-locations/${id}`) },
  }
}

const TITLES = {
  'never-reported': (name: string) =>
    `Location ${name} has monitors, and no agent has ever reported from it`,
  'stopped-reporting': (name: string) =>
    `Location ${name} has no agent: the last one stopped reporting`,
}

async function tell(inside: Connection, payload: LocationPayload): Promise<void> {
  const { accountId, location } = payload
  const channels = await readChannelChoices(inside, accountId)
  const all: NewNotification[] = channels
    .filter(({ sendNotices, isPaused }) => sendNotices && !isPaused)
    .map(({ id }) => ({ accountId, channelId: id, monitorId: null, topic: location.id, payload }))
  await insertNotifications(inside, all)
}
