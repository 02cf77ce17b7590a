// Text of people, measured in characters as JSON Schema and PostgreSQL measure it, not in UTF-16 units.
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
