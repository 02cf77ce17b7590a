// Alert channels, which receive alerts and notices. Their secrets are encrypted in the database and masked in
// answers; a mask that is sent back leaves the secret unchanged.
import * as z from 'zod'
import {
  ALERT_BOUNDS,
  AlertChannel,
  AlertChannelInput,
  ChannelSubscription,
  SubscriptionsInput,
  type WebhookConfig,
} from './channel-schema.ts'
import { SECRET_MASK } from '../../contract/api/resource.ts'
import { createNameTest } from '../../contract/protocol/sensitive-name.ts'
import { lockAccount } from '../accounts/queries/accounts.ts'
import {
  changeChannel,
  countChannels,
  deleteChannel,
  insertChannel,
  listChannels,
  readChannel,
  setSubscriptions,
  type ChannelFields,
  type ChannelRow,
} from './queries/channels.ts'
import type { Database, Queryable } from '../../database/database.ts'
import { ApiError, orNotFound } from '../http/errors.ts'
import { offsetOf } from '../http/listing.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { numberParameter } from '../http/parameters.ts'
import { Resource } from '../http/resource.ts'
import type { Cipher } from '../secrets/cipher.ts'
import { newWebhookSecret } from './webhook-signature.ts'

const TAG = 'Alert Channels'
const PATH = '/v1/alert-channels'
const params = { id: numberParameter('alert channel') }
const channels = new Resource({
  tag: TAG,
  path: PATH,
  one: params,
  what: 'alert channel',
  schema: AlertChannel,
})
const { channelsPerAccountMax, subscriptionsMax } = ALERT_BOUNDS

/** The operations on alert channels. */
export function alertChannelOperations(database: Database, cipher: Cipher): DefinedOperation[] {
  const json = (row: ChannelRow | undefined) => row && JSON.stringify(shown(row, cipher))
  return [
    channels.numberedPages(
      { summary: 'List alert channels', description: 'Oldest first.' },
      async ({ accountId, query }) => {
        const page = { limit: query.limit, offset: offsetOf(query) }
        const rows = await listChannels(database, accountId, page)
        const total = await countChannels(database, accountId)
        return { entries: rows.map((row) => shown(row, cipher)), total }
      },
    ),
    channels.read({ summary: 'Read an alert channel' }, async ({ accountId, id }) =>
      json(await readChannel(database, accountId, id)),
    ),
    channels.create(
      {
        summary: 'Create an alert channel',
        description:
          'The secret that signs webhooks is shown in this answer when it was made here.',
        body: AlertChannelInput,
        conflict: `The account has ${channelsPerAccountMax} channels already`,
      },
      async ({ accountId, body }) => {
        const { config, made } = completed(body.config, undefined)
        const fields = fieldsOf(body, config, cipher)
        const row = await database.transaction((tx) => insertChannel(tx, accountId, fields))
        if (row !== undefined) return JSON.stringify(shown(row, cipher, made))
        throw new ApiError(409, `An account has at most ${channelsPerAccountMax} alert channels`)
      },
    ),
    channels.replace(
      {
        summary: 'Replace an alert channel',
        description: `${SECRET_MASK} in place of a secret keeps it. A channel that was paused sends again.`,
        body: AlertChannelInput,
      },
      ({ accountId, id, body }) =>
        database.transaction(async (tx) => {
          const before = await readChannel(tx, accountId, id)
          if (before === undefined) return undefined
          const { config } = completed(body.config, opened(before, cipher))
          return json(await changeChannel(tx, { accountId, id }, fieldsOf(body, config, cipher)))
        }),
    ),
    subscribing(database, cipher),
    channels.remove(
      {
        summary: 'Delete an alert channel',
        description: 'What waits to be sent through it is not sent any more.',
      },
      ({ accountId, id }) => deleteChannel(database, accountId, id),
    ),
  ]
}

function subscribing(database: Database, cipher: Cipher): DefinedOperation {
  return defineOperation({
    tag: TAG,
    summary: 'Set the monitors and groups that an alert channel reports',
    description: 'A list replaces all subscriptions, an object sets that one alone.',
    method: 'put',
    path: `${PATH}/{id}/subscriptions`,
    params,
    body: SubscriptionsInput,
    answers: {
      status: 200,
      schema: z.union([AlertChannel, ChannelSubscription]),
      description: 'The channel; for an object, that subscription',
    },
    conflict: `The channel has ${subscriptionsMax} subscriptions already`,
    async answer({ key: { accountId }, params: { id }, body }) {
      if (Array.isArray(body)) {
        const row = orNotFound(
          await setSubscriptions(database, { accountId, id }, body),
          'alert channel',
        )
        return JSON.stringify(shown(row, cipher))
      }
      const subscription = { checkId: null, groupId: null, ...body, id: undefined }
      await database.transaction((tx) => subscribe(tx, { accountId, id }, subscription))
      return JSON.stringify(subscription)
    },
  })
}

/** Sets one subscription of a channel and leaves the others. */
async function subscribe(
  tx: Queryable,
  of: { accountId: string; id: number },
  one: ChannelSubscription,
): Promise<void> {
  await lockAccount(tx, of.accountId)
  const row = orNotFound(await readChannel(tx, of.accountId, of.id), 'alert channel')
  const subject = ({ checkId, groupId }: ChannelSubscription) => checkId ?? groupId
  const others = row.subscriptions.filter((other) => subject(other) !== subject(one))
  if (others.length >= subscriptionsMax) {
    throw new ApiError(409, `A channel has at most ${subscriptionsMax} subscriptions`)
  }
  await setSubscriptions(tx, of, [...others, one])
}

function opened(row: ChannelRow, cipher: Cipher): WebhookConfig {
  return JSON.parse(cipher.decrypt(row.config)) as WebhookConfig
}

/** A configuration without masks and with a secret; `made` is the secret when it was made just now. */
function completed(
  config: WebhookConfig,
  before: WebhookConfig | undefined,
): { config: WebhookConfig; made: string | undefined } {
  const headers = unmasked('headers', config, before)
  const queryParameters = unmasked('queryParameters', config, before)
  const given = config.webhookSecret ?? ''
  if (given === SECRET_MASK && before === undefined) throw maskedNothing('webhookSecret')
  const storedSecret = given === '' || given === SECRET_MASK ? before?.webhookSecret : given
  const webhookSecret = storedSecret ?? newWebhookSecret()
  const made = storedSecret === undefined ? webhookSecret : undefined
  return { config: { ...config, headers, queryParameters, webhookSecret }, made }
}

type Pairs = NonNullable<WebhookConfig['headers']>

function unmasked(
  field: 'headers' | 'queryParameters',
  config: WebhookConfig,
  before: WebhookConfig | undefined,
): Pairs {
  return (config[field] ?? []).map((pair) => {
    if (pair.value !== SECRET_MASK) return pair
    const same = before?.[field]?.find(({ key }) => key === pair.key)
    if (same === undefined) throw maskedNothing(`${field}.${pair.key}`)
    // A locked value stays locked: without the lock it would be shown.
    return { ...pair, value: same.value, locked: pair.locked || same.locked }
  })
}

function maskedNothing(place: string): ApiError {
  return new ApiError(400, `config.${place}: ${SECRET_MASK} keeps a secret, and there is none yet`)
}

function fieldsOf(body: AlertChannelInput, config: WebhookConfig, cipher: Cipher): ChannelFields {
  return { ...body, name: config.name, config: cipher.encrypt(JSON.stringify(config)) }
}

const isSensitive = createNameTest()

function masked(pairs: WebhookConfig['headers']): Pairs {
  return (pairs ?? []).map(({ key, value, locked }) => ({
    key,
    value: (locked || isSensitive(key)) && value !== '' ? SECRET_MASK : value,
    locked,
  }))
}

/** A channel as it is read; `secret` is shown instead of the mask. */
function shown(row: ChannelRow, cipher: Cipher, secret: string = SECRET_MASK) {
  const { name, url, method, template = null, webhookType = null, ...config } = opened(row, cipher)
  return {
    ...row,
    config: {
      name,
      url,
      method,
      template,
      webhookType,
      headers: masked(config.headers),
      queryParameters: masked(config.queryParameters),
      webhookSecret: secret,
    },
    subscriptions: row.subscriptions.map(({ checkId = null, groupId = null, activated }) => ({
      checkId,
      groupId,
      activated,
    })),
  }
}
