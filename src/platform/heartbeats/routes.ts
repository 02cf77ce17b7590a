// GET /v1/checks/heartbeats/{checkId}/…: events and availability of heartbeats, in the shapes of the public document.
import { z } from '@hono/zod-openapi'
import type { Database } from '../../database/database.ts'
import { readMonitorFacts, type Span } from '../analytics/queries/analytics.ts'
import { notFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'
import { resultId, slotOfResultId } from '../results/schema.ts'
import { HEARTBEAT_EVENT_STATES } from './heartbeat.ts'
import { countEvents, type EventRow, listEvents } from './queries/heartbeats.ts'

const TAG = 'Heartbeats'
const PATH = '/v1/checks/heartbeats/{checkId}'
const DAY_MS = 86_400_000
const EVENTS_MAX = 1_000

const Availability = z
  .object({
    successRatio: z
      .object({ previousPeriod: z.number().nullable(), currentPeriod: z.number().nullable() })
      .openapi({ description: 'Percent of the events that passed; null without events' }),
    totalEntitiesCurrentPeriod: z.int().openapi({ description: 'Number of events' }),
  })
  .meta({ id: 'HeartbeatAvailability' })

const Stats = z
  .object({ last24Hours: Availability, last7Days: Availability })
  .meta({ id: 'HeartbeatStats' })

const HeartbeatEvent = z
  .object({
    id: z.guid().openapi({ description: 'Id of the result' }),
    state: z.enum(HEARTBEAT_EVENT_STATES),
    timestamp: z.string().openapi({ format: 'date-time' }),
    source: z.string().nullable().openapi({ description: 'Null without a ping' }),
    userAgent: z.string().nullable(),
  })
  .meta({ id: 'HeartbeatEvent' })

const instant = (description: string) =>
  z
    .union([z.iso.datetime({ offset: true }), z.iso.date()], {
      error: 'must be an instant like 2026-01-31T12:00:00Z, or a date',
    })
    .transform((text) => Date.parse(text))
    .optional()
    .openapi({ type: 'string', format: 'date-time', description })

const span = {
  startTime: instant('The first instant; by default a day ago'),
  endTime: instant('The end, not included; by default now'),
}

interface HeartbeatParts {
  database: Database
  /** Milliseconds on the platform's clock. */
  now: () => number
}

const common = { tag: TAG, method: 'get' } as const
const params = { checkId: idParameter('heartbeat') }

/** The operations on events of heartbeats. */
export function heartbeatOperations(parts: HeartbeatParts): DefinedOperation[] {
  const { database, now } = parts
  return [
    defineOperation({
      ...common,
      summary: 'Read the availability of a heartbeat',
      path: `${PATH}/availability`,
      params,
      query: span,
      answers: { status: 200, schema: Availability, description: 'Its availability' },
      async answer({ key, params: { checkId }, query }) {
        await requireHeartbeat(database, key.accountId, checkId)
        const shown = await availability(database, checkId, spanOf(query, now()))
        return JSON.stringify(shown)
      },
    }),
    defineOperation({
      ...common,
      summary: 'List the events of a heartbeat',
      path: `${PATH}/events`,
      params,
      query: {
        ...span,
        limit: z.coerce.number().int().min(1).max(EVENTS_MAX).default(100),
      },
      answers: {
        status: 200,
        schema: z.array(z.object({ events: z.array(HeartbeatEvent), stats: Stats })),
        description: 'One item with its events, newest first, and its figures',
      },
      async answer({ key, params: { checkId }, query }) {
        await requireHeartbeat(database, key.accountId, checkId)
        const ask = { monitorId: checkId, ...spanOf(query, now()), limit: query.limit }
        const events = (await listEvents(database, ask)).map((row) => shownEvent(checkId, row))
        const stats = await statsOf(database, checkId, now())
        return JSON.stringify([{ events, stats }])
      },
    }),
    defineOperation({
      ...common,
      summary: 'Read an event of a heartbeat',
      path: `${PATH}/events/{id}`,
      params: { ...params, id: idParameter('event') },
      answers: {
        status: 200,
        schema: z.object({ event: HeartbeatEvent, stats: Stats }),
        description: 'The event, and the figures of its heartbeat',
      },
      async answer({ key, params: { checkId, id } }) {
        await requireHeartbeat(database, key.accountId, checkId)
        const fromMs = slotOfResultId(id)
        const ask = { monitorId: checkId, fromMs, toMs: fromMs + 1, limit: 1 }
        const [row] = await listEvents(database, ask)
        const event = row && shownEvent(checkId, row)
        if (event?.id !== id) throw notFound('event')
        const stats = await statsOf(database, checkId, now())
        return JSON.stringify({ event, stats })
      },
    }),
  ]
}

async function requireHeartbeat(database: Database, accountId: string, id: string): Promise<void> {
  const facts = await readMonitorFacts(database, accountId, id)
  if (facts?.checkType !== 'HEARTBEAT') throw notFound('heartbeat')
}

function spanOf(
  query: { startTime?: number | undefined; endTime?: number | undefined },
  nowMs: number,
): Span {
  // An event of this millisecond has happened.
  const toMs = query.endTime ?? nowMs + 1
  return { fromMs: query.startTime ?? toMs - DAY_MS, toMs }
}

/** The previous period is as long as the current one, and ends where that begins. */
async function availability(
  database: Database,
  monitorId: string,
  { fromMs, toMs }: Span,
): Promise<z.input<typeof Availability>> {
  const current = await countEvents(database, { monitorId, fromMs, toMs })
  const before = { monitorId, fromMs: fromMs - (toMs - fromMs), toMs: fromMs }
  const previous = await countEvents(database, before)
  return {
    successRatio: { previousPeriod: ratioOf(previous), currentPeriod: ratioOf(current) },
    totalEntitiesCurrentPeriod: current.all,
  }
}

function ratioOf({ all, passed }: { all: number; passed: number }): number | null {
  return all === 0 ? null : Math.round((passed / all) * 10_000) / 100
}

async function statsOf(
  database: Database,
  checkId: string,
  nowMs: number,
): Promise<z.input<typeof Stats>> {
  const last = (days: number) =>
    availability(database, checkId, { fromMs: nowMs - days * DAY_MS, toMs: nowMs + 1 })
  return { last24Hours: await last(1), last7Days: await last(7) }
}

function shownEvent(monitorId: string, { slotMs, locationId, observed }: EventRow) {
  const { state, source, userAgent } = observed
  const id = resultId({ locationId, monitorId, slotMs })
  return { id, state, timestamp: new Date(slotMs).toISOString(), source, userAgent }
}
