// Fixed windows in which requests are counted, shared by all processes of the platform.
import type { Database } from '../../../database/database.ts'
import { sql } from '../../../database/sql.ts'

/** Permits ahead are returned within this time, far longer than needed, so that a stall does no harm. */
const RETURN_MS_MAX = 1_000

/** Request of a process for permits of the present window of `scope`, which allows `limit` requests. */
export interface PermitRequest {
  scope: string
  limit: number
  windowS: number
  /** Requests that wait for a permit. */
  wanted: number
  /** Further permits for requests to come, at most; granted while more than half of the limit is left. */
  ahead: number
}

/** Permits that a process got from a window. */
export interface Grant {
  /** Requests that it may accept until the window ends. */
  granted: number
  /** Permits granted in this window so far, to all processes. */
  used: number
  /** Which window it is: its start, by the database's clock. */
  startsMs: number
  /** Until the window ends, by the database's clock. */
  leftMs: number
  /** Until no process returns permits to this window; 0 when none has any ahead. */
  returnsMs: number
}

/** Where permits come from. */
export interface WindowSource {
  take(ask: PermitRequest): Promise<Grant>
  /** Returns permits of the window that starts at `startsMs`; does nothing once it has ended. */
  giveBack(permits: { scope: string; startsMs: number; unused: number }): Promise<void>
}

/** Permits out of `free` ones: the requested ones, and some ahead while more than half of the limit is free. */
const granted = (free: string) =>
  `(least($4::int, ${free})
     + case when ${free} - $4::int > $2::int / 2 then least($5::int, $2::int / 16) else 0 end)`
const FROM_NEW = granted('$2::int')
const FROM_KEPT = granted('greatest(0, $2::int - w.used)')

// The window is the database's: processes with different clocks still share it. Over all of them the permits never
// exceed the limit.
const take = {
  name: 'rate-window-take',
  text: `with clock as (
     select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms,
       $3::bigint * 1000 as window_ms
   ), span as (select now_ms - now_ms % window_ms as starts_ms, now_ms, window_ms from clock)
   insert into rate_windows as w (scope, starts_ms, ends_ms, used, granted, returns_by_ms)
   select $1, starts_ms, starts_ms + window_ms, ${FROM_NEW}, ${FROM_NEW},
     case when ${FROM_NEW} > $4 then now_ms + ${RETURN_MS_MAX} else 0 end
   from span
   on conflict (scope) do update set
     starts_ms = greatest(w.starts_ms, excluded.starts_ms),
     ends_ms = greatest(w.ends_ms, excluded.ends_ms),
     granted = case when excluded.starts_ms > w.starts_ms then excluded.granted
       else ${FROM_KEPT} end,
     used = case when excluded.starts_ms > w.starts_ms then excluded.used
       else w.used + ${FROM_KEPT} end,
     returns_by_ms = case when excluded.starts_ms > w.starts_ms then excluded.returns_by_ms
       when ${FROM_KEPT} > $4 then (select now_ms from span) + ${RETURN_MS_MAX}
       else w.returns_by_ms end
   returning granted, used, starts_ms as "startsMs",
     (ends_ms - (select now_ms from span))::int as "leftMs",
     greatest(0, returns_by_ms - (select now_ms from span))::int as "returnsMs"`,
}

const SWEEP_MS = 600_000

/** Windows of the database; now and then those that ended more than an hour ago are dropped. */
export function windowsOf(database: Database): WindowSource {
  let sweptAt = -Infinity
  const sweep = async () => {
    if (performance.now() - sweptAt <= SWEEP_MS) return
    sweptAt = performance.now()
    await database.query(sql('rate-windows-sweep')`
      delete from rate_windows
      where ends_ms < extract(epoch from clock_timestamp()) * 1000 - 3600000`)
  }
  return {
    async take({ scope, limit, windowS, wanted, ahead }) {
      // Windows that are not deleted now are deleted the next time.
      sweep().catch(() => {})
      const [grant] = await database.query<Grant>(take, [scope, limit, windowS, wanted, ahead])
      if (grant === undefined) throw new Error('the window gave no answer')
      return grant
    },
    async giveBack({ scope, startsMs, unused }) {
      await database.query(sql('rate-window-return')`
        update rate_windows set used = used - ${unused}
        where scope = ${scope} and starts_ms = ${startsMs}`)
    },
  }
}
