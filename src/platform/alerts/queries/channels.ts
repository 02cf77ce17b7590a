// Statements on alert channels and on how an account is alerted.
import type { AlertSettings } from '../../../contract/monitor.ts'
import { ALERT_BOUNDS, type AlertChannelInput, type Subscriptions } from '../channel-schema.ts'
import { lockAccount } from '../../accounts/queries/accounts.ts'
import {
  execute,
  queryAny,
  queryCount,
  queryRow,
  queryRows,
  queryValue,
  queryValues,
  raw,
  sql,
} from '../../../database/sql.ts'
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
export const listChannels = queryRows(
  (accountId: string, { limit, offset }: { limit: number; offset: number }) => sql<ChannelRow>(
    'alert-channels-list',
  )`
      select ${columns} from alert_channels c where c.account_id = ${accountId}
      order by c.id limit ${limit}::int offset ${offset}::bigint`,
)

/** How many channels the account has. */
export const countChannels = queryCount(
  (accountId: string) => sql<{ count: number }>('alert-channels-count')`
      select count(*)::int as count from alert_channels where account_id = ${accountId}`,
)

/** A channel of the account. */
export const readChannel = queryRow(
  (accountId: string, id: number) => sql<ChannelRow>('alert-channel-read')`
      select ${columns} from alert_channels c where c.account_id = ${accountId} and c.id = ${id}`,
)

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
export const changeChannel = queryRow(
  ({ accountId, id }: { accountId: string; id: number }, fields: ChannelFields) => sql<ChannelRow>(
    'alert-channel-change',
  )`
      update alert_channels c set name = ${fields.name}, config = ${fields.config},
        send_recovery = ${fields.sendRecovery}, send_failure = ${fields.sendFailure},
        send_degraded = ${fields.sendDegraded}, ssl_expiry = ${fields.sslExpiry},
        ssl_expiry_days = ${fields.sslExpiryThreshold}, send_notices = ${fields.sendNotices},
        is_default = ${fields.autoSubscribe},
        subscriptions = ${JSON.stringify(fields.subscriptions)}::jsonb, paused_at = null,
        updated_at = clock_timestamp()
      where c.account_id = ${accountId} and c.id = ${id} returning ${columns}`,
)

/** Those of `ids` that are channels of the account. */
export const channelsAmong = queryValues(
  (accountId: string, ids: readonly number[]) => sql<{ id: number }>('alert-channels-among')`
      select id from alert_channels where account_id = ${accountId} and id = any (${[...ids]}::bigint[])`,
)

/** Replaces the subscriptions of a channel; undefined when it does not exist. */
export const setSubscriptions = queryRow(
  (
    { accountId, id }: { accountId: string; id: number },
    subscriptions: Subscriptions,
  ) => sql<ChannelRow>('alert-channel-subscribe')`
      update alert_channels c set subscriptions = ${JSON.stringify(subscriptions)}::jsonb, updated_at = clock_timestamp()
      where c.account_id = ${accountId} and c.id = ${id} returning ${columns}`,
)

/** Deletes a channel with its waiting notifications; false when it does not exist. */
export const deleteChannel = queryAny(
  (accountId: string, id: number) => sql('alert-channel-delete')`
      delete from alert_channels where account_id = ${accountId} and id = ${id} returning id`,
)

/** A channel as the choice of receivers needs it. */
export type ChannelChoice = Omit<ChannelRow, 'type' | 'config' | 'created_at' | 'updated_at'>

/** The channels of an account, also those that are paused. */
export const readChannelChoices = queryRows(
  (accountId: string) => sql<ChannelChoice>('alert-channels-choose')`
      select ${raw(settings)} from alert_channels c where c.account_id = ${accountId} order by c.id`,
)

/** Sends nothing through a channel until it is changed. */
export const pauseChannel = execute(
  (id: number) => sql('alert-channel-pause')`
      update alert_channels set paused_at = clock_timestamp() where id = ${id} and paused_at is null`,
)

/** The alert settings of an account; undefined when it has none. */
export const readAlertSettings = queryValue(
  (accountId: string) => sql<{ settings: AlertSettings }>('alert-settings-read')`
      select settings from alert_settings where account_id = ${accountId}`,
)

/** Writes down how an account is alerted. */
export const writeAlertSettings = execute(
  (accountId: string, value: AlertSettings) => sql('alert-settings-write')`
      insert into alert_settings (account_id, settings) values (${accountId}, ${JSON.stringify(value)}::jsonb)
      on conflict (account_id) do update
        set settings = excluded.settings, updated_at = clock_timestamp()`,
)
