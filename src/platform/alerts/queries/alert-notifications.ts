// Statements on notifications through alert channels: the outbox of webhooks and its history.
import { randomUUID } from 'node:crypto'
import type {
  IncidentPayload,
  LocationName,
  LocationPayload,
  Payload,
} from '../../../contract/api/alert-payload.ts'
import { instantText, rowsJson } from '../../../database/row-json.ts'
import type { AlertNotification } from '../channel-schema.ts'
import { execute, queryAs, queryRows, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'
import { readChannelChoices } from './channels.ts'

/** A notification to send through one channel. */
export interface NewNotification {
  accountId: string
  channelId: number
  monitorId: string | null
  /** What must arrive in its order: a monitor, an incident, a location. */
  topic: string
  payload: Payload
  /** When it happened, in milliseconds since the Unix epoch; left out: at the payload's `at`. */
  happenedAt?: number
}

/** Puts notifications into the outbox; they are sent once the transaction is committed. */
export async function insertNotifications(
  tx: Queryable,
  all: readonly NewNotification[],
): Promise<void> {
  if (all.length === 0) return
  const rows = all.map(({ payload, happenedAt = payload.at, ...one }) => ({
    ...one,
    id: randomUUID(),
    kind: payload.type,
    payload,
    happenedAt: new Date(happenedAt).toISOString(),
  }))
  await tx.query(sql('alert-notifications-insert')`
      with given as materialized (select * from rows from (
          jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as (id uuid, "accountId" uuid,
            "channelId" bigint, "monitorId" uuid, topic uuid, kind text, payload jsonb,
            "happenedAt" timestamptz)) with ordinality
          one (id, account_id, channel_id, monitor_id, topic, kind, payload, happened_at, place)),
        channels as (
          select id from alert_channels where id in (select channel_id from given)
          order by id for key share)
      insert into alert_notifications
        (id, account_id, channel_id, monitor_id, topic, kind, payload, happened_at, state, next_at)
      select g.id, g.account_id, g.channel_id, g.monitor_id, g.topic, g.kind, g.payload,
        g.happened_at, 'waiting', clock_timestamp()
      from given g join channels c on c.id = g.channel_id order by g.place`)
}

export interface DueNotification {
  id: string
  channelId: number
  payload: Payload
  /** Including this attempt. */
  attempts: number
  /** Refusals before this attempt. */
  refusals: number
  /** Encrypted. */
  config: string
}

/** Whether `one` and `other` belong together and wait; both are aliases of alert_notifications. */
const sameTopic = (one: string, other: string) =>
  `${other}.state = 'waiting' and ${other}.channel_id = ${one}.channel_id
   and ${other}.topic = ${one}.topic`

/** Whether the recovery `one` replaces the earlier `other`: a failure or reminder of the same alert. */
const standsFor = (one: string, other: string) =>
  `${one}.kind = 'alert.recovery' and ${other}.kind in ('alert.failure', 'alert.reminder')
   and ${other}.seq < ${one}.seq
   and ${other}.alert_since = ${one}.alert_since`

/** Limits and conditions for claiming notifications. */
export interface Claim {
  rowsMax: number
  /** Without an outcome within this time they are due again. */
  leaseMs: number
  /** How long a failing notification blocks newer ones of its topic, from its first attempt on. */
  blockMs: number
  perChannelMax: number
  /** Channels to leave out. */
  busy: number[]
  /** Earlier events are late; milliseconds since the Unix epoch. */
  lateBefore: number
}

/** Claims due notifications for `leaseMs`. */
export const claimNotifications = queryRows((ask: Claim) => {
  const lateBefore = new Date(ask.lateBefore).toISOString()
  const { rowsMax, leaseMs, busy, perChannelMax, blockMs } = ask
  return sql<DueNotification>('alert-notifications-claim')`
      with heads as (
        select distinct on (n.channel_id, n.topic) n.id, n.channel_id, n.next_at
        from alert_notifications n
        where n.state = 'waiting' and n.next_at <= clock_timestamp()
          and n.channel_id <> all (${busy}::bigint[])
          and not exists (select from alert_notifications o where ${raw(sameTopic('n', 'o'))}
            and (o.leased_until > clock_timestamp() or (o.seq < n.seq
              and coalesce(o.held_until, 'infinity') > clock_timestamp()
              and not (${raw(standsFor('n', 'o'))}))))
          and not exists (select from alert_notifications r
            where ${raw(sameTopic('n', 'r'))} and ${raw(standsFor('r', 'n'))})
        order by n.channel_id, n.topic, n.seq
      ), placed as (
        select id, row_number() over (partition by channel_id order by next_at) as place from heads
      ), due as (
        -- More than this process claims: other processes may claim some of them.
        select id from placed where place <= ${perChannelMax}::int order by place limit 4 * ${rowsMax}::int
      ), mine as (
        select n.id, n.channel_id, n.topic, n.seq, n.kind, n.alert_since
        from alert_notifications n join due on due.id = n.id
        where n.state = 'waiting' and n.next_at <= clock_timestamp()
        order by n.seq limit ${rowsMax}::int for update of n skip locked
      ), merged as (
        update alert_notifications o set state = 'merged', message = 'merged into ' || m.id,
          next_at = null, finished_at = clock_timestamp()
        from mine m
        where ${raw(sameTopic('m', 'o'))} and ${raw(standsFor('m', 'o'))}
          and coalesce(o.leased_until, '-infinity') <= clock_timestamp()
        returning o.id, o.kind, o.payload, m.id as recovery_id
      )
      update alert_notifications n set attempts = n.attempts + 1,
        next_at = clock_timestamp() + make_interval(secs => ${leaseMs}::double precision / 1000),
        leased_until = clock_timestamp() + make_interval(secs => ${leaseMs}::double precision / 1000),
        held_until = coalesce(n.held_until,
          clock_timestamp() + make_interval(secs => ${blockMs}::double precision / 1000)),
        payload = n.payload
          || case when f.id is null then '{}' else jsonb_build_object(
            'title', n.payload #>> '{monitor,name}' || ' failed and has recovered',
            'failure', jsonb_build_object('id', f.id, 'at', f.payload -> 'at',
              'locations', f.payload -> 'locations', 'run', f.payload -> 'run')) end
          || case when n.happened_at < ${lateBefore}::timestamptz then '{"late": true}' else '{}' end::jsonb
      from mine m join alert_channels c on c.id = m.channel_id
      left join merged f on f.recovery_id = m.id and f.kind = 'alert.failure'
      where n.id = m.id
        -- Not while another process sends one that it would replace.
        and not exists (select from alert_notifications o where ${raw(sameTopic('m', 'o'))}
          and ${raw(standsFor('m', 'o'))} and o.id not in (select id from merged))
      returning n.id, n.channel_id as "channelId", n.payload, n.attempts::int, n.refusals::int,
        c.config`
})

export interface Outcome {
  id: string
  /** `waiting`: it is tried again after `againMs`. */
  state: 'waiting' | 'sent' | 'failed'
  againMs: number | null
  status: number | null
  message: string | null
  /** How often the receiver has refused it. */
  refusals: number
}

/** Records the outcome of an attempt. */
export const noteOutcome = execute(
  (outcome: Outcome) => sql('alert-notification-note')`
      update alert_notifications set state = ${outcome.state}, status = ${outcome.status}, message = ${outcome.message}, refusals = ${outcome.refusals},
        leased_until = null,
        next_at = clock_timestamp() + make_interval(secs => ${outcome.againMs}::double precision / 1000),
        finished_at = case when ${outcome.state} = 'waiting' then null else clock_timestamp() end
      where id = ${outcome.id} and state = 'waiting'`,
)

/** Marks all waiting notifications of a channel as failed. */
export const giveUpWaiting = execute(
  (channelId: number, message: string) => sql('alert-notifications-give-up')`
      update alert_notifications set state = 'failed', message = ${message}, next_at = null,
        finished_at = clock_timestamp()
      where channel_id = ${channelId} and state = 'waiting'`,
)

/** Deletes notifications that were finished `days` ago; returns their number, at most `rowsMax`. */
export const dropNotifications = queryAs(
  (days: number, rowsMax: number) => sql<{ id: string }>('alert-notifications-drop')`
      delete from alert_notifications where id in (
        select id from alert_notifications
        where finished_at < clock_timestamp() - make_interval(days => ${days}::int) limit ${rowsMax}::int)
      returning id`,
  (rows) => rows.length,
)

/** Puts a notice into the outbox, for each channel of its account that receives notices. */
export async function insertNotices(
  tx: Queryable,
  payload: IncidentPayload | LocationPayload,
  topic: string,
): Promise<void> {
  const { accountId } = payload
  const channels = await readChannelChoices(tx, accountId)
  const wanted = channels.filter(({ sendNotices, pausedAt }) => sendNotices && pausedAt === null)
  await insertNotifications(
    tx,
    wanted.map(({ id }) => ({ accountId, channelId: id, monitorId: null, topic, payload })),
  )
}

/** The `asked` part of the notifications `listed`, as the public API spells them. */
const LISTED = `select n.id, n.channel_id as "alertChannelId", n.monitor_id as "checkId", c.type,
    n.kind as event, n.state, n.attempts, n.status as "httpStatus",
    case n.state when 'waiting' then 'IN_PROGRESS' when 'failed' then 'FAILURE'
      else 'SUCCESS' end as status,
    n.message as "notificationResult", ${instantText('n.next_at')} as "nextAttemptAt", n.payload,
    ${instantText('coalesce(n.finished_at, n.created_at)')} as timestamp,
    ${instantText('n.created_at')} as created_at, ${instantText('n.finished_at')} as "finishedAt"
  from alert_notifications n join alert_channels c on c.id = n.channel_id
  where n.id in (select id from listed order by created_at desc, id desc
    limit asked.rows offset asked.skipped)
  order by n.created_at desc, n.id desc`

/** Which notifications to list; null lets all pass. */
export interface NotificationFilters {
  accountId: string
  channelId: number | null
  from: Date | null
  to: Date | null
  hasFailed: boolean | null
}

/** A page of the notifications of an account, newest first, and how many there are in all. */
export const listNotifications = queryAs(
  (
    { accountId, channelId, from, to, hasFailed }: NotificationFilters,
    { limit, offset }: { limit: number; offset: number },
  ) => sql<{ entries: AlertNotification[]; total: number }>('alert-notifications-list')`
      with listed as materialized (
        select n.id, n.created_at from alert_notifications n
        where n.account_id = ${accountId}::uuid
          and (${channelId}::bigint is null or n.channel_id = ${channelId}::bigint)
          and (${from}::timestamptz is null or n.created_at >= ${from}::timestamptz)
          and (${to}::timestamptz is null or n.created_at < ${to}::timestamptz)
          and (${hasFailed}::boolean is null or (n.state = 'failed') = ${hasFailed}::boolean)
      )
      select (select count(*)::int from listed) as total, ${raw(rowsJson(LISTED))} as entries
      from (select ${limit}::int as rows, ${offset}::bigint as skipped) asked`,
  ([page]) => page ?? { entries: [], total: 0 },
)

/** The names of locations, by id. */
export const readLocationNames = queryAs(
  (ids: string[]) => sql<LocationName>('locations-named')`
      select id, name, slug_name as "slugName" from private_locations where id = any (${ids}::uuid[])`,
  (rows) => new Map(rows.map((row) => [row.id, row])),
)
