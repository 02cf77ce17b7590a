// Recipients and text of an alert: notifications for the channels of a monitor.
import type { AlertEvent, AlertKind } from '../../contract/api/alert.ts'
import type { AlertPayload, BadRun, LocationName } from '../../contract/api/alert-payload.ts'
import type { Monitor } from '../../contract/monitor.ts'
import { readChannelChoices, type ChannelChoice } from './queries/channels.ts'
import {
  insertNotifications,
  readLocationNames,
  type NewNotification,
} from './queries/alert-notifications.ts'
import type { AlertedMonitor } from './queries/states.ts'
import type { Queryable } from '../../database/database.ts'
import { linkTo, type NoticeOptions } from '../incidents/notices.ts'

export interface AlertToSend {
  monitor: AlertedMonitor
  definition: Monitor
  event: AlertEvent
  run: BadRun | null
  incidentId: string | null
  /** Time of the reported event: the end of the run that decided, or now. */
  happenedAt: number
}

const WANTS: Record<AlertKind, (channel: ChannelChoice) => boolean> = {
  failure: ({ sendFailure }) => sendFailure,
  reminder: ({ sendFailure }) => sendFailure,
  recovery: ({ sendRecovery }) => sendRecovery,
  degraded: ({ sendDegraded }) => sendDegraded,
  'degraded-recovery': ({ sendDegraded, sendRecovery }) => sendDegraded && sendRecovery,
}

const TITLES: Record<AlertKind, (name: string) => string> = {
  failure: (name) => `${name} is failing`,
  reminder: (name) => `${name} is still failing`,
  recovery: (name) => `${name} has recovered`,
  degraded: (name) => `${name} is degraded`,
  'degraded-recovery': (name) => `${name} is no longer degraded`,
}

/**
 * The channels that a monitor is reported through: those that it, its group or the channel itself names.
 * Where no existing channel is named, the account's default ones. Paused channels receive nothing.
 */
function channelsOf(
  channels: readonly ChannelChoice[],
  monitor: Pick<AlertedMonitor, 'id' | 'groupId'>,
  subscriptions: Monitor['alertChannelSubscriptions'],
): ChannelChoice[] {
  const named = new Map<unknown, boolean>()
  for (const { id, subscriptions: own } of channels) {
    for (const { checkId, groupId, activated } of own) {
      const isMeant =
        checkId?.toLowerCase() === monitor.id || (groupId != null && groupId === monitor.groupId)
      if (isMeant) named.set(id, activated || named.get(id) === true)
    }
  }
  // The monitor's own settings override those of its channels.
  const there = new Set<unknown>(channels.map(({ id }) => id))
  for (const { alertChannelId, activated } of subscriptions) {
    // A deleted channel counts as never named, so that the monitor is not left without channels.
    if (there.has(alertChannelId)) named.set(alertChannelId, activated)
  }
  const open = channels.filter(({ pausedAt }) => pausedAt === null)
  if (named.size === 0) return open.filter(({ autoSubscribe }) => autoSubscribe)
  return open.filter(({ id }) => named.get(id) === true)
}

/** Puts the notifications into the outbox. */
export async function queueAlerts(
  tx: Queryable,
  all: readonly AlertToSend[],
  options: NoticeOptions,
): Promise<void> {
  if (all.length === 0) return
  const ids = all.flatMap(({ event, run, monitor }) => [
    ...event.locations,
    ...monitor.unattended,
    ...(run ? [run.location] : []),
  ])
  const names = await readLocationNames(tx, [...new Set(ids)])
  const byAccount = new Map<string, ChannelChoice[]>()
  const notifications: NewNotification[] = []
  for (const one of all) {
    const { accountId, id: monitorId } = one.monitor
    const channels = byAccount.get(accountId) ?? (await readChannelChoices(tx, accountId))
    byAccount.set(accountId, channels)
    const subscriptions = one.definition.alertChannelSubscriptions
    const wanted = channelsOf(channels, one.monitor, subscriptions).filter(WANTS[one.event.kind])
    if (wanted.length === 0) continue
    const payload = payloadOf(one, names, options)
    const { happenedAt } = one
    for (const { id: channelId } of wanted) {
      notifications.push({ accountId, channelId, monitorId, topic: monitorId, payload, happenedAt })
    }
  }
  await insertNotifications(tx, notifications)
}

function payloadOf(
  { monitor, event, run, incidentId }: AlertToSend,
  names: ReadonlyMap<string, LocationName>,
  options: NoticeOptions,
): AlertPayload {
  const { id, name, checkType, tags, groupId, groupName, accountId } = monitor
  const places = event.locations.length === 0 && run !== null ? [run.location] : event.locations
  const { kind, since, reminder } = event
  const named = (place: string) => names.get(place) ?? { id: place, name: place, slugName: '' }
  const unattended = monitor.unattended.map(named)
  const without = unattended.map((place) => place.name).join(', ')
  return {
    type: `alert.${kind}`,
    at: new Date(options.now()).toISOString(),
    accountId,
    title: TITLES[kind](name) + (without && ` (no agent in ${without})`),
    monitor: {
      id,
      name,
      checkType,
      tags,
      group: groupId === null ? null : { id: groupId, name: groupName ?? '' },
    },
    alert: { since: new Date(since).toISOString(), ...(reminder !== undefined && { reminder }) },
    locations: places.map(named),
    ...(unattended.length > 0 && { unattended }),
    run,
    incidentId,
    links: {
      monitor: linkTo(options, `/v1/checks/${id}`),
      results: linkTo(options, `/v1/check-results/${id}`),
      incident: incidentId && linkTo(options, `/v1/status-pages/incidents/${incidentId}`),
    },
  }
}
