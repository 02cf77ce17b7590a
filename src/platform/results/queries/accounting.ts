// The account of slots: the expected slots of a span, from the eras, and the recorded ones, from the rows. They
// are counted separately, so that their equality is a proof.
import type { SlotAccount } from '../../../contract/protocol/slot-account.ts'
import { VERDICTS, type Verdict } from '../../../contract/result.ts'
import { slotMsSql, slotsBetweenSql } from '../../../database/expected-slots.ts'
import { execute, queryRow, raw, sql } from '../../../database/sql.ts'
import type { Queryable } from '../../../database/database.ts'

/** The span that is accounted for. Instants in milliseconds. */
export interface SweptSpan {
  /** Rows of slots before it were dropped. */
  keptFromMs: number
  /** Every expected slot before it has its row. */
  sweptUntilMs: number
  /** Counts of everything that was ever swept. */
  expectedTotal: number
  recordedTotal: number
}

/** The span that is accounted for; undefined before the first sweep. */
export const readSweptSpan = queryRow(
  () => sql<SweptSpan>('accounting-span')`
      select kept_from_ms as "keptFromMs", swept_until_ms as "sweptUntilMs",
        expected_total as "expectedTotal", recorded_total as "recordedTotal" from accounting`,
)

/** Ends the account of slots before the instant, whose rows are about to be dropped. */
export const forgetSlotsBefore = execute(
  (instantMs: number) => sql('accounting-keep-from')`
      update accounting set kept_from_ms = greatest(kept_from_ms, ${instantMs}::bigint)`,
)

/** The account of one location, as the public API spells it. */
export type LocationAccount = SlotAccount['locations'][number]

/** An account, and the part of the span asked for that it covers. */
export interface Account {
  fromMs: number
  toMs: number
  locations: LocationAccount[]
}

interface RecordedRows {
  locationId: string
  verdict: Verdict
  reason: string | null
  recorded: number
  unexpected: number
}

/**
 * The account of every location, or of those of one account, for the part of [fromMs, toMs) that was swept and
 * is retained. Needs a transaction of isolation `repeatable read`, so that both counts see the same rows.
 */
export async function accountOf(
  tx: Queryable,
  ask: { fromMs: number; toMs: number; accountId?: string },
): Promise<Account> {
  const span = await readSweptSpan(tx)
  const { keptFromMs = 0, sweptUntilMs = 0 } = span ?? {}
  const fromMs = Math.max(ask.fromMs, keptFromMs)
  const toMs = Math.max(fromMs, Math.min(ask.toMs, sweptUntilMs))
  const accountId = ask.accountId ?? null
  const expected = await tx.query(sql<Pick<LocationAccount, 'id' | 'slugName' | 'expected'>>(
    'accounting-expected',
  )`
      select l.id, l.slug_name as "slugName", coalesce(sum(n.slots), 0)::bigint as expected
      from private_locations l
      left join expectations e on e.location_id = l.id and e.opened_ms < ${sweptUntilMs}::bigint
        and e.from_ms < ${toMs}::bigint and (e.until_ms is null or e.until_ms > ${fromMs}::bigint)
      left join lateral (select greatest(e.from_ms, ${fromMs}::bigint) as from_ms,
        least(coalesce(e.until_ms, ${toMs}::bigint), ${toMs}::bigint) as to_ms) w on true
      left join lateral (
        select ${raw(slotsBetweenSql('e', 'w.from_ms', 'w.to_ms'))} as slots) n on true
      where ${accountId}::uuid is null or l.account_id = ${accountId}::uuid
      group by l.id, l.slug_name order by l.slug_name, l.id`)
  const recorded = await tx.query(sql<RecordedRows>('accounting-recorded')`
      select r.location_id as "locationId", r.verdict, r.missed_reason as reason,
        count(*) filter (where e.opened_ms < ${sweptUntilMs}::bigint) as recorded,
        count(*) filter (where e.opened_ms is null) as unexpected
      from results r
      left join expectations e on e.location_id = r.location_id and e.monitor_id = r.monitor_id
        and e.from_ms <= ${SLOT_MS} and (e.until_ms is null or ${SLOT_MS} < e.until_ms)
        and (${SLOT_MS} - e.offset_ms) % e.every_ms = 0
      where r.slot >= to_timestamp(${fromMs}::bigint / 1000::float8)
        and r.slot < to_timestamp(${toMs}::bigint / 1000::float8)
        and (${accountId}::uuid is null or r.account_id = ${accountId}::uuid)
      group by 1, 2, 3`)
  // Rows of deleted locations do not count: they have no expected slots any more.
  const rowsOf = Map.groupBy(recorded, ({ locationId }) => locationId)
  const locations = expected.map((one) => locationAccount(one, rowsOf.get(one.id) ?? []))
  return { fromMs, toMs, locations }
}

const SLOT_MS = raw(slotMsSql('r'))

function locationAccount(
  location: Pick<LocationAccount, 'id' | 'slugName' | 'expected'>,
  rows: readonly RecordedRows[],
): LocationAccount {
  const byVerdict = Object.fromEntries(VERDICTS.map((one) => [one, 0])) as Record<Verdict, number>
  const byReason: Record<string, number> = {}
  let [recordedInAll, unexpected] = [0, 0]
  for (const row of rows) {
    recordedInAll += row.recorded
    unexpected += row.unexpected
    byVerdict[row.verdict] += row.recorded
    if (row.reason !== null) byReason[row.reason] = (byReason[row.reason] ?? 0) + row.recorded
  }
  const missing = location.expected - recordedInAll
  return { ...location, recorded: recordedInAll, missing, unexpected, byVerdict, byReason }
}
