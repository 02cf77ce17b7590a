// How a statement is written down once and asked for by name: PostgreSQL plans it once a connection.
import type { Queryable } from './database.ts'

/** What can run a statement: the database, or a transaction on it. */
export type Connection = Queryable

/** A statement: given its values it answers with its rows. */
type Run<Values extends readonly unknown[], Row extends object> = (
  connection: Connection,
  ...values: Values
) => Promise<Row[]>

/** A statement that is prepared under `name`, which must be the only one of that name. */
export function statement<Values extends readonly unknown[], Row extends object>(
  name: string,
  text: string,
): Run<Values, Row> {
  const config = { name, text }
  return (connection, ...values) => connection.query<Row>(config, values)
}
