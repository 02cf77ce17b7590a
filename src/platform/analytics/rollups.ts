// Rolls up hours that are over and swept, and those that late results changed since.
import type { Database, Queryable } from '../../database/database.ts'
import { untilDone } from '../../database/until-done.ts'
import { readSweptSpan } from '../results/queries/accounting.ts'
import { lockRollupsDone, makeHourDue, rollUpDue } from './queries/rollups.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'

const HOUR_MS = 3_600_000
/** Hours of monitors that one transaction rolls up. */
const AT_ONCE = 500
const STATEMENT_MS = 60_000

/** Rollups as a background job. */
export function rollupsJob(database: Database): BackgroundJob {
  return {
    name: 'roll-up-hours',
    everyMs: 60_000,
    timeoutMs: 600_000,
    run: (signal) => rollUp(database, signal),
  }
}

/** Rolls up whatever is due, hour by hour, until nothing is or the signal fires. */
export async function rollUp(database: Database, signal: AbortSignal): Promise<void> {
  const long = { statementTimeoutMs: STATEMENT_MS }
  let isMore = true
  while (isMore && !signal.aborted) {
    isMore = await database.transaction(endOneHour, long)
    await untilDone(AT_ONCE, signal, () =>
      database.transaction((tx) => rollUpDue(tx, AT_ONCE), long),
    )
  }
}

/** Makes the next hour due when it is over and swept; whether it was. */
async function endOneHour(tx: Queryable): Promise<boolean> {
  const hourMs = await lockRollupsDone(tx)
  if (hourMs === undefined) return false
  const swept = await readSweptSpan(tx)
  if (swept === undefined || swept.sweptUntilMs < hourMs + HOUR_MS) return false
  await makeHourDue(tx, hourMs)
  return true
}
