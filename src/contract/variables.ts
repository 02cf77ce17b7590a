// Variables in definitions: `{{NAME}}` inside a string stands for the value of NAME. One plain
// substitution, no logic and no nesting, so that a definition shows what its monitor sends.
import { commonFields } from './monitor.ts'

/** The value of a variable, or undefined when there is none of that name. */
export type Lookup = (name: string) => string | undefined

/** A value with its variables put in, and the names that had no value, each once. */
export interface Substituted {
  value: unknown
  unknown: string[]
}

// Names only, so that `{{$UUID}}`, `{{ a b }}` and templates of other tools pass through unchanged.
const REFERENCE = /\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}/g

/**
 * Puts variables into every string of `value`, however deep, but not into the names of keys. What
 * holds no reference is returned as it is, not copied; an unknown name stays as written. A
 * value that looks like a reference is not looked at again.
 */
export function substitute(value: unknown, lookup: Lookup): Substituted {
  const unknown = new Set<string>()
  return { value: walk(value, lookup, unknown), unknown: [...unknown] }
}

/** User code: there, braces have other meanings, and variables are in the environment. */
const CODE: ReadonlySet<string> = new Set([
  'script',
  'dependencies',
  'localSetupScript',
  'localTearDownScript',
  'setupScriptDependencies',
  'tearDownScriptDependencies',
])

/**
 * Puts variables into the fields that belong to a monitor's type (`request`, scripts…). The common
 * fields keep their text: an id, a name or a tag ends up in metrics and alerts, where no secret may. Code
 * keeps its text, too.
 */
export function substituteOwn(
  monitor: Readonly<Record<string, unknown>>,
  lookup: Lookup,
): { value: Record<string, unknown>; unknown: string[] } {
  const unknown = new Set<string>()
  // From entries, so that a key `__proto__` stays a key and is refused like any unknown one.
  const value = Object.fromEntries(
    Object.entries(monitor).map(([key, field]) => [
      key,
      Object.hasOwn(commonFields, key) || CODE.has(key) ? field : walk(field, lookup, unknown),
    ]),
  )
  return { value, unknown: [...unknown] }
}

function walk(value: unknown, lookup: Lookup, unknown: Set<string>): unknown {
  if (typeof value === 'string') return putIn(value, lookup, unknown)
  if (typeof value !== 'object' || value === null) return value
  let copy: Record<string, unknown> | undefined
  for (const [key, item] of Object.entries(value)) {
    const next = walk(item, lookup, unknown)
    if (next === item) continue
    copy ??= (Array.isArray(value) ? [...value] : { ...value }) as Record<string, unknown>
    copy[key] = next
  }
  return copy ?? value
}

function putIn(text: string, lookup: Lookup, unknown: Set<string>): string {
  if (!text.includes('{{')) return text
  return text.replace(REFERENCE, (written, name: string) => {
    const found = lookup(name)
    if (found === undefined) unknown.add(name)
    return found ?? written
  })
}
