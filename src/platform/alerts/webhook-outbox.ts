// Webhook outbox: claims due notifications and sends them. Any number of processes may run it at once; a claim
// that a process does not finish expires, and another process sends the notification.
import { setTimeout as sleep } from 'node:timers/promises'
import { ALERT_BOUNDS, REFUSALS, type WebhookConfig } from './channel-schema.ts'
import { fillTemplate, insideJson, webhookValues } from './webhook-template.ts'
import { VERSION } from '../../contract/versions.ts'
import type { Log } from '../../process/log.ts'
import { pauseChannel } from './queries/channels.ts'
import {
  claimNotifications,
  giveUpWaiting,
  noteOutcome,
  type DueNotification,
} from './queries/alert-notifications.ts'
import type { Database } from '../../database/database.ts'
import { isUnavailable } from '../../database/database-failure.ts'
import { DecryptionError, type Cipher } from '../secrets/cipher.ts'
import { signatureHeaders } from './webhook-signature.ts'
import { postWebhook, type WebhookAnswer, type WebhookPost } from './webhook.ts'

export interface OutboxOptions {
  database: Pick<Database, 'query' | 'transaction'>
  cipher: Cipher
  log: Log
  now: () => number
  /** How long to wait after the attempt of this number, from 1; undefined: give up. */
  againMs?: (attempt: number) => number | undefined
  /** How long to rest when nothing is due. */
  restMs?: number
}

const REST_MS = 1000
const AT_ONCE_MAX = 16
const PER_CHANNEL_MAX = 4
/** Longer than an attempt with its statements; after a process died, another one tries again then. */
const LEASE_MS = 25_000
const RETRY_AFTER_MS_MAX = 3_600_000

/** Seconds between attempts: about nine hours in all. */
const AGAIN_S = [5, 15, 60, 120, 300, 600, 1200, 1800, 3600, 3600, 7200, 7200, 7200]

/** How long to wait after the attempt of this number, from 1, in milliseconds; undefined: give up. */
export function spreadOut(attempt: number): number | undefined {
  const seconds = AGAIN_S[attempt - 1]
  // Jitter spreads the requests to a receiver that works again.
  return seconds === undefined ? undefined : seconds * 1000 * (0.8 + Math.random() * 0.4)
}

/**
 * Sends due notifications until the signal fires; resolves when the claimed ones have ended, within the
 * duration of an attempt. Never rejects.
 */
export async function sendWebhooks(options: OutboxOptions, signal: AbortSignal): Promise<void> {
  const { log, restMs = REST_MS } = options
  /** Channel of each notification that is under way. */
  const underWay = new Map<Promise<void>, number>()
  const begin = (due: DueNotification) => {
    const sending = sendOne(due, options)
      .catch((error: unknown) => {
        // Its lease runs out and it is sent again, under the same webhook-id.
        const why = isUnavailable(error) ? { reason: (error as Error).message } : { err: error }
        log.warn({ ...why, notification: due.id }, 'a webhook is retried')
      })
      .finally(() => underWay.delete(sending))
    underWay.set(sending, due.channelId)
  }
  while (!signal.aborted) {
    const due = await claim(options, [...underWay.values()])
    for (const one of due) begin(one)
    if (due.length > 0 && underWay.size < AT_ONCE_MAX) continue
    // Until a sent notification has ended, or for `restMs`.
    const rested = new AbortController()
    const rest = sleep(restMs, undefined, { signal: AbortSignal.any([signal, rested.signal]) })
    await Promise.race([rest.catch(() => undefined), ...underWay.keys()])
    rested.abort()
  }
  await Promise.all(underWay.keys())
}

/** Claims due notifications; `channels` are those of the notifications under way. */
async function claim(
  { database, log, now }: OutboxOptions,
  channels: readonly number[],
): Promise<DueNotification[]> {
  const busy = [...Map.groupBy(channels, (channel) => channel)]
    .filter(([, some]) => some.length >= PER_CHANNEL_MAX)
    .map(([channel]) => channel)
  try {
    return await claimNotifications(database, {
      rowsMax: AT_ONCE_MAX - channels.length,
      leaseMs: LEASE_MS,
      blockMs: ALERT_BOUNDS.blockMs,
      perChannelMax: PER_CHANNEL_MAX,
      busy,
      lateBefore: now() - ALERT_BOUNDS.lateAfterS * 1000,
    })
  } catch (error) {
    const level = isUnavailable(error) ? 'debug' : 'error'
    log[level]({ err: error }, 'the outbox cannot be read; webhooks wait')
    return []
  }
}

async function sendOne(due: DueNotification, options: OutboxOptions): Promise<void> {
  const { database, now } = options
  const config = opened(due, options)
  if (config === undefined) {
    const message = 'the channel was encrypted under another SECRETS_KEY'
    const { id, refusals } = due
    const none = { id, refusals, againMs: null, status: null }
    await noteOutcome(database, { ...none, state: 'failed', message })
    return
  }
  const post = webhookPost(due, config, now())
  const answer: WebhookAnswer =
    post === undefined
      ? { problem: 'its variables make the address invalid' }
      : await postWebhook(post, AbortSignal.timeout(LEASE_MS))
  await note(due, answer, options)
}

function opened(
  { config, channelId }: DueNotification,
  { cipher, log }: OutboxOptions,
): WebhookConfig | undefined {
  try {
    return JSON.parse(cipher.decrypt(config)) as WebhookConfig
  } catch (error) {
    if (!(error instanceof DecryptionError)) throw error
    const message = 'channel configuration cannot be decrypted'
    log.error({ err: error, channel: channelId }, message)
    return undefined
  }
}

async function note(
  due: DueNotification,
  answer: WebhookAnswer,
  { database, now, againMs: waitAfter = spreadOut }: OutboxOptions,
): Promise<void> {
  const { status, retryAfter } = 'status' in answer ? answer : { status: null }
  const isSent = status !== null && status >= 200 && status < 300
  const isRefusal = status !== null && REFUSALS.includes(status)
  const refusals = due.refusals + Number(isRefusal)
  const isLastRefusal = isRefusal && refusals >= ALERT_BOUNDS.refusalsMax
  const waitMs = isSent || isLastRefusal ? undefined : waitAfter(due.attempts)
  const againMs = waitMs === undefined ? null : Math.max(waitMs, retryAfterMs(retryAfter, now()))
  const why = 'problem' in answer ? answer.problem : `the receiver answered ${status}`
  const outcome = { id: due.id, status, refusals, againMs, message: isSent ? null : why }
  const unsent = againMs === null ? 'failed' : 'waiting'
  const noted = { ...outcome, state: isSent ? 'sent' : unsent } as const
  if (!isLastRefusal || status !== 410) return noteOutcome(database, noted)
  await database.transaction(async (tx) => {
    await noteOutcome(tx, noted)
    await pauseChannel(tx, due.channelId)
    await giveUpWaiting(tx, due.channelId, 'the channel is paused')
  })
}

/** Milliseconds that Retry-After (RFC 9110, 10.2.3) asks for, in its bounds. */
function retryAfterMs(text: string | undefined, now: number): number {
  if (text === undefined) return 0
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), RETRY_AFTER_MS_MAX) : 0
}

/** The request of a notification; undefined when its variables break the address. */
function webhookPost(
  { id, payload }: Pick<DueNotification, 'id' | 'payload'>,
  config: WebhookConfig,
  now: number,
): WebhookPost | undefined {
  const values = webhookValues(id, payload)
  const url = URL.parse(fillTemplate(config.url, values, encodeURIComponent))
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined
  for (const { key, value } of config.queryParameters ?? []) {
    url.searchParams.append(key, fillTemplate(value, values, String))
  }
  const { template } = config
  const isJson = template == null || template === '' || /^\s*[{[]/.test(template)
  const body =
    template == null || template === ''
      ? JSON.stringify({ id, ...payload })
      : fillTemplate(template, values, isJson ? insideJson : String)
  const headers: Record<string, string> = {
    'content-type': isJson ? 'application/json; charset=utf-8' : 'text/plain; charset=utf-8',
    'user-agent': `vedette/${VERSION}`,
  }
  for (const { key, value } of config.headers ?? []) {
    headers[key.toLowerCase()] = headerText(fillTemplate(value, values, String))
  }
  const sent = config.method === 'GET' || config.method === 'HEAD' ? '' : body
  Object.assign(headers, signatureHeaders(config.webhookSecret ?? '', { id, at: now, body: sent }))
  return { url, method: config.method, headers, body: sent }
}

/** Names of monitors may contain characters that a header cannot carry. */
function headerText(value: string): string {
  return value.replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, '?')
}
