// What is wrong with a definition that somebody sent, and how it is said.

/** Something that is wrong with a definition. */
export interface DraftProblem {
  /** From the definition's root. */
  path: (string | number)[]
  message: string
}

const PROBLEMS_SHOWN = 5
const MESSAGE_CHARACTERS_MAX = 1_000

/** Problems as one message. */
export function problemWords(problems: readonly DraftProblem[]): string {
  const lines = problems
    .slice(0, PROBLEMS_SHOWN)
    .map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`))
  return lines.join('; ').slice(0, MESSAGE_CHARACTERS_MAX).toWellFormed()
}
