// Statements on alert channels and on how an account is alerted.
import type { AlertSettings } from '../../../contract/monitor.ts'
import { ALERT_BOUNDS, type AlertChannelInput, type Subscriptions } from '../channel-schema.ts'
import { lockAccount } from '../../accounts/queries/accounts.ts'
import { raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

/** What is stored of a channel, by the names of the public API. */
export type ChannelFields = Pick<
  AlertChannelInput,
  | 'sendRecovery'
  | 'sendFailure'
  | 'sendDegraded'
  | 'sslExpiry'
  | 'sslExpiryThreshold'
  | 'autoSubscribe'
  | 'sendNotices'
  | 'subscriptions'
> & {
  name: string
  /** Encrypted. */
  config: string
}

/** A channel. */
export interface ChannelRow extends Omit<ChannelFields, 'name'> {
  id: number
  type: 'WEBHOOK'
  pausedAt: Date | null
  created_at: Date
  updated_at: Date | null
}

const settings = `c.id, c.send_recovery as "sendRecovery", c.send_failure as "sendFailure",
  c.send_degraded as "sendDegraded", c.ssl_expiry as "sslExpiry",
  c.ssl_expiry_days as "sslExpiryThreshold", c.is_default as "autoSubscribe",
  c.send_notices as "sendNotices", c.subscriptions, c.paused_at as "pausedAt"`
const columns = raw(`${settings}, c.type, c.config, c.created_at, c.updated_at`)

/** Channels of an account, oldest first. */
export async function listChannels(
  connection: Queryable,
  accountId: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<ChannelRow[]> {
  return connection.query(sql<ChannelRow>('alert-channels-list')`
      select ${columns} from alert_channels c where c.account_id = ${accountId}
      order by c.id limit ${limit}::int offset ${offset}::bigint`)
}

/** How many channels the account has. */
export async function countChannels(connection: Queryable, accountId: string): Promise<number> {
  const [row] = await connection.query(sql<{ count: number }>('alert-channels-count')`
      select count(*)::int as count from alert_channels where account_id = ${accountId}`)
  return row?.count ?? 0
}

/** A channel of the account. */
export async function readChannel(
  connection: Queryable,
  accountId: string,
  id: number,
): Promise<ChannelRow | undefined> {
  const rows = await connection.query(sql<ChannelRow>('alert-channel-read')`
      select ${columns} from alert_channels c where c.account_id = ${accountId} and c.id = ${id}`)
  return rows[0]
}

/** Adds a channel unless the account has as many as it may. To be called in a transaction. */
export async function insertChannel(
  tx: Queryable,
  accountId: string,
  fields: ChannelFields,
): Promise<ChannelRow | undefined> {
  await lockAccount(tx, accountId)
  if ((await countChannels(tx, accountId)) >= ALERT_BOUNDS.channelsPerAccountMax) return undefined
  const [row] = await tx.query(sql<ChannelRow>('alert-channel-insert')`
      insert into alert_channels as c (account_id, type, name, config, send_recovery, send_failure,
        send_degraded, ssl_expiry, ssl_expiry_days, send_notices, is_default, subscriptions)
      values (${accountId}, 'WEBHOOK', ${fields.name}, ${fields.config}, ${fields.sendRecovery},
        ${fields.sendFailure}, ${fields.sendDegraded}, ${fields.sslExpiry},
        ${fields.sslExpiryThreshold}, ${fields.sendNotices}, ${fields.autoSubscribe},
        ${JSON.stringify(fields.subscriptions)}::jsonb)
      returning ${columns}`)
  return row
}

/** Replaces a channel and ends its pause; undefined when it does not exist. */
export async function changeChannel(
  connection: Queryable,
  { accountId, id }: { accountId: string; id: number },
  fields: ChannelFields,
): Promise<ChannelRow | undefined> {
  const [row] = await connection.query(sql<ChannelRow>('alert-channel-change')`
      update alert_channels c set name = ${fields.name}, config = ${fields.config},
        send_recovery = ${fields.sendRecovery}, send_failure = ${fields.sendFailure},
        send_degraded = ${fields.sendDegraded}, ssl_expiry = ${fields.sslExpiry},
        ssl_expiry_days = ${fields.sslExpiryThreshold}, send_notices = ${fields.sendNotices},
        is_default = ${fields.autoSubscribe},
        subscriptions = ${JSON.stringify(fields.subscriptions)}::jsonb, paused_at = null,
        updated_at = clock_timestamp()
      where c.account_id = ${accountId} and c.id = ${id} returning ${columns}`)
  return row
}

/** Those of `ids` that are channels of the account. */
export async function channelsAmong(
  connection: Queryable,
  accountId: string,
  ids: readonly number[],
): Promise<number[]> {
  const rows = await connection.query(sql<{ id: number }>('alert-channels-among')`
      select id from alert_channels where account_id = ${accountId} and id = any (${[...ids]}::bigint[])`)
  return rows.map(({ id }) => id)
}

/** Replaces the subscriptions of a channel; undefined when it does not exist. */
export async function setSubscriptions(
  connection: Queryable,
  { accountId, id }: { accountId: string; id: number },
  subscriptions: Subscriptions,
): Promise<ChannelRow | undefined> {
  const rows = await connection.query(sql<ChannelRow>('alert-channel-subscribe')`
      update alert_channels c set subscriptions = ${JSON.stringify(subscriptions)}::jsonb, updated_at = clock_timestamp()
      where c.account_id = ${accountId} and c.id = ${id} returning ${columns}`)
  return rows[0]
}

/** Deletes a channel with its waiting notifications; false when it does not exist. */
export async function deleteChannel(
  connection: Queryable,
  accountId: string,
  id: number,
): Promise<boolean> {
  const rows = await connection.query(sql<{ id: number }>('alert-channel-delete')`
      delete from alert_channels where account_id = ${accountId} and id = ${id} returning id`)
  return rows.length === 1
}

/** A channel as the choice of receivers needs it. */
export type ChannelChoice = Omit<ChannelRow, 'type' | 'config' | 'created_at' | 'updated_at'>

/** The channels of an account, also those that are paused. */
export async function readChannelChoices(
  connection: Queryable,
  accountId: string,
): Promise<ChannelChoice[]> {
  return connection.query(sql<ChannelChoice>('alert-channels-choose')`
      select ${raw(settings)} from alert_channels c where c.account_id = ${accountId} order by c.id`)
}

/** Sends nothing through a channel until it is changed. */
export async function pauseChannel(connection: Queryable, id: number): Promise<void> {
  await connection.query(sql('alert-channel-pause')`
      update alert_channels set paused_at = clock_timestamp() where id = ${id} and paused_at is null`)
}

/** The alert settings of an account; undefined when it has none. */
export async function readAlertSettings(
  connection: Queryable,
  accountId: string,
): Promise<AlertSettings | undefined> {
  const rows = await connection.query(sql<{ settings: AlertSettings }>('alert-settings-read')`
      select settings from alert_settings where account_id = ${accountId}`)
  return rows[0]?.settings
}

/** Writes down how an account is alerted. */
export async function writeAlertSettings(
  connection: Queryable,
  accountId: string,
  value: AlertSettings,
): Promise<void> {
  await connection.query(sql('alert-settings-write')`
      insert into alert_settings (account_id, settings) values (${accountId}, ${JSON.stringify(value)}::jsonb)
      on conflict (account_id) do update
        set settings = excluded.settings, updated_at = clock_timestamp()`)
}
