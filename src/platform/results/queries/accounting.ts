// The account of slots: the expected slots of a span, from the eras, and the recorded ones, from the rows. They
// are counted separately, so that their equality is a proof.
import { VERDICTS, type Verdict } from '../../../contract/result.ts'
import { slotMsSql, slotsBetweenSql } from '../../../database/expected-slots.ts'
import { sql } from '../../../database/sql.ts'
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
export async function readSweptSpan(connection: Queryable): Promise<SweptSpan | undefined> {
  const rows = await connection.query(sql<SweptSpan>('accounting-span')`
      select kept_from_ms as "keptFromMs", swept_until_ms as "sweptUntilMs",
        expected_total as "expectedTotal", recorded_total as "recordedTotal" from accounting`)
  return rows[0]
}

/** Ends the account of slots before the instant, whose rows are about to be dropped. */
export async function forgetSlotsBefore(connection: Queryable, instantMs: number): Promise<void> {
  await connection.query(sql('accounting-keep-from')`
      update accounting set kept_from_ms = greatest(kept_from_ms, ${instantMs}::bigint)`)
}

/** The account of one location. */
export interface LocationAccount {
  locationId: string
  slugName: string
  expected: number
  recorded: number
  /** Expected slots without a row; must be none. */
  missing: number
  /** Rows that are no slot of any era; must be none. */
  unexpected: number
  byVerdict: Record<Verdict, number>
  /** Of the missed ones. */
  byReason: Record<string, number>
}

/** An account, and the part of the span asked for that it covers. */
export interface Account {
  fromMs: number
  toMs: number
  locations: LocationAccount[]
}

const countExpected = {
  name: 'accounting-expected',
  text: `select l.id as "locationId", l.slug_name as "slugName", coalesce(sum(n.slots), 0)::bigint as expected
   from private_locations l
   left join expectations e on e.location_id = l.id and e.opened_ms < $3::bigint
     and e.from_ms < $2::bigint and (e.until_ms is null or e.until_ms > $1::bigint)
   left join lateral (select greatest(e.from_ms, $1::bigint) as from_ms,
     least(coalesce(e.until_ms, $2::bigint), $2::bigint) as to_ms) w on true
   left join lateral (select ${slotsBetweenSql('e', 'w.from_ms', 'w.to_ms')} as slots) n on true
   where $4::uuid is null or l.account_id = $4::uuid
   group by l.id, l.slug_name order by l.slug_name, l.id`,
}

const countRows = {
  name: 'accounting-recorded',
  text: `select r.location_id as "locationId", r.verdict, r.missed_reason as reason,
     count(*) filter (where e.opened_ms < $3::bigint) as recorded,
     count(*) filter (where e.opened_ms is null) as unexpected
   from results r
   left join expectations e on e.location_id = r.location_id and e.monitor_id = r.monitor_id
     and e.from_ms <= ${slotMsSql('r')} and (e.until_ms is null or ${slotMsSql('r')} < e.until_ms)
     and (${slotMsSql('r')} - e.offset_ms) % e.every_ms = 0
   where r.slot >= to_timestamp($1::bigint / 1000::float8)
     and r.slot < to_timestamp($2::bigint / 1000::float8)
     and ($4::uuid is null or r.account_id = $4::uuid)
   group by 1, 2, 3`,
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
  const fromMs = Math.max(ask.fromMs, span?.keptFromMs ?? 0)
  const toMs = Math.max(fromMs, Math.min(ask.toMs, span?.sweptUntilMs ?? 0))
  const accountId = ask.accountId ?? null
  const values = [fromMs, toMs, span?.sweptUntilMs ?? 0, accountId] as const
  const locations = (
    await tx.query<{ locationId: string; slugName: string; expected: number }>(
      countExpected,
      values,
    )
  ).map((row) => emptyAccount(row))
  const byId = new Map(locations.map((one) => [one.locationId, one]))
  for (const row of await tx.query<{
    locationId: string
    verdict: Verdict
    reason: string | null
    recorded: number
    unexpected: number
  }>(countRows, values)) {
    const location = byId.get(row.locationId)
    // A deleted location has no expected slots any more.
    if (location === undefined) continue
    location.recorded += row.recorded
    location.missing -= row.recorded
    location.unexpected += row.unexpected
    location.byVerdict[row.verdict] += row.recorded
    if (row.reason === null) continue
    location.byReason[row.reason] = (location.byReason[row.reason] ?? 0) + row.recorded
  }
  return { fromMs, toMs, locations }
}

function emptyAccount(row: {
  locationId: string
  slugName: string
  expected: number
}): LocationAccount {
  const byVerdict = Object.fromEntries(VERDICTS.map((verdict) => [verdict, 0]))
  return {
    ...row,
    recorded: 0,
    missing: row.expected,
    unexpected: 0,
    byVerdict: byVerdict as Record<Verdict, number>,
    byReason: {},
  }
}
