// What a schema objects to in a definition, as a problem of the file: at the place that the user wrote, with the fix.
import { type Objection, valueAt } from '../../contract/schema/explain.ts'
import { nearest } from '../../process/nearest.ts'
import {
  didYouMean,
  got,
  isSecretPath,
  withoutSecrets,
  type Findings,
  type Path,
} from './problems.ts'
import type { Fields } from './shorthands.ts'
import { TLS_FILES } from './variables.ts'

/** A definition as it was written and as it is checked. */
export interface CheckedDefinition {
  /** As the user wrote it. */
  raw: Fields
  /** Of the definition in the file. */
  path: Path
  /** In the wire form, with defaults and id; variables still as written. */
  fields: Fields
  /** Values that no message may show. */
  secrets: readonly string[]
}

/** Adds a finding for the objection, unless that has been reported already. */
export function reportObjection(
  objection: Objection,
  { raw, path, fields, secrets }: CheckedDefinition,
  { defaultsAsWritten, findings }: { defaultsAsWritten: Fields; findings: Findings },
): void {
  const local = asWritten(objection, raw, defaultsAsWritten)
  if (local === undefined) return
  const { root, place } = local
  const full = root === raw ? [...path, ...place] : ['defaults', ...place]
  const parent = full.slice(0, -1)
  if (objection.kind === 'unknown-key' && isSecretPath(parent) && valueAt(root, place) === null) {
    // The rest of a password behind its comma: `{ password: Hun,ter2 }`.
    const message = 'has an unknown key without a value; put a text with a comma in quotes'
    findings.push({ path: parent, message })
    return
  }
  const value = objection.kind === 'value' ? got(full, valueAt(root, place)) : ''
  // Of a line that was cut into fields, the field that is meant.
  const field = place.length < objection.path.length && objection.message.startsWith('must ')
  const subject = field ? `its ${String(objection.path.at(-1))} ` : ''
  const shorthands = objection.path.length === 1 ? ['type', 'every', 'group'] : []
  if (objection.path.at(-2) === 'tls') shorthands.push(...Object.keys(TLS_FILES))
  const fix = fixOf(objection, fields, shorthands)
  const message = withoutSecrets(`${subject}${fix}${value}`, secrets)
  findings.push({ path: full, message, atKey: objection.kind === 'unknown-key' })
}

/** Where the user wrote what the schema objects to; undefined when that has been said already. */
function asWritten({ path: wire, kind }: Objection, raw: Fields, defaults: Fields) {
  const isEmptyPlace = kind === 'missing'
  let place = [...wire]
  if (place[0] === 'checkType') place[0] = 'type'
  const isTiming = place[0] === 'frequency' || place[0] === 'frequencyOffset'
  const isShort = [raw, defaults].some((fields) => reaches(fields, ['every']))
  if (isTiming && isShort && !reaches(raw, place)) place = ['every']
  const fromDefaults =
    !reaches(raw, place) && reaches(defaults, place) && !(place.length === 1 && place[0] === 'name')
  const root = fromDefaults ? defaults : raw
  const [top, list, index] = place
  if (top === 'request' && list === 'assertions' && typeof index === 'number') {
    const line = valueAt(root, place.slice(0, 3))
    // A line that could not be read at all has been reported; its place is empty.
    if (line !== undefined && place.length === 3 && isEmptyPlace) return undefined
    if (typeof line === 'string') place = place.slice(0, 3)
  }
  if (top === 'request' && list === 'tls' && typeof index === 'string') {
    const fileKey = `${index}File`
    if (valueAt(root, ['request', 'tls', fileKey]) !== undefined) place[2] = fileKey
  }
  return { root, place }
}

/** Whether the first two steps of the path exist. */
function reaches(fields: Fields, place: readonly (string | number)[]): boolean {
  return valueAt(fields, place.slice(0, place[0] === 'request' ? 2 : 1)) !== undefined
}

/** Names of other monitoring systems → the key that means the same here. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  interval: 'every',
  schedule: 'every',
  timeout: 'maxResponseTime',
  enabled: 'activated',
  retries: 'retryStrategy',
}

/** The message of an objection, with the nearest known key or value. `shorthands`: keys that the file knows as well. */
export function fixOf(
  { kind, path, message, candidates = [] }: Objection,
  fields: Fields,
  shorthands: readonly string[] = [],
): string {
  if (kind === 'unknown-key') {
    const known = [...candidates, ...shorthands]
    const others = Object.entries(OTHER_NAMES).filter(([, key]) => known.includes(key))
    const near = nearest(String(path.at(-1)), [...known, ...others.map(([name]) => name)])
    return near === undefined ? message : `unknown key; did you mean ${OTHER_NAMES[near] ?? near}?`
  }
  const meant = candidates.length > 1 ? didYouMean(valueAt(fields, path), candidates) : undefined
  return meant === undefined ? message : `${message}; ${meant}`
}
