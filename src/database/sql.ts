// Statements as templates: a value in one becomes a parameter, never a part of the text. PostgreSQL plans a
// statement once a connection, by its name. Functions of one statement each.
import type { Queryable, Statement } from './database.ts'

class Fragment {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** A part of a statement's text that is the same each time, such as an expression that several statements have. */
export function raw(text: string | number): Fragment {
  return new Fragment(String(text))
}

/** Texts by the literal parts of their template, which are one object each time it is evaluated. */
const texts = new WeakMap<TemplateStringsArray, string>()

/**
 * A statement that is prepared under `name`, which must be the only one of that name; `Row` is what it answers with:
 * ``database.query(sql<{ name: string }>('user-read')`select name from users where id = ${id}`)``.
 */
export function sql<Row extends object = Record<string, unknown>>(
  name: string,
): (literals: TemplateStringsArray, ...values: unknown[]) => Statement<Row> {
  return (literals, ...values) => {
    let text = texts.get(literals)
    if (text === undefined) texts.set(literals, (text = textOf(literals, values)))
    return { name, text, values: values.filter((value) => !(value instanceof Fragment)) }
  }
}

function textOf(literals: TemplateStringsArray, values: readonly unknown[]): string {
  let text = literals[0] ?? ''
  let parameters = 0
  for (const [at, value] of values.entries()) {
    text += value instanceof Fragment ? value.text : `$${++parameters}`
    text += literals[at + 1] ?? ''
  }
  return text
}

/**
 * The statement of some arguments becomes a function of a connection and these arguments, which answers with a result
 * made of the rows.
 */
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
