// Definitions of every type of monitor: the example of each, with overrides.
import { DEFINITIONS } from '../../src/monitors/definitions.ts'

export type Fields = Record<string, unknown>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** `more` over `least`, mappings within mappings merged. */
export function merged(least: Fields, more: Fields): Fields {
  const entries = Object.entries(more).map(([key, value]) => {
    const under = least[key]
    return [key, isFields(value) && isFields(under) ? merged(under, value) : value]
  })
  return { ...least, ...Object.fromEntries(entries) }
}

/** The minimal definition of a type, with overrides. */
export const definitionOf = (checkType: string, more: Fields = {}) =>
  merged({ id: 'a', name: 'A', checkType, ...DEFINITIONS.get(checkType)?.example }, more)
