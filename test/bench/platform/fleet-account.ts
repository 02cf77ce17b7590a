// The account of every slot, computed anew from the tables: expected slots against recorded ones.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../../../src/database/database.ts'

/** Counts over all slots of a span. */
export interface Account {
  expected: number
  recorded: number
  /** Expected slots without a row. */
  missing: number
  /** Rows for slots that nobody expects. */
  unexpected: number
  passed: number
  /** Rows of missed slots, by reason. */
  missed: Record<string, number>
}

const ACCOUNT = `
  with expected as (
    select e.location_id, e.monitor_id, to_timestamp(s / 1000.0) as slot
    from expectations e, lateral generate_series(
      ((greatest(e.from_ms, $1::bigint) - e.offset_ms + e.every_ms - 1) / e.every_ms) * e.every_ms
        + e.offset_ms,
      least(coalesce(e.until_ms, $2::bigint), $2::bigint) - 1, e.every_ms) s
  ), rows as (
    select location_id, monitor_id, slot, verdict, missed_reason from results
    where slot >= to_timestamp($1::bigint / 1000.0) and slot < to_timestamp($2::bigint / 1000.0)
  )
  select count(e.slot)::int as expected, count(r.slot)::int as recorded,
    count(*) filter (where r.slot is null)::int as missing,
    count(*) filter (where e.slot is null)::int as unexpected,
    count(*) filter (where r.verdict = 'passed')::int as passed,
    (select coalesce(jsonb_object_agg(missed_reason, n), '{}') from
      (select missed_reason, count(*) n from rows where missed_reason is not null group by 1) m)
      as missed
  from expected e full join rows r using (location_id, monitor_id, slot)`

/** Throws on fewer passed runs than `passedMin`, another outcome, a slot without a row, or an unexpected row. */
export function checkAccount(account: Account, passedMin: number): void {
  const { recorded, missing, unexpected, passed, missed } = account
  const others = Object.values(missed).reduce((rest, count) => rest - count, recorded - passed)
  if (passed >= passedMin && others === 0 && missing === 0 && unexpected === 0) return
  throw new Error(`load did not run, expected ${passedMin} passed: ${JSON.stringify(account)}`)
}

const SWEPT_MS = 120_000

/** The account of [fromMs, untilMs), once the platform has swept so far. Rejects when it does not. */
export async function accountOf(
  database: Database,
  fromMs: number,
  untilMs: number,
): Promise<Account> {
  const givenUpAt = Date.now() + SWEPT_MS
  for (;;) {
    const [row] = await database.query<{ swept: number }>(
      'select swept_until_ms as swept from accounting',
    )
    if (row !== undefined && row.swept >= untilMs) break
    if (Date.now() > givenUpAt) throw new Error('the platform does not account for its slots')
    await sleep(1000)
  }
  const [account] = await database.query<Account>(ACCOUNT, [fromMs, untilMs])
  if (account === undefined) throw new Error('a count has one row')
  return account
}
