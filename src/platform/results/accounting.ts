// GET /v1/accounting: the proof that nothing was lost, doubled or forgotten.
import { SlotAccount } from '../../contract/protocol/slot-account.ts'
import { CUSTOM_POLICIES } from '../../contract/api/rate-policy.ts'
import { type Verdict, VERDICTS } from '../../contract/result.ts'
import { accountOf, type LocationAccount, readSweptSpan } from './queries/accounting.ts'
import type { Database } from '../../database/database.ts'
import { ApiError } from '../http/errors.ts'
import { unixSeconds } from '../http/parameters.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'

const HOUR_MS = 3_600_000
const SPAN_MS_MAX = 7 * 24 * HOUR_MS
const STATEMENT_MS = 60_000

/** The account of slots as an operation. */
export function accountingOperation(database: Database): DefinedOperation {
  return defineOperation({
    tag: 'Accounting',
    summary: 'Account for every slot',
    description:
      'Counts what was due from the timing of the monitors, and apart from that what was recorded from the results: both must be equal.',
    method: 'get',
    path: '/v1/accounting',
    policy: CUSTOM_POLICIES.analytics,
    query: {
      from: unixSeconds(
        'Where to begin, seconds since the Unix epoch; default an hour before `to`',
      ),
      to: unixSeconds('Where to end, not included; default: the end of the last sweep'),
    },
    answers: { status: 200, schema: SlotAccount, description: 'The account' },
    async answer({ key: { accountId }, query }) {
      const account = await database.transaction(
        async (tx) => {
          const swept = (await readSweptSpan(tx))?.sweptUntilMs ?? 0
          const toMs = query.to ?? swept
          const fromMs = query.from ?? Math.max(0, toMs - HOUR_MS)
          if (fromMs > toMs) throw new ApiError(400, 'from: must lie before to')
          if (Math.min(toMs, swept) - fromMs > SPAN_MS_MAX) {
            throw new ApiError(400, 'from: must lie at most 7 days before to')
          }
          return accountOf(tx, { fromMs, toMs, accountId })
        },
        { isolation: 'repeatable read', readOnly: true, statementTimeoutMs: STATEMENT_MS },
      )
      const { fromMs, toMs, locations } = account
      const [from, to] = [new Date(fromMs), new Date(toMs)]
      const answer = { from, to, ...sumOf(locations), locations }
      return JSON.stringify(answer)
    },
  })
}

function sumOf(locations: LocationAccount[]): Omit<SlotAccount, 'from' | 'to' | 'locations'> {
  const of = (field: 'expected' | 'recorded' | 'missing' | 'unexpected') =>
    locations.reduce((sum, one) => sum + one[field], 0)
  const byVerdict = VERDICTS.map((verdict) => {
    return [verdict, locations.reduce((sum, one) => sum + one.byVerdict[verdict], 0)] as const
  })
  const byReason: Record<string, number> = {}
  for (const one of locations) {
    for (const [reason, n] of Object.entries(one.byReason)) {
      byReason[reason] = (byReason[reason] ?? 0) + n
    }
  }
  return {
    complete: locations.every((one) => one.missing === 0 && one.unexpected === 0),
    expected: of('expected'),
    recorded: of('recorded'),
    missing: of('missing'),
    unexpected: of('unexpected'),
    byVerdict: Object.fromEntries(byVerdict) as Record<Verdict, number>,
    byReason,
  }
}
