// Problems of a definition or another request body, and their text.
import type * as z from 'zod'
import { type Objection, objections } from '../../contract/schema/explain.ts'
import { nearest } from '../../process/nearest.ts'

export interface DraftProblem {
  /** From the definition's root. */
  path: (string | number)[]
  message: string
}

const PROBLEMS_SHOWN = 5
const MESSAGE_CHARACTERS_MAX = 1_000

/** Problems as one message. */
export function problemText(problems: readonly DraftProblem[]): string {
  const lines = problems
    .slice(0, PROBLEMS_SHOWN)
    .map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`))
  return lines.join('; ').slice(0, MESSAGE_CHARACTERS_MAX).toWellFormed()
}

/** What `schema` objects to in a value; of an unknown key, which one was probably meant. */
export function problemsOf(error: z.ZodError, schema: z.ZodType, value: unknown): DraftProblem[] {
  return objections(error, schema, value).map((one) => ({
    path: one.path,
    message: messageOf(one),
  }))
}

function messageOf({ kind, path, message, candidates = [] }: Objection): string {
  if (kind !== 'unknown-key') return message
  const meant = nearest(String(path.at(-1)), candidates)
  return meant === undefined ? message : `unknown key; did you mean ${meant}?`
}
