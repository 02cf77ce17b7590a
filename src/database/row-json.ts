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

/**
 * An object as JSON text. `fields` are JSON texts by name; of `optional` those that are null are left out. It
 * takes PostgreSQL two thirds of the time of `to_json` of rows, which counts in a listing that is read often.
 */
export function objectText(
  fields: Record<string, string>,
  optional: Record<string, string> = {},
): string {
  const first = Object.entries(fields).map(([name, text]) => `'"${name}":' || ${text}`)
  const more = Object.entries(optional).map(
    ([name, text]) => ` || coalesce(',"${name}":' || ${text}, '')`,
  )
  return `'{' || ${first.join(` || ',' || `)}${more.join('')} || '}'`
}

/** The JSON text of a list: the column `entry` of a query, in its order. */
export function listText(query: string): string {
  return `'[' || (select coalesce(string_agg(entry, ','), '') from (${query}) listed) || ']'`
}

/** A value in which JSON escapes nothing, such as an id or a day, as JSON text. */
export function quoted(value: string): string {
  return `'"' || ${value} || '"'`
}

/** Any text as JSON text. */
export function escaped(text: string): string {
  return `to_json(${text})::text`
}

/** A JSON text, or that of null. */
export function orNull(text: string): string {
  return `coalesce(${text}, 'null')`
}
