// Texts of definitions. Those of people are measured in characters as JSON Schema and PostgreSQL measure them, not in
// UTF-16 units.
import * as z from 'zod'

/** Whether `value` has at most `charactersMax` Unicode characters. */
export function fits(value: string, charactersMax: number): boolean {
  if (value.length <= charactersMax) return true
  if (value.length > 2 * charactersMax) return false
  let characters = 0
  for (const _ of value) characters++
  return characters <= charactersMax
}

/** A text with something to read in it, at most `charactersMax` characters long. */
export function text(charactersMax: number) {
  return z
    .string()
    .refine((value) => /\S/.test(value), { error: 'must not be empty', abort: true })
    .refine((value) => fits(value, charactersMax), {
      error: `must have at most ${charactersMax} characters`,
    })
    .meta({ minLength: 1, maxLength: charactersMax, pattern: '\\S' })
}

/** A text that may be empty, at most `charactersMax` characters long. */
export function optionalText(charactersMax: number) {
  return z
    .string()
    .refine((value) => fits(value, charactersMax), {
      error: `must have at most ${charactersMax} characters`,
    })
    .meta({ maxLength: charactersMax })
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
