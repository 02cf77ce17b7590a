// Statements as templates: a value in one becomes a parameter, never a part of the text. PostgreSQL plans a
// statement once a connection, by its name.
import type { Statement } from './database.ts'

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
