// GET /v1/check-results/… and /v2/check-results/…: what came of the slots of a monitor, newest first.
import { z } from '@hono/zod-openapi'
import { artifactOwner } from '../../contract/protocol/agent-protocol.ts'
import {
  CheckResult,
  CheckResultDetail,
  CheckResultFields,
  hasErrors,
  hasFailures,
  resultId,
  slotOfResultId,
} from './schema.ts'
import { CHECK_TYPES } from '../../monitors/definitions.ts'
import { CUSTOM_POLICIES } from '../../contract/api/rate-policy.ts'
import { VERDICTS } from '../../contract/result.ts'
import { type MonitorFacts, readMonitorFacts } from '../analytics/queries/analytics.ts'
import { artifactsOf } from '../artifacts/queries.ts'
import { listResults, readResultsOfSlot, type ResultRow } from './queries/check-results.ts'
import type { Database } from '../../database/database.ts'
import { withArtifacts } from '../artifacts/views.ts'
import { notFound, orNotFound } from '../http/errors.ts'
import { offsetOf, pagedParameters, pageJson, pageOf, pageParameters } from '../http/listing.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { booleanParameter, idParameter, namesParameter, unixSeconds } from '../http/parameters.ts'

const TAG = 'Check Results'
const PATH = '/v1/check-results/{checkId}'
const LISTING = 'check-results'
const policy = CUSTOM_POLICIES['check-results']
/** The last instant that a Date can be. */
const DATE_MS_MAX = 8.64e15
/** Past every slot that can be recorded. */
const TO_MS_MAX = Date.UTC(9999, 0)

const filters = {
  from: unixSeconds('The first instant of slots, seconds since the Unix epoch'),
  to: unixSeconds('The end of slots, not included'),
  location: z.string().max(255).optional().openapi({ description: 'Slug of a private location' }),
  verdict: namesParameter(VERDICTS, 'Which verdicts, with commas between them'),
  hasFailures: booleanParameter('Only results whose verdict is `failed`, or is not'),
  checkType: z
    .enum(CHECK_TYPES)
    .optional()
    .openapi({ description: 'Only results of a check of this type' }),
  resultType: z
    .literal('FINAL')
    .optional()
    .openapi({ description: 'Tries have no results of their own' }),
}

/** The operations on results of slots. */
export function checkResultOperations(database: Database): DefinedOperation[] {
  return [firstVersion(database), secondVersion(database), oneResult(database)]
}

const common = {
  tag: TAG,
  method: 'get',
  policy,
  params: { checkId: idParameter('monitor') },
} as const
const SLOTS = 'One for each slot that was due in a location: a result, or `missed` with its reason.'

function firstVersion(database: Database): DefinedOperation {
  return defineOperation({
    ...common,
    summary: 'List results of a monitor, by pages',
    description: `${SLOTS} Later pages take longer: prefer /v2/check-results.`,
    path: PATH,
    query: { ...pagedParameters(), ...filters },
    lists: ['verdict'],
    answers: {
      status: 200,
      schema: z.array(CheckResult),
      description: 'A page of results, newest slot first',
    },
    async answer({ key: { accountId }, params: { checkId }, query }) {
      const facts = orNotFound(await readMonitorFacts(database, accountId, checkId), 'monitor')
      const { limit } = query
      const ask = { limit, offset: offsetOf(query), after: undefined }
      const rows = await listResults(database, { ...askOf(accountId, facts, query), ...ask })
      return JSON.stringify(rows.map((row) => shownResult(facts, row)))
    },
  })
}

function secondVersion(database: Database): DefinedOperation {
  return defineOperation({
    ...common,
    summary: 'List results of a monitor',
    description: SLOTS,
    path: '/v2/check-results/{checkId}',
    query: {
      ...pageParameters(LISTING),
      ...filters,
      fields: namesParameter(FIELD_NAMES, 'Which fields, with commas between them; default all'),
    },
    lists: ['verdict', 'fields'],
    answers: {
      status: 200,
      schema: pageOf(CheckResultFields, 'CheckResultsPage'),
      description: 'A page of results, newest slot first',
    },
    async answer({ key: { accountId }, params: { checkId }, query }) {
      const { limit, nextId: after, fields = FIELD_NAMES } = query
      const facts = orNotFound(await readMonitorFacts(database, accountId, checkId), 'monitor')
      const ask = { ...askOf(accountId, facts, query), limit: limit + 1, offset: 0, after }
      const rows = await listResults(database, ask)
      const shown = rows.slice(0, limit)
      const last = shown.at(-1)
      const next = rows.length > shown.length && last !== undefined ? placeOf(last) : undefined
      const entries = shown.map((row) => {
        const whole = shownResult(facts, row)
        return JSON.stringify(Object.fromEntries(fields.map((name) => [name, whole[name]])))
      })
      const page = { entries: entries.join(','), length: shown.length, next }
      return pageJson(LISTING, page)
    },
  })
}

const FIELD_NAMES = CheckResult.keyof().options

/** Which results are asked for. */
function askOf(
  accountId: string,
  { id: monitorId, checkType }: MonitorFacts,
  asked: z.output<z.ZodObject<typeof filters>>,
) {
  const isOtherType = asked.checkType !== undefined && asked.checkType !== checkType
  const verdicts = (asked.verdict ?? VERDICTS).filter(
    (one) =>
      !isOtherType && (asked.hasFailures === undefined || hasFailures(one) === asked.hasFailures),
  )
  return {
    accountId,
    monitorId,
    fromMs: asked.from ?? 0,
    toMs: Math.min(asked.to ?? TO_MS_MAX, TO_MS_MAX),
    location: asked.location,
    // Without a list the rows come straight from their key.
    verdicts: verdicts.length === VERDICTS.length ? undefined : verdicts,
  }
}

function placeOf({ slot, locationId }: ResultRow): { createdUs: bigint; id: string } {
  return { createdUs: BigInt(slot.getTime()) * 1000n, id: locationId }
}

function oneResult(database: Database): DefinedOperation {
  return defineOperation({
    ...common,
    summary: 'Read a result with all its stored details',
    path: `${PATH}/{resultId}`,
    params: { checkId: idParameter('monitor'), resultId: idParameter('result') },
    answers: { status: 200, schema: CheckResultDetail, description: 'The result' },
    async answer({ key: { accountId }, params: { checkId, resultId: id } }) {
      const facts = orNotFound(await readMonitorFacts(database, accountId, checkId), 'monitor')
      const rows = await readResultsOfSlot(database, accountId, checkId, slotOfResultId(id))
      for (const row of rows) {
        const { detail, filesOverdue, ...plain } = row
        const shown = shownResult(facts, plain)
        if (shown.id !== id) continue
        const owner = artifactOwner({ monitorId: checkId.toLowerCase(), slot: row.slot.getTime() })
        const stored = await artifactsOf(database, row.locationId, owner)
        const details = {
          failures: detail?.failures ?? [],
          observed: detail?.observed ?? null,
          attemptResults: detail?.attempts ?? [],
          artifacts: withArtifacts(detail?.artifacts ?? [], stored, filesOverdue),
        }
        return JSON.stringify({ ...shown, ...details })
      }
      throw notFound('result')
    },
  })
}

function shownResult({ id: monitorId, name }: MonitorFacts, row: ResultRow): CheckResult {
  const { locationId, durationMs, responseTimeMs, slot, startedAt, receivedAt, ...shown } = row
  const { verdict, location } = shown
  const stoppedMs = Math.min(startedAt.getTime() + durationMs, DATE_MS_MAX)
  return {
    ...shown,
    id: resultId({ locationId, monitorId, slotMs: slot.getTime() }),
    checkId: monitorId,
    name,
    resultType: 'FINAL',
    runLocation: location,
    slot: slot.toISOString(),
    startedAt: startedAt.toISOString(),
    stoppedAt: new Date(stoppedMs).toISOString(),
    responseTime: Math.round(responseTimeMs ?? durationMs),
    hasFailures: hasFailures(verdict),
    hasErrors: hasErrors(verdict),
    isDegraded: verdict === 'degraded',
    isCancelled: verdict === 'cancelled',
    receivedAt: receivedAt.toISOString(),
    created_at: receivedAt.toISOString(),
    sequenceId: null,
    traceId: null,
  }
}
