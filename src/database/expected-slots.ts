// SQL expressions on eras of expected slots: the same arithmetic as contract/timetable.ts.

/** The first slot of the era `e` at or after `instant`, both expressions of milliseconds. */
export function slotAtOrAfterSql(e: string, instant: string): string {
  return `(${instant} + ((${e}.offset_ms - ${instant}) % ${e}.every_ms + ${e}.every_ms) % ${e}.every_ms)`
}

/** How many slots of the era `e` lie in [from, to), expressions of milliseconds. */
export function slotsBetweenSql(e: string, from: string, to: string): string {
  const slots = `${slotAtOrAfterSql(e, to)} - ${slotAtOrAfterSql(e, from)}`
  return `(case when ${to} <= ${from} then 0 else (${slots}) / ${e}.every_ms end)`
}

/** The row `r` of `results` as milliseconds of its slot. */
export function slotMsSql(r: string): string {
  return `(date_part('epoch', ${r}.slot) * 1000)::bigint`
}
