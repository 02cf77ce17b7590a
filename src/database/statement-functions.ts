// Functions of one statement each. The statement of some arguments becomes a function of a connection and these
// arguments, which answers with a result made of the rows.
import type { Queryable, Statement } from './database.ts'

type StatementOf<Args extends unknown[], Row extends object> = (...args: Args) => Statement<Row>

/** Anything where rows have one column; nothing where they have several. */
type IfOneColumn<Row, Key = keyof Row> = Key extends unknown
  ? [keyof Row] extends [Key]
    ? unknown
    : never
  : never

/** Answers with what `resultOf` makes of the rows. */
export function queryAs<Args extends unknown[], Row extends object, Result>(
  statementOf: StatementOf<Args, Row>,
  resultOf: (rows: Row[]) => Result,
) {
  return async (connection: Queryable, ...args: Args): Promise<Result> =>
    resultOf(await connection.query(statementOf(...args)))
}

/** Answers with nothing. */
export const execute = <Args extends unknown[]>(of: StatementOf<Args, object>) =>
  queryAs(of, () => undefined)

/** Answers whether there is a row. */
export const queryAny = <Args extends unknown[]>(of: StatementOf<Args, object>) =>
  queryAs(of, (rows) => rows.length > 0)

/** Answers with all rows. */
export const queryRows = <Args extends unknown[], Row extends object>(of: StatementOf<Args, Row>) =>
  queryAs(of, (rows) => rows)

/** Answers with the number that the only row has. */
export const queryCount = <Args extends unknown[]>(of: StatementOf<Args, { count: number }>) =>
  queryAs(of, ([row]) => row?.count ?? 0)

/** Answers with the first row. */
export const queryRow = <Args extends unknown[], Row extends object>(of: StatementOf<Args, Row>) =>
  queryAs(of, ([row]) => row)

/** Answers with the only column of the first row. */
export const queryValue = <Args extends unknown[], Row extends object>(
  of: StatementOf<Args, Row> & IfOneColumn<Row>,
) => queryAs(of, ([row]) => row && valueOf(row))

/** Answers with the only column of each row. */
export const queryValues = <Args extends unknown[], Row extends object>(
  of: StatementOf<Args, Row> & IfOneColumn<Row>,
) => queryAs(of, (rows) => rows.map(valueOf))

function valueOf<Row extends object>(row: Row): Row[keyof Row] {
  return Object.values(row)[0] as Row[keyof Row]
}
