// Fields at the top of a monitors file in addition to its variables, groups and monitors. Findings report what is wrong.
import { isLocationName, LOCATION_NAME_RULE } from '../../contract/schema/location-name.ts'
import { substitute } from '../../contract/variables.ts'
import { proxyProblem } from '../../network/proxy/proxy.ts'
import { didYouMean, got, type Findings } from './problems.ts'
import { expandShorthands, isFields, type Fields } from './shorthands.ts'
import type { FileVariables } from './variables.ts'

const KEYS = [
  'location',
  'privateLocations',
  'proxyUrl',
  'variables',
  'secrets',
  'defaults',
  'groups',
  'monitors',
]

/** Reports keys that mean nothing. Those that begin with `x-` are the user's own, as for anchors. */
export function reportUnknownKeys(top: Fields, findings: Findings): void {
  for (const key of Object.keys(top)) {
    if (KEYS.includes(key) || key.startsWith('x-')) continue
    const fix = didYouMean(key, KEYS) ?? `known here: ${KEYS.join(', ')}`
    findings.push({ path: [key], message: `unknown key; ${fix}`, atKey: true })
  }
}

/** The location that the file names. */
export function locationOf(top: Fields, findings: Findings): string | undefined {
  const path = ['location']
  const location = top['location']
  if (location === undefined || location === null) return undefined
  if (typeof location === 'string' && isLocationName(location)) return location
  const message = `must be ${LOCATION_NAME_RULE}, like berlin-office${got(path, location)}`
  findings.push({ path, message })
  return undefined
}

/** Slugs of locations for monitors that name none. */
export function privateLocationsOf(top: Fields, findings: Findings): string[] {
  const given = top['privateLocations']
  if (given === undefined || given === null) return []
  const path = ['privateLocations']
  if (Array.isArray(given) && given.every((one) => typeof one === 'string' && one !== '')) {
    return given as string[]
  }
  const message = 'must be a list of slug names of private locations, like [berlin-office]'
  findings.push({ path, message: `${message}${got(path, given)}` })
  return []
}

/** The proxy, with its variables put in. */
export function proxyOf(
  top: Fields,
  { variables, unusable }: FileVariables,
  findings: Findings,
): string | undefined {
  const path = ['proxyUrl']
  const given = top['proxyUrl']
  if (given === undefined || given === null) return undefined
  const lookup = (name: string) => variables.find(({ key }) => key === name)?.value
  const { value, unknown } = substitute(given, lookup)
  for (const name of unknown) {
    if (!unusable.has(name)) findings.push({ path, message: `the variable ${name} is not defined` })
  }
  if (unknown.length > 0) return undefined
  const problem = typeof value === 'string' ? proxyProblem(value) : 'must be a URL, as a string'
  if (problem === undefined) return value as string
  findings.push({ path, message: problem })
  return undefined
}

/** Fields for every monitor, in the wire form. */
export function defaultsOf(top: Fields, findings: Findings): Fields {
  const given = top['defaults']
  if (given === undefined || given === null) return {}
  if (!isFields(given)) {
    findings.push({ path: ['defaults'], message: 'must be a mapping of fields for every monitor' })
    return {}
  }
  for (const key of ['id', 'name'].filter((one) => Object.hasOwn(given, one))) {
    const message = 'belongs to one monitor only, and cannot be a default'
    findings.push({ path: ['defaults', key], message, atKey: true })
  }
  return expandShorthands(given, ['defaults'], findings)
}
