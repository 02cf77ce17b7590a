// Alert channels, which receive alerts and notices. Their secrets are encrypted in the database and masked in
// answers; a mask that is sent back leaves the secret unchanged.
import * as z from 'zod'
import {
  ALERT_BOUNDS,
  AlertChannel,
  AlertChannelInput,
  ChannelSubscription,
  MASK,
  Subscriptions,
  type WebhookConfig,
} from './channel-schema.ts'
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
import { notFound, ApiError } from '../http/errors.ts'
import { offsetOf, pagedAnswer, pagedParameters } from '../http/listing.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { NUMBER_LIKE, numberParameter } from '../http/parameters.ts'
import type { Cipher } from '../secrets/cipher.ts'
import { newWebhookSecret } from './webhook-signature.ts'

const TAG = 'Alert Channels'
const PATH = '/v1/alert-channels'
const ONE = `${PATH}/{id}`
const params = { id: numberParameter('alert channel') }
const looks = { id: NUMBER_LIKE }
const answers = { status: 200 as const, schema: AlertChannel, description: 'The channel' }

/** The operations on alert channels. */
export function alertChannelOperations(database: Database, cipher: Cipher): DefinedOperation[] {
  return [
    ...lists(database, cipher),
    ...writes(database, cipher),
    subscribing(database, cipher),
    remove(database),
  ]
}

function lists(database: Database, cipher: Cipher): DefinedOperation[] {
  return [
    defineOperation({
      tag: TAG,
      summary: 'List alert channels',
      description: 'Oldest first.',
      method: 'get',
      path: PATH,
      action: 'read',
      query: pagedParameters(),
      answers: {
        status: 200,
        schema: z.array(AlertChannel),
        description: 'A page of channels',
        hasContentRange: true,
      },
      async answer({ key: { accountId }, query }) {
        const ask = { limit: query.limit, offset: offsetOf(query) }
        const rows = await listChannels(database, accountId, ask)
        const total = await countChannels(database, accountId)
        return pagedAnswer(
          query,
          rows.map((row) => shown(row, cipher)),
          total,
        )
      },
    }),
    defineOperation({
      tag: TAG,
      summary: 'Read an alert channel',
      method: 'get',
      path: ONE,
      action: 'read',
      params,
      looks,
      answers,
      answer: async ({ key, params: { id } }) =>
        found(await readChannel(database, key.accountId, id), cipher),
    }),
  ]
}

function writes(database: Database, cipher: Cipher): DefinedOperation[] {
  return [
    defineOperation({
      tag: TAG,
      summary: 'Create an alert channel',
      description: 'The secret that signs webhooks is shown in this answer when it was made here.',
      method: 'post',
      path: PATH,
      action: 'write',
      body: AlertChannelInput,
      answers: { ...answers, status: 201 },
      conflict: `The account has ${ALERT_BOUNDS.channelsPerAccountMax} channels already`,
      async answer({ key: { accountId }, body }) {
        const { config, made } = completed(body.config, undefined)
        const row = await database.transaction((tx) =>
          insertChannel(tx, accountId, fieldsOf(body, config, cipher)),
        )
        if (row === undefined) {
          const most = ALERT_BOUNDS.channelsPerAccountMax
          throw new ApiError(409, `An account has at most ${most} alert channels`)
        }
        return { status: 201, json: JSON.stringify(shown(row, cipher, made)) }
      },
    }),
    defineOperation({
      tag: TAG,
      summary: 'Replace an alert channel',
      description: `${MASK} in place of a secret keeps it. A channel that was paused sends again.`,
      method: 'put',
      path: ONE,
      action: 'write',
      params,
      looks,
      body: AlertChannelInput,
      answers,
      async answer({ key: { accountId }, params: { id }, body }) {
        const row = await database.transaction(async (tx) => {
          const before = await readChannel(tx, accountId, id)
          if (before === undefined) throw notFound('alert channel')
          const { config } = completed(body.config, opened(before, cipher))
          return changeChannel(tx, { accountId, id }, fieldsOf(body, config, cipher))
        })
        return found(row, cipher)
      },
    }),
  ]
}

function subscribing(database: Database, cipher: Cipher): DefinedOperation {
  return defineOperation({
    tag: TAG,
    summary: 'Set the monitors and groups that an alert channel reports',
    description: 'A list replaces all subscriptions, an object sets that one alone.',
    method: 'put',
    path: `${ONE}/subscriptions`,
    action: 'write',
    params,
    looks,
    body: z.union([Subscriptions, ChannelSubscription]),
    answers: {
      status: 200,
      schema: z.union([AlertChannel, ChannelSubscription]),
      description: 'The channel; for an object, that subscription',
    },
    conflict: `The channel has ${ALERT_BOUNDS.subscriptionsMax} subscriptions already`,
    async answer({ key: { accountId }, params: { id }, body }) {
      if (Array.isArray(body)) {
        return found(await setSubscriptions(database, { accountId, id }, body), cipher)
      }
      const one = { checkId: null, groupId: null, ...body, id: undefined }
      await database.transaction((tx) => subscribe(tx, { accountId, id }, one))
      return { status: 200, json: JSON.stringify(one) }
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
  const row = await readChannel(tx, of.accountId, of.id)
  if (row === undefined) throw notFound('alert channel')
  const subject = ({ checkId, groupId }: ChannelSubscription) => checkId ?? groupId
  const others = row.subscriptions.filter((other) => subject(other) !== subject(one))
  if (others.length >= ALERT_BOUNDS.subscriptionsMax) {
    throw new ApiError(409, `A channel has at most ${ALERT_BOUNDS.subscriptionsMax} subscriptions`)
  }
  await setSubscriptions(tx, of, [...others, one])
}

function remove(database: Database): DefinedOperation {
  return defineOperation({
    tag: TAG,
    summary: 'Delete an alert channel',
    description: 'What waits to be sent through it is not sent any more.',
    method: 'delete',
    path: ONE,
    action: 'write',
    params,
    looks,
    answers: { status: 204, description: 'The channel is deleted' },
    async answer({ key, params: { id } }) {
      if (!(await deleteChannel(database, key.accountId, id))) throw notFound('alert channel')
      return { status: 204 }
    },
  })
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
  if (given === MASK && before === undefined) throw maskedNothing('webhookSecret')
  const storedSecret = given === '' || given === MASK ? before?.webhookSecret : given
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
    if (pair.value !== MASK) return pair
    const same = before?.[field]?.find(({ key }) => key === pair.key)
    if (same === undefined) throw maskedNothing(`${field}.${pair.key}`)
    // A locked value stays locked: without the lock it would be shown.
    return { ...pair, value: same.value, locked: pair.locked || same.locked }
  })
}

function maskedNothing(place: string): ApiError {
  return new ApiError(400, `config.${place}: ${MASK} keeps a secret, and there is none yet`)
}

function fieldsOf(body: AlertChannelInput, config: WebhookConfig, cipher: Cipher): ChannelFields {
  return { ...body, name: config.name, config: cipher.encrypt(JSON.stringify(config)) }
}

const isSensitive = createNameTest()

function masked(pairs: WebhookConfig['headers']): Pairs {
  return (pairs ?? []).map(({ key, value, locked }) => ({
    key,
    value: (locked || isSensitive(key)) && value !== '' ? MASK : value,
    locked,
  }))
}

function found(row: ChannelRow | undefined, cipher: Cipher): { status: 200; json: string } {
  if (row === undefined) throw notFound('alert channel')
  return { status: 200, json: JSON.stringify(shown(row, cipher)) }
}

/** A channel as it is read; `secret` is shown instead of the mask. */
function shown(row: ChannelRow, cipher: Cipher, secret: string = MASK) {
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
