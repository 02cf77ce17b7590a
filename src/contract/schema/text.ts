// Texts of definitions. They are measured in characters as Zod, JSON Schema and PostgreSQL measure them, not in UTF-16
// units.
import * as z from 'zod'

/** A text with something to read in it, at most `charactersMax` characters long. */
export function text(charactersMax: number) {
  return z
    .string()
    .refine((value) => /\S/.test(value), { error: 'must not be empty', abort: true })
    .max(charactersMax)
    .meta({ minLength: 1, pattern: '\\S' })
}

/** Longest address or regular expression. */
const CHECKED_CHARACTERS_MAX = 2048

/**
 * An address, a regular expression or alike: not empty; `problemOf` returns the error text of an invalid one.
 */
export function checkedText(problemOf: (text: string) => string | undefined) {
  return z
    .string()
    .min(1)
    .max(CHECKED_CHARACTERS_MAX)
    .superRefine((given, context) => {
      const message = problemOf(given)
      if (message !== undefined) context.addIssue({ code: 'custom', message })
    })
}
