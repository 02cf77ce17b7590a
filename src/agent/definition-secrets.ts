// Finds the secrets that stand in a monitor's definition, so that they can be scrubbed from its results.
import type { Variable } from '../contract/monitor.ts'
import { headerSecrets, isTooShort } from './scrub.ts'

/** Values of variables that are secret; a locked one is hidden in the user interface as well. */
export function variableSecrets(variables: readonly Variable[]): string[] {
  return variables.filter((one) => one.secret || one.locked).map((one) => one.value)
}

/**
 * Secrets in the own fields of a definition whose variables have been put in: passwords, keys and
 * passphrases by the name of their field, values of sensitive headers, locked values, expected values
 * of assertions on sensitive headers, and credentials in URLs.
 */
export function definitionSecrets(
  definition: Readonly<Record<string, unknown>>,
  isSensitive: (name: string) => boolean,
): string[] {
  const found = new Set<string>()
  const { environmentVariables: _, ...own } = definition
  collect(own, isSensitive, found)
  found.delete('')
  return [...found]
}

function collect(value: unknown, isSensitive: (name: string) => boolean, found: Set<string>): void {
  if (typeof value === 'string') return collectCredentials(value, found)
  if (typeof value !== 'object' || value === null) return
  const fields = value as Record<string, unknown>
  if (!Array.isArray(value)) collectNamed(fields, isSensitive, found)
  for (const [key, field] of Object.entries(fields)) {
    if (typeof field === 'string' && isSensitive(key)) add(field, found)
    else collect(field, isSensitive, found)
  }
}

/** A header or parameter `{key, value}`, or an assertion `{property, target}`. */
function collectNamed(
  fields: Record<string, unknown>,
  isSensitive: (name: string) => boolean,
  found: Set<string>,
): void {
  const { key, name, value, property, target, locked } = fields
  const title = typeof key === 'string' ? key : name
  const hidden = locked === true || (typeof title === 'string' && isSensitive(title))
  if (hidden && typeof value === 'string') add(value, found)
  const expected = typeof property === 'string' && isSensitive(property)
  if (expected && typeof target === 'string') add(target, found)
}

function add(value: string, found: Set<string>): void {
  found.add(value)
  for (const part of headerSecrets(value)) found.add(part)
}

function collectCredentials(text: string, found: Set<string>): void {
  if (!text.includes('@') || !text.includes('://')) return
  const { username = '', password = '' } = URL.parse(text) ?? {}
  for (const part of password === '' ? [username] : [password]) {
    found.add(part)
    found.add(decoded(part))
  }
}

/** A part of a URL without its percent-encoding; as it is where that is broken. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/**
 * Warnings about secret variables that cannot be scrubbed by value, because they are so short that
 * they would be found everywhere. For validation.
 */
export function secretWarnings(variables: readonly Variable[]): string[] {
  return variables
    .filter((one) => one.secret && isTooShort(one.value))
    .map(
      (one) =>
        `the secret ${one.key} is shorter than 3 characters, so that it cannot be found and ` +
        'scrubbed in results; use a longer one',
    )
}
