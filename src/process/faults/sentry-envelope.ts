// An event in the envelope of Sentry's protocol, and the rate limits in a receiver's answer.
// After https://develop.sentry.dev/sdk/envelopes and /sdk/rate-limiting; written from these pages alone.
import type { FaultEvent } from './event.ts'

/** An answer of a receiver; names of headers in lower case. */
export interface ReceiverAnswer {
  status: number
  headers: Readonly<Record<string, string | string[] | undefined>>
}

export interface FaultReceiver {
  /** Rejects when there is no answer in time. */
  take(event: FaultEvent, deadlineMs: number): Promise<ReceiverAnswer>
}

export const ENVELOPE_TYPE = 'application/x-sentry-envelope'

/** Lines of JSON: the envelope’s head, the item’s head, the item. `version` is the program's. */
export function envelopeOf(event: FaultEvent, version: string): Buffer {
  const item = Buffer.from(JSON.stringify(event))
  const head = {
    event_id: event.event_id,
    sent_at: new Date().toISOString(),
    sdk: { name: 'vedette', version },
  }
  const itemHead = { type: 'event', length: item.length, content_type: 'application/json' }
  return Buffer.concat([
    Buffer.from(`${JSON.stringify(head)}\n${JSON.stringify(itemHead)}\n`),
    item,
    Buffer.from('\n'),
  ])
}

const PAUSE_MS_DEFAULT = 60_000
const PAUSE_MS_MAX = 24 * 3_600_000

/** How long a receiver accepts no events, ms; 0 when it accepts more. */
export function pauseMsOf({ status, headers }: ReceiverAnswer, nowMs = Date.now()): number {
  const limits = headers['x-sentry-rate-limits']
  if (limits !== undefined) return pauseOfLimits([limits].flat().join(','))
  if (status !== 429) return 0
  const after = [headers['retry-after']].flat()[0] ?? ''
  const seconds = /^\d+(\.\d+)?$/.test(after) ? Number(after) * 1000 : Date.parse(after) - nowMs
  return bounded(seconds)
}

/** The longest of the limits that hold for errors: `seconds:categories:scope:…`, one after the other. */
function pauseOfLimits(limits: string): number {
  const pauses = limits.split(',').flatMap((limit) => {
    const [seconds = '', categories = ''] = limit.trim().split(':')
    const names = categories.split(';').filter((name) => name !== '')
    const holds = names.length === 0 || names.includes('error') || names.includes('default')
    return holds && seconds !== '' ? [bounded(Number(seconds) * 1000)] : []
  })
  return Math.max(0, ...pauses)
}

function bounded(ms: number): number {
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), PAUSE_MS_MAX) : PAUSE_MS_DEFAULT
}
