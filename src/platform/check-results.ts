// GET /v1/check-results/…: what came of the slots of a monitor, newest first.
import { z } from '@hono/zod-openapi'
import { artifactOwner } from '../contract/agent-protocol.ts'
import {
  CheckResult,
  CheckResultDetail,
  hasErrors,
  hasFailures,
  resultId,
  slotOfResultId,
} from '../contract/check-result.ts'
import { CUSTOM_POLICIES } from '../contract/rate-policy.ts'
import { VERDICTS } from '../contract/result.ts'
import type { ArtifactView } from '../contract/run.ts'
import { readMonitorFacts } from '../store/analytics.ts'
import { artifactsOf } from '../store/artifacts.ts'
import {
  type WholeResultRow,
  listResults,
  readResultsOfSlot,
  type ResultRow,
} from '../store/check-results.ts'
import type { Database } from '../store/database.ts'
import { withArtifacts } from './artifact-views.ts'
import { absent } from './errors.ts'
import { unixSeconds, wordsOf } from './instants.ts'
import { pageJson, pageOf, pageParameters } from './listing.ts'
import { defineOperation, type DefinedOperation } from './operation.ts'
import { idParameter } from './parameters.ts'

const TAG = 'Check Results'
const PATH = '/v1/check-results/{checkId}'
const LISTING = 'check-results'
const policy = CUSTOM_POLICIES['check-results']
/** Past every slot that can be recorded. */
const TO_MS_MAX = Date.UTC(9999, 0)

const query = {
  ...pageParameters(LISTING),
  from: unixSeconds('The first instant of slots, seconds since the Unix epoch'),
  to: unixSeconds('The end of slots, not included'),
  location: z.string().max(255).optional().openapi({ description: 'Slug of a private location' }),
  verdict: wordsOf(VERDICTS, 'Which verdicts, with commas between them'),
}

/** The operations on results of slots. */
export function checkResultOperations(database: Database): DefinedOperation[] {
  return [
    defineOperation({
      operationId: 'getV1CheckresultsCheckid',
      tag: TAG,
      summary: 'List results of a monitor',
      description:
        'One for each slot that was due in a location: a result, or `missed` with its reason.',
      method: 'get',
      path: PATH,
      deed: 'read',
      policy,
      params: { checkId: idParameter('monitor') },
      query,
      answers: {
        status: 200,
        schema: pageOf(CheckResult, 'CheckResultsPage'),
        description: 'A page of results, newest slot first',
      },
      async answer({ key: { accountId }, params: { checkId }, query: asked }) {
        if ((await readMonitorFacts(database, accountId, checkId)) === undefined) {
          throw absent('monitor')
        }
        const rows = await listResults(database, {
          accountId,
          monitorId: checkId,
          fromMs: asked.from ?? 0,
          toMs: Math.min(asked.to ?? TO_MS_MAX, TO_MS_MAX),
          location: asked.location,
          verdicts: asked.verdict,
          limit: asked.limit + 1,
          after: asked.nextId,
        })
        const shown = rows.slice(0, asked.limit)
        const last = shown.at(-1)
        const next = rows.length > shown.length && last !== undefined ? placeOf(last) : undefined
        const entries = shown.map((row) => JSON.stringify(shownResult(checkId, row))).join(',')
        return { status: 200, json: pageJson(LISTING, { entries, length: shown.length, next }) }
      },
    }),
    oneResult(database),
  ]
}

function placeOf({ slot, locationId }: ResultRow): { createdUs: bigint; id: string } {
  return { createdUs: BigInt(slot.getTime()) * 1000n, id: locationId }
}

function oneResult(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'getV1CheckresultsCheckidResultid',
    tag: TAG,
    summary: 'Read a result with all that is kept of it',
    method: 'get',
    path: `${PATH}/{resultId}`,
    deed: 'read',
    policy,
    params: { checkId: idParameter('monitor'), resultId: idParameter('result') },
    answers: { status: 200, schema: CheckResultDetail, description: 'The result' },
    async answer({ key: { accountId }, params: { checkId, resultId: id } }) {
      if ((await readMonitorFacts(database, accountId, checkId)) === undefined) {
        throw absent('monitor')
      }
      const rows = await readResultsOfSlot(database, accountId, checkId, slotOfResultId(id))
      for (const row of rows) {
        const shown = shownResult(checkId, row)
        if (shown.id !== id) continue
        const owner = artifactOwner({ monitorId: checkId.toLowerCase(), slot: row.slot.getTime() })
        const kept = await artifactsOf(database, row.locationId, owner)
        return { status: 200, json: JSON.stringify({ ...shown, ...shownDetail(row, kept) }) }
      }
      throw absent('result')
    },
  })
}

function shownResult(monitorId: string, row: ResultRow): CheckResult {
  const { verdict, locationId, slot } = row
  const startedMs = row.startedAt.getTime()
  return {
    id: resultId({ locationId, monitorId, slotMs: slot.getTime() }),
    checkId: monitorId,
    location: row.location,
    slot: slot.toISOString(),
    startedAt: row.startedAt.toISOString(),
    clockUncertaintyMs: row.clockUncertaintyMs,
    stoppedAt: new Date(Math.min(startedMs + row.durationMs, 8.64e15)).toISOString(),
    responseTime: row.responseTimeMs,
    verdict,
    missedReason: row.missedReason,
    needed: row.needed,
    hasFailures: hasFailures(verdict),
    hasErrors: hasErrors(verdict),
    isDegraded: verdict === 'degraded',
    attempts: row.attempts,
    failureCode: row.failureCode,
    runBy: row.agentId,
    receivedAt: row.receivedAt.toISOString(),
  }
}

function shownDetail(
  { detail, filesOverdue }: WholeResultRow,
  kept: readonly ArtifactView[],
): Pick<CheckResultDetail, 'failures' | 'observed' | 'attemptResults' | 'artifacts'> {
  return {
    failures: detail?.failures ?? [],
    observed: detail?.observed ?? null,
    attemptResults: detail?.attempts ?? [],
    artifacts: withArtifacts(detail?.artifacts ?? [], kept, filesOverdue),
  }
}
