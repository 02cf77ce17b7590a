// The groups of a monitors file: key → fields of the group in the wire form. A monitor names its group by
// the key.
import { CheckGroup } from '../../contract/api/check-group.ts'
import { objections, valueAt } from '../../contract/schema/explain.ts'
import { fixOf } from './objections.ts'
import { got, type Findings, type Path } from './problems.ts'
import { expandAssertions, isFields, type Fields } from './shorthands.ts'

const KEY = /^[^\s/]{1,255}$/

/** Key → group; undefined for an invalid one, which has been reported. */
export type FileGroups = ReadonlyMap<string, CheckGroup | undefined>

/** Reads the groups; findings report their problems. */
export function readGroups(given: unknown, findings: Findings): FileGroups {
  const groups = new Map<string, CheckGroup | undefined>()
  if (given === undefined || given === null) return groups
  const path = ['groups']
  if (!isFields(given)) {
    const message = 'must be a mapping of keys to groups, like shop: { tags: [shop] }'
    findings.push({ path, message: `${message}${got(path, given)}` })
    return groups
  }
  for (const [key, fields] of Object.entries(given)) {
    const place = [...path, key]
    groups.set(key, readGroup(key, fields, place, findings))
    if (!KEY.test(key)) {
      const message = 'a key has 1 to 255 characters, without blanks and slashes'
      findings.push({ path: place, message, atKey: true })
    }
  }
  return groups
}

function readGroup(
  key: string,
  given: unknown,
  path: Path,
  findings: Findings,
): CheckGroup | undefined {
  if (given !== null && !isFields(given)) {
    const message = `must be a group: a mapping of its fields${got(path, given)}`
    findings.push({ path, message })
    return undefined
  }
  const before = findings.count()
  const fields = withAssertions({ name: key, ...given }, path, findings)
  const parsed = CheckGroup.safeParse(fields)
  if (parsed.success) return findings.count() === before ? parsed.data : undefined
  for (const one of objections(parsed.error, CheckGroup, fields)) {
    // A line that could not be read at all has been reported; its place is empty.
    if (one.kind === 'missing' && one.path.at(-2) === 'assertions') continue
    const place = [...path, ...one.path]
    const value = one.kind === 'value' ? got(place, valueAt(given, one.path)) : ''
    const atKey = one.kind === 'unknown-key'
    findings.push({ path: place, message: `${fixOf(one, fields)}${value}`, atKey })
  }
  return undefined
}

function withAssertions(fields: Fields, path: Path, findings: Findings): Fields {
  const defaults = fields['apiCheckDefaults']
  if (!isFields(defaults) || !Array.isArray(defaults['assertions'])) return fields
  const place = [...path, 'apiCheckDefaults', 'assertions']
  const assertions = expandAssertions(defaults['assertions'], place, findings)
  return { ...fields, apiCheckDefaults: { ...defaults, assertions } }
}
