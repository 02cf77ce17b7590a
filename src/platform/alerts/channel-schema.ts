// Alert channels, account-wide alert settings and notifications, as the public API spells them.
import * as z from 'zod'
import { text } from '../../contract/schema/text.ts'
import { SECRET_MASK } from '../../contract/api/resource.ts'
import { AlertSettings } from '../../contract/monitor.ts'
import { unknownVariables } from './webhook-template.ts'

/** Bounds of channels and their notifications; names end with the unit. */
export const ALERT_BOUNDS = {
  channelsPerAccountMax: 100,
  headersMax: 50,
  templateCharactersMax: 20_000,
  /** Time for a receiver to answer, including the DNS look-up. */
  answerMs: 10_000,
  /** Head of an answer; its body is not read. */
  answerHeadBytesMax: 16 * 1024,
  redirectsMax: 3,
  /** A notification sent longer than this after its event has `late: true`. */
  lateAfterS: 60,
  /** How long a failing notification blocks newer ones of its monitor, from its first attempt on. */
  blockMs: 60_000,
  /** After as many answers of `REFUSALS` a notification is given up. */
  refusalsMax: 3,
  subscriptionsMax: 1_000,
} as const

/** Statuses by which a receiver says that it does not accept this notification, now or later. */
export const REFUSALS: readonly number[] = [400, 404, 410, 413, 422]

const METHODS = ['POST', 'GET', 'PUT', 'PATCH', 'HEAD', 'DELETE'] as const

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
/** What the request itself, or its signature, decides. */
const OWN_HEADERS =
  /^(host|content-length|transfer-encoding|connection|upgrade|te|trailer|expect|keep-alive|proxy-.*|webhook-.*)$/i

const templated = (value: string, context: z.RefinementCtx): void => {
  const [unknown] = unknownVariables(value)
  if (unknown === undefined) return
  const message = `{{${unknown}}} is not a variable of webhooks; write one as {{NAME}}`
  context.addIssue({ code: 'custom', message })
}

const Pair = z.strictObject({
  key: text(128),
  value: z.string().max(4096).superRefine(templated),
  locked: z.boolean().default(false),
})

const Header = Pair.refine(({ key }) => HEADER_NAME.test(key) && !OWN_HEADERS.test(key), {
  error: 'must be the name of a header that may be set here',
  path: ['key'],
}).refine(({ value }) => HEADER_VALUE.test(value), {
  error: 'must be a valid value of a header',
  path: ['value'],
})

/** Where and how a webhook is posted. */
export const WebhookConfig = z
  .strictObject({
    name: text(255).default('webhook'),
    url: text(2048)
      .refine((value) => ['http:', 'https:'].includes(URL.parse(value)?.protocol ?? ''), {
        error: 'must be an address that begins with http:// or https://',
        abort: true,
      })
      .refine((value) => URL.parse(value)?.username === '' && URL.parse(value)?.password === '', {
        error: 'must not contain user and password; send them in a header',
      })
      .refine((value) => !/[{}]/.test(URL.parse(value)?.host ?? ''), {
        error: 'must have a host without variables',
      })
      .superRefine(templated),
    method: z.enum(METHODS).default('POST'),
    template: z
      .string()
      .max(ALERT_BOUNDS.templateCharactersMax)
      .superRefine(templated)
      .nullable()
      .optional()
      .meta({ description: 'The body; left out: the whole notification as JSON' }),
    headers: z.array(Header).max(ALERT_BOUNDS.headersMax).nullable().optional(),
    queryParameters: z.array(Pair).max(ALERT_BOUNDS.headersMax).nullable().optional(),
    webhookSecret: z.string().max(255).nullable().optional().meta({
      description:
        'Signs what is posted. Left out or empty: one is made, and shown in this answer only',
    }),
    webhookType: z.string().max(255).nullable().optional(),
  })
  .meta({ id: 'AlertChannelWebhook' })
export type WebhookConfig = z.infer<typeof WebhookConfig>

/** A monitor or group that is reported in a channel. */
export const ChannelSubscription = z
  .strictObject({
    checkId: z.guid().nullable().optional(),
    groupId: z.int().nullable().optional(),
    activated: z.boolean().default(true),
    id: z.unknown().optional(),
  })
  .refine(({ checkId, groupId }) => (checkId == null) !== (groupId == null), {
    error: 'needs a checkId or a groupId, and not both',
  })
export type ChannelSubscription = z.infer<typeof ChannelSubscription>

/** The monitors and groups that are reported in a channel. */
export const Subscriptions = z.array(ChannelSubscription).max(ALERT_BOUNDS.subscriptionsMax)
export type Subscriptions = z.infer<typeof Subscriptions>

/** All subscriptions of a channel, or one of them. */
export const SubscriptionsInput = z.union([Subscriptions, ChannelSubscription]).meta({
  id: 'AlertChannelSubscriptionsInput',
  example: [{ groupId: 1 }, { checkId: '0b0f1c3e-6a55-4d3f-9a5e-0a6f6d2f9a01', activated: false }],
})

const flags = {
  sendRecovery: z.boolean().default(true),
  sendFailure: z.boolean().default(true),
  sendDegraded: z.boolean().default(false),
  sslExpiry: z.boolean().default(false).meta({
    description:
      'Stored unchanged; no notification precedes an expiry: an SSL monitor fails or degrades then',
  }),
  sslExpiryThreshold: z.int().min(1).max(365).default(30),
  autoSubscribe: z.boolean().default(false).meta({
    description: 'For every monitor that names no channel',
  }),
  sendNotices: z.boolean().default(true).meta({
    description: 'Also updates of incidents with notifySubscribers, and locations without agents',
  }),
}

/** The types of channels that the platform can send through. */
const CHANNEL_TYPES = ['WEBHOOK'] as const

/** What makes or replaces a channel. */
export const AlertChannelInput = z
  .strictObject({
    type: z.enum(CHANNEL_TYPES, {
      error: () =>
        `must be one of ${CHANNEL_TYPES.join(', ')}; use a webhook for any other service`,
    }),
    config: WebhookConfig,
    ...flags,
    subscriptions: Subscriptions.default([]),
    id: z.unknown().optional(),
    created_at: z.unknown().optional(),
    updated_at: z.unknown().optional(),
    pausedAt: z.unknown().optional(),
  })
  .meta({
    id: 'AlertChannelInput',
    example: {
      type: 'WEBHOOK',
      config: { name: 'On call', url: 'https://hooks.example.com/vedette', method: 'POST' },
      sendDegraded: true,
    },
  })
export type AlertChannelInput = z.infer<typeof AlertChannelInput>

const ShownPairs = z.array(z.object({ key: z.string(), value: z.string(), locked: z.boolean() }))
const instant = () => z.iso.datetime().meta({ format: 'date-time' })

/** A channel as it is read. */
export const AlertChannel = z
  .object({
    id: z.int(),
    type: z.enum(CHANNEL_TYPES),
    config: z.object({
      name: z.string(),
      url: z.string(),
      method: z.enum(METHODS),
      template: z.string().nullable(),
      headers: ShownPairs,
      queryParameters: ShownPairs,
      webhookSecret: z
        .string()
        .meta({ description: `${SECRET_MASK} except in the answer that created it` }),
      webhookType: z.string().nullable(),
    }),
    sendRecovery: z.boolean(),
    sendFailure: z.boolean(),
    sendDegraded: z.boolean(),
    sslExpiry: z.boolean(),
    sslExpiryThreshold: z.int(),
    autoSubscribe: z.boolean(),
    sendNotices: z.boolean(),
    subscriptions: z
      .array(
        z.object({
          checkId: z.string().nullable(),
          groupId: z.int().nullable(),
          activated: z.boolean(),
        }),
      )
      .meta({ description: 'Those that were given to the channel, not those of monitors' }),
    pausedAt: instant().nullable().meta({
      description: 'Since when nothing is sent, because the receiver answered 410 three times',
    }),
    created_at: instant(),
    updated_at: instant().nullable(),
  })
  .meta({ id: 'AlertChannel' })

/** How an account is alerted where neither a monitor nor its group says otherwise. */
export const AccountAlertSettings = AlertSettings.meta({
  id: 'AccountAlertSettings',
  example: { escalationType: 'RUN_BASED', runBasedEscalation: { failedRunThreshold: 2 } },
})

/** A notification sent through a channel. */
export const AlertNotification = z
  .object({
    id: z.guid().meta({ format: 'uuid' }),
    alertChannelId: z.int(),
    checkId: z.guid().nullable(),
    checkType: z.string().optional(),
    checkResultId: z.guid().optional().meta({ description: 'Id of the reported result' }),
    type: z.literal('WEBHOOK').meta({ description: 'Type of the channel' }),
    event: z.string().meta({ example: 'alert.failure', description: '`type` of the payload' }),
    status: z.enum(['IN_PROGRESS', 'SUCCESS', 'FAILURE']).meta({
      description: 'In short what `state` says; `SUCCESS` for `sent` and `merged`',
    }),
    state: z.enum(['waiting', 'sent', 'failed', 'merged']).meta({
      description:
        '`merged`: a failure or reminder that was over before it was sent; its recovery stands for it',
    }),
    attempts: z.int(),
    httpStatus: z.int().nullable().meta({ description: 'HTTP status of the last answer' }),
    notificationResult: z
      .string()
      .nullable()
      .meta({ description: 'Why the last attempt failed, or what it was merged into' }),
    nextAttemptAt: instant().nullable(),
    payload: z.record(z.string(), z.unknown()).meta({
      description:
        'As it is posted; `late: true` where it was sent more than 60 s after it happened',
    }),
    timestamp: instant().meta({ description: 'When it was finished; until then, created' }),
    created_at: instant(),
    finishedAt: instant().nullable(),
  })
  .meta({ id: 'AlertNotification' })
export type AlertNotification = z.infer<typeof AlertNotification>
