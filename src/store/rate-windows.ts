// Fixed windows in which requests are counted, shared by all processes of the platform.
import { statement } from './statement.ts'

interface Row extends Record<string, unknown> {
  granted: number
  used: number
  left_ms: number
}

/** What a process got out of a window. */
export interface Grant {
  /** Requests that it may accept until the window ends. */
  granted: number
  /** Requests given out in this window so far, to all processes. */
  used: number
  /** Until the window ends, by the database's clock. */
  leftMs: number
}

// The window is the database's: processes with different clocks still share it. A block is an eighth of
// what is left, at most `block`, and 1 at the end, so that little is stranded in one process.
const take = statement<[string, number, number, number], Row>(
  'rate-window-take',
  `with clock as (
     select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms,
       $3::bigint * 1000 as window_ms
   ), span as (select now_ms - now_ms % window_ms as starts_ms, now_ms, window_ms from clock)
   insert into rate_windows as w (scope, starts_ms, ends_ms, used, granted)
   select $1, starts_ms, starts_ms + window_ms, block.size, block.size
   from span, (select greatest(1, least($4::int, $2::int / 8)) as size) block
   on conflict (scope) do update set
     starts_ms = greatest(w.starts_ms, excluded.starts_ms),
     ends_ms = greatest(w.ends_ms, excluded.ends_ms),
     granted = case when excluded.starts_ms > w.starts_ms then excluded.granted
       else greatest(0, least($2 - w.used, greatest(1, least($4, ($2 - w.used) / 8)))) end,
     used = case when excluded.starts_ms > w.starts_ms then excluded.used
       else w.used
         + greatest(0, least($2 - w.used, greatest(1, least($4, ($2 - w.used) / 8)))) end
   returning granted, used,
     (ends_ms - (select now_ms from span))::int as left_ms`,
)

/**
 * Takes up to `block` requests out of the present window of `scope`, in which `limit` are allowed every
 * `windowS` seconds. Over all processes the blocks of one window never exceed `limit`.
 */
export async function takeFromWindow(
  connection: Parameters<typeof take>[0],
  ask: { scope: string; limit: number; windowS: number; block: number },
): Promise<Grant> {
  const [row] = await take(connection, ask.scope, ask.limit, ask.windowS, ask.block)
  if (row === undefined) throw new Error('the window gave no answer')
  return { granted: row.granted, used: row.used, leftMs: row.left_ms }
}

const sweep = statement<[], Record<string, unknown>>(
  'rate-windows-sweep',
  `delete from rate_windows
   where ends_ms < extract(epoch from clock_timestamp()) * 1000 - 3600000`,
)

/** Drops windows that ended more than an hour ago. */
export async function sweepWindows(connection: Parameters<typeof sweep>[0]): Promise<void> {
  await sweep(connection)
}
