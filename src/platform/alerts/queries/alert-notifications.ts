// Statements on notifications through alert channels: the outbox of webhooks and its history.
import { randomUUID } from 'node:crypto'
import type { Payload } from '../../../contract/api/alert-payload.ts'
import { instantText } from '../../../database/row-json.ts'
import { raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

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

const insert = {
  name: 'alert-notifications-insert',
  text: `with channels as (
     select id from alert_channels where id = any ($3::bigint[]) order by id for key share)
   insert into alert_notifications
     (id, account_id, channel_id, monitor_id, topic, kind, payload, happened_at, state, next_at)
   select one.id, one.account_id, one.channel_id, one.monitor_id, one.topic, one.kind, one.payload,
     one.happened_at, 'waiting', clock_timestamp()
   from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::uuid[], $5::uuid[], $6::text[], $7::jsonb[],
     $8::timestamptz[]) with ordinality
     one (id, account_id, channel_id, monitor_id, topic, kind, payload, happened_at, place)
   join channels c on c.id = one.channel_id
   order by one.place`,
}

/** Puts notifications into the outbox; they are sent once the transaction is committed. */
export async function insertNotifications(
  tx: Queryable,
  all: readonly NewNotification[],
): Promise<void> {
  if (all.length === 0) return
  await tx.query(insert, [
    all.map(() => randomUUID()),
    all.map((one) => one.accountId),
    all.map((one) => one.channelId),
    all.map((one) => one.monitorId),
    all.map((one) => one.topic),
    all.map((one) => one.payload.type),
    all.map((one) => JSON.stringify(one.payload)),
    all.map((one) => new Date(one.happenedAt ?? one.payload.at).toISOString()),
  ])
}

/** A notification that is due. */
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
export async function claimNotifications(
  connection: Queryable,
  ask: Claim,
): Promise<DueNotification[]> {
  const lateBefore = new Date(ask.lateBefore).toISOString()
  const { rowsMax, leaseMs, busy, perChannelMax, blockMs } = ask
  return connection.query(sql<DueNotification>('alert-notifications-claim')`
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
        c.config`)
}

/** Outcome of an attempt. */
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
export async function noteOutcome(connection: Queryable, outcome: Outcome): Promise<void> {
  await connection.query(sql('alert-notification-note')`
      update alert_notifications set state = ${outcome.state}, status = ${outcome.status}, message = ${outcome.message}, refusals = ${outcome.refusals},
        leased_until = null,
        next_at = clock_timestamp() + make_interval(secs => ${outcome.againMs}::double precision / 1000),
        finished_at = case when ${outcome.state} = 'waiting' then null else clock_timestamp() end
      where id = ${outcome.id} and state = 'waiting'`)
}

/** Marks all waiting notifications of a channel as failed. */
export async function giveUpWaiting(
  connection: Queryable,
  channelId: number,
  message: string,
): Promise<void> {
  await connection.query(sql('alert-notifications-give-up')`
      update alert_notifications set state = 'failed', message = ${message}, next_at = null,
        finished_at = clock_timestamp()
      where channel_id = ${channelId} and state = 'waiting'`)
}

/** Deletes notifications that were finished `days` ago; returns their number, at most `rowsMax`. */
export async function dropNotifications(
  connection: Queryable,
  days: number,
  rowsMax: number,
): Promise<number> {
  const rows = await connection.query(sql<{ id: string }>('alert-notifications-drop')`
      delete from alert_notifications where id in (
        select id from alert_notifications
        where finished_at < clock_timestamp() - make_interval(days => ${days}::int) limit ${rowsMax}::int)
      returning id`)
  return rows.length
}

/** A location as notices report it. */
export interface LocationRow {
  id: string
  accountId: string
  name: string
  slugName: string
  since: Date | null
  lastSeenAt: Date | null
}

const locationColumns = `l.id, l.account_id as "accountId", l.name, l.slug_name as "slugName",
  l.absent_since as since,
  (select max(a.last_seen_at) from agents a where a.location_id = l.id) as "lastSeenAt"`

/** Marks locations without an agent for `absentMs` as reported; returns those that were not yet. */
export async function markUnattended(tx: Queryable, absentMs: number): Promise<LocationRow[]> {
  return tx.query(sql<LocationRow>('locations-unattended')`
      update private_locations l set absence_told_at = clock_timestamp()
      where l.absence_told_at is null
        and l.absent_since <= clock_timestamp() - make_interval(secs => ${absentMs}::double precision / 1000)
      returning ${raw(locationColumns)}`)
}

/** Clears the report of locations that have an agent again; returns them. */
export async function clearUnattended(tx: Queryable): Promise<LocationRow[]> {
  return tx.query(sql<LocationRow>('locations-attended')`
      update private_locations l set absence_told_at = null
      where l.absence_told_at is not null and l.absent_since is null
      returning ${raw(locationColumns)}`)
}

/** A location whose agents report that their own network does not work. */
export interface NetworkLossRow extends LocationRow {
  /** Empty when it works again. */
  agents: { id: string; problem: string; since: string }[]
}

const networkColumns = `l.id, l.account_id as "accountId", l.name, l.slug_name as "slugName",
  (select min(a.network_problem_since) from agents a
     where a.location_id = l.id and a.state = 'live') as since,
  (select max(a.last_seen_at) from agents a where a.location_id = l.id) as "lastSeenAt",
  (select coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'problem', a.network_problem,
       'since', ${instantText('a.network_problem_since')}) order by a.network_problem_since, a.id), '[]')
     from agents a where a.location_id = l.id and a.state = 'live' and a.network_problem is not null
  ) as agents`

/**
 * Marks locations with a live agent whose network has not worked for `standingMs` as reported; returns those
 * that were not yet.
 */
export async function markNetworkLost(
  tx: Queryable,
  standingMs: number,
): Promise<NetworkLossRow[]> {
  return tx.query(sql<NetworkLossRow>('locations-network-lost')`
      update private_locations l set network_problem_told_at = clock_timestamp()
      where l.network_problem_told_at is null
        and l.id in (select a.location_id from agents a
          where a.network_problem is not null and a.state = 'live' and a.network_problem_since
            <= clock_timestamp() - make_interval(secs => ${standingMs}::double precision / 1000))
      returning ${raw(networkColumns)}`)
}

/** Clears the report of locations whose live agents all have a working network again; returns them. */
export async function clearNetworkLost(tx: Queryable): Promise<NetworkLossRow[]> {
  return tx.query(sql<NetworkLossRow>('locations-network-back')`
      update private_locations l set network_problem_told_at = null
      where l.network_problem_told_at is not null
        and exists (select from agents a where a.location_id = l.id and a.state = 'live')
        and not exists (select from agents a where a.location_id = l.id and a.state = 'live'
          and a.network_problem is not null)
      returning ${raw(networkColumns)}`)
}

/** The names of locations, by id. */
export async function readLocationNames(
  connection: Queryable,
  ids: string[],
): Promise<Map<string, { id: string; name: string; slugName: string }>> {
  const rows = await connection.query(sql<{ id: string; name: string; slugName: string }>(
    'locations-named',
  )`
      select id, name, slug_name as "slugName" from private_locations where id = any (${ids}::uuid[])`)
  return new Map(rows.map((row) => [row.id, row]))
}
