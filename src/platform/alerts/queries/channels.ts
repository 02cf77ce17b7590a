// Statements on alert channels and on how an account is alerted.
import type { AlertSettings } from '../../../contract/monitor.ts'
import type { Subscriptions } from '../channel-schema.ts'
import { lockAccount } from '../../accounts/queries/accounts.ts'
import { statement, type Connection } from '../../../database/statement.ts'

/** Fields of a channel. */
export interface ChannelFields {
  name: string
  /** Encrypted. */
  config: string
  sendRecovery: boolean
  sendFailure: boolean
  sendDegraded: boolean
  sslExpiry: boolean
  sslExpiryDays: number
  sendNotices: boolean
  isDefault: boolean
  subscriptions: Subscriptions
}

/** A channel. */
export interface ChannelRow extends ChannelFields {
  id: number
  accountId: string
  pausedAt: Date | null
  createdAt: Date
  updatedAt: Date | null
}

const columns = `c.id, c.account_id as "accountId", c.name, c.config,
  c.send_recovery as "sendRecovery", c.send_failure as "sendFailure",
  c.send_degraded as "sendDegraded", c.ssl_expiry as "sslExpiry",
  c.ssl_expiry_days as "sslExpiryDays", c.send_notices as "sendNotices",
  c.is_default as "isDefault", c.subscriptions, c.paused_at as "pausedAt",
  c.created_at as "createdAt", c.updated_at as "updatedAt"`

const list = statement<[string, number, number], ChannelRow>(
  'alert-channels-list',
  `select ${columns} from alert_channels c where c.account_id = $1
   order by c.id limit $2::int offset $3::bigint`,
)

/** Channels of an account, oldest first. */
export async function listChannels(
  connection: Connection,
  accountId: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<ChannelRow[]> {
  return list(connection, accountId, limit, offset)
}

const count = statement<[string], { count: number }>(
  'alert-channels-count',
  'select count(*)::int as count from alert_channels where account_id = $1',
)

/** How many channels the account has. */
export async function countChannels(connection: Connection, accountId: string): Promise<number> {
  return (await count(connection, accountId))[0]?.count ?? 0
}

const read = statement<[string, number], ChannelRow>(
  'alert-channel-read',
  `select ${columns} from alert_channels c where c.account_id = $1 and c.id = $2`,
)

/** A channel of the account. */
export async function readChannel(
  connection: Connection,
  accountId: string,
  id: number,
): Promise<ChannelRow | undefined> {
  return (await read(connection, accountId, id))[0]
}

type Written = [
  string,
  string,
  boolean,
  boolean,
  boolean,
  boolean,
  number,
  boolean,
  boolean,
  string,
]

/** Parameters of both statements after the account. */
function valuesOf(fields: ChannelFields): Written {
  return [
    fields.name,
    fields.config,
    fields.sendRecovery,
    fields.sendFailure,
    fields.sendDegraded,
    fields.sslExpiry,
    fields.sslExpiryDays,
    fields.sendNotices,
    fields.isDefault,
    JSON.stringify(fields.subscriptions),
  ]
}

const insert = statement<[string, ...Written], ChannelRow>(
  'alert-channel-insert',
  `insert into alert_channels as c (account_id, type, name, config, send_recovery, send_failure,
     send_degraded, ssl_expiry, ssl_expiry_days, send_notices, is_default, subscriptions)
   values ($1, 'WEBHOOK', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::jsonb)
   returning ${columns}`,
)

/** Adds a channel unless the account has `channelsMax` of them. To be called in a transaction. */
export async function insertChannel(
  tx: Connection,
  accountId: string,
  fields: ChannelFields,
  channelsMax: number,
): Promise<ChannelRow | undefined> {
  await lockAccount(tx, accountId)
  const [there] = await count(tx, accountId)
  if ((there?.count ?? 0) >= channelsMax) return undefined
  return (await insert(tx, accountId, ...valuesOf(fields)))[0]
}

const change = statement<[string, ...Written, number], ChannelRow>(
  'alert-channel-change',
  `update alert_channels c set name = $2, config = $3, send_recovery = $4, send_failure = $5,
     send_degraded = $6, ssl_expiry = $7, ssl_expiry_days = $8, send_notices = $9,
     is_default = $10, subscriptions = $11::jsonb, paused_at = null,
     updated_at = clock_timestamp()
   where c.account_id = $1 and c.id = $12 returning ${columns}`,
)

/** Replaces a channel and ends its pause; undefined when it does not exist. */
export async function changeChannel(
  connection: Connection,
  { accountId, id }: { accountId: string; id: number },
  fields: ChannelFields,
): Promise<ChannelRow | undefined> {
  return (await change(connection, accountId, ...valuesOf(fields), id))[0]
}

const among = statement<[string, number[]], { id: number }>(
  'alert-channels-among',
  'select id from alert_channels where account_id = $1 and id = any ($2::bigint[])',
)

/** Those of `ids` that are channels of the account. */
export async function channelsAmong(
  connection: Connection,
  accountId: string,
  ids: readonly number[],
): Promise<number[]> {
  return (await among(connection, accountId, [...ids])).map(({ id }) => id)
}

const subscribe = statement<[string, number, string], ChannelRow>(
  'alert-channel-subscribe',
  `update alert_channels c set subscriptions = $3::jsonb, updated_at = clock_timestamp()
   where c.account_id = $1 and c.id = $2 returning ${columns}`,
)

/** Replaces the subscriptions of a channel; undefined when it does not exist. */
export async function setSubscriptions(
  connection: Connection,
  { accountId, id }: { accountId: string; id: number },
  subscriptions: Subscriptions,
): Promise<ChannelRow | undefined> {
  return (await subscribe(connection, accountId, id, JSON.stringify(subscriptions)))[0]
}

const remove = statement<[string, number], { id: number }>(
  'alert-channel-delete',
  'delete from alert_channels where account_id = $1 and id = $2 returning id',
)

/** Deletes a channel with its waiting notifications; false when it does not exist. */
export async function deleteChannel(
  connection: Connection,
  accountId: string,
  id: number,
): Promise<boolean> {
  return (await remove(connection, accountId, id)).length === 1
}

/** A channel as the choice of receivers needs it. */
export type ChannelChoice = Pick<
  ChannelRow,
  'id' | 'sendRecovery' | 'sendFailure' | 'sendDegraded' | 'sendNotices' | 'isDefault'
> & { subscriptions: Subscriptions; isPaused: boolean }

const choose = statement<[string], ChannelChoice>(
  'alert-channels-choose',
  `select id, send_recovery as "sendRecovery", send_failure as "sendFailure",
     send_degraded as "sendDegraded", send_notices as "sendNotices", is_default as "isDefault",
     subscriptions, paused_at is not null as "isPaused"
   from alert_channels where account_id = $1 order by id`,
)

/** The channels of an account, also those that are paused. */
export async function readChannelChoices(
  connection: Connection,
  accountId: string,
): Promise<ChannelChoice[]> {
  return choose(connection, accountId)
}

const pause = statement<[number], never>(
  'alert-channel-pause',
  'update alert_channels set paused_at = clock_timestamp() where id = $1 and paused_at is null',
)

/** Sends nothing through a channel until it is changed. */
export async function pauseChannel(connection: Connection, id: number): Promise<void> {
  await pause(connection, id)
}

const settings = statement<[string], { settings: AlertSettings }>(
  'alert-settings-read',
  'select settings from alert_settings where account_id = $1',
)

/** The alert settings of an account; undefined when it has none. */
export async function readAlertSettings(
  connection: Connection,
  accountId: string,
): Promise<AlertSettings | undefined> {
  return (await settings(connection, accountId))[0]?.settings
}

const setSettings = statement<[string, string], never>(
  'alert-settings-write',
  `insert into alert_settings (account_id, settings) values ($1, $2::jsonb)
   on conflict (account_id) do update
     set settings = excluded.settings, updated_at = clock_timestamp()`,
)

/** Writes down how an account is alerted. */
export async function writeAlertSettings(
  connection: Connection,
  accountId: string,
  value: AlertSettings,
): Promise<void> {
  await setSettings(connection, accountId, JSON.stringify(value))
}
