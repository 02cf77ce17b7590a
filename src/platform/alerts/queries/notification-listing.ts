// Statements that list the notifications of channels, sent or waiting.
import type { Queryable } from '../../../database/database.ts'

/** A notification as it is listed. */
export interface NotificationRow {
  id: string
  channelId: number
  channelType: 'WEBHOOK'
  monitorId: string | null
  kind: string
  state: 'waiting' | 'sent' | 'failed' | 'merged'
  attempts: number
  status: number | null
  message: string | null
  nextAt: Date | null
  payload: Record<string, unknown>
  createdAt: Date
  finishedAt: Date | null
}

/** Which notifications to list; null lets all pass. */
export interface NotificationFilters {
  accountId: string
  channelId: number | null
  from: Date | null
  to: Date | null
  hasFailed: boolean | null
}

type FilterValues = [string, number | null, Date | null, Date | null, boolean | null]

const LISTED = `from alert_notifications n
   where n.account_id = $1::uuid and ($2::bigint is null or n.channel_id = $2::bigint)
     and ($3::timestamptz is null or n.created_at >= $3::timestamptz)
     and ($4::timestamptz is null or n.created_at < $4::timestamptz)
     and ($5::boolean is null or (n.state = 'failed') = $5::boolean)`

const list = {
  name: 'alert-notifications-list',
  text: `select n.id, n.channel_id as "channelId", c.type as "channelType", n.monitor_id as "monitorId",
     n.kind, n.state, n.attempts, n.status, n.message, n.next_at as "nextAt", n.payload,
     n.created_at as "createdAt", n.finished_at as "finishedAt"
   from (select n.* ${LISTED}
     order by n.created_at desc, n.id desc limit $6::int offset $7::bigint) n
   join alert_channels c on c.id = n.channel_id
   order by n.created_at desc, n.id desc`,
}

const count = { name: 'alert-notifications-count', text: `select count(*)::int as count ${LISTED}` }

function valuesOf(filters: NotificationFilters): FilterValues {
  const { accountId, channelId, from, to, hasFailed } = filters
  return [accountId, channelId, from, to, hasFailed]
}

/** Notifications of an account, newest first. */
export function listNotifications(
  connection: Queryable,
  filters: NotificationFilters,
  { limit, offset }: { limit: number; offset: number },
): Promise<NotificationRow[]> {
  return connection.query<NotificationRow>(list, [...valuesOf(filters), limit, offset])
}

/** How many notifications of an account pass the filters. */
export async function countNotifications(
  connection: Queryable,
  filters: NotificationFilters,
): Promise<number> {
  return (await connection.query<{ count: number }>(count, valuesOf(filters)))[0]?.count ?? 0
}
