// SQL expressions that write rows as JSON of the public contract, so that an answer's text comes from PostgreSQL as
// it is sent.

/** One row of these columns as JSON, with their names and in their order; they may name what is around. */
export function rowJson(columns: string): string {
  return `(select to_json(entry) from (select ${columns}) entry)`
}

/** Rows of a query as a JSON array, in its order. */
export function rowsJson(query: string): string {
  return `(select coalesce(json_agg(entry), '[]') from (${query}) entry)`
}

export function dayText(column: string): string {
  return `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD')`
}

/** An instant in UTC with milliseconds. */
export function instantText(column: string): string {
  return `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
}
