// Short spellings of a monitors file in addition to the public wire form: `type`, `every` and assertions on one
// line. Each is converted to the wire form before anything is checked.
import { COMPARISONS, TARGETLESS, type Comparison } from '../../contract/assertion.ts'
import { FREQUENCIES } from '../../contract/monitor.ts'
import { didYouMean, got, type Finding, type Findings, type Path } from './problems.ts'

export type Fields = Record<string, unknown>

/** Whether the value is a mapping. */
export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The fields in the wire form; invalid ones are left out and reported as findings. */
export function expandShorthands(fields: Fields, path: Path, findings: Findings): Fields {
  const { type, every, ...wire } = fields
  if (Object.hasOwn(fields, 'type')) {
    if (Object.hasOwn(fields, 'checkType')) findings.push(twice(path, 'type', 'checkType'))
    else wire['checkType'] = type
  }
  if (Object.hasOwn(fields, 'every')) {
    const other = ['frequency', 'frequencyOffset'].find((key) => Object.hasOwn(fields, key))
    const timing = timingOf(every)
    if (other !== undefined) findings.push(twice(path, 'every', other))
    else if (timing !== undefined) Object.assign(wire, timing)
    else {
      const place = [...path, 'every']
      findings.push({
        path: place,
        message: `${EVERY_ALLOWED}${nearEvery(every)}${got(place, every)}`,
      })
    }
  }
  const { request } = fields
  if (isFields(request) && Array.isArray(request['assertions'])) {
    const place = [...path, 'request', 'assertions']
    const assertions = expandAssertions(request['assertions'], place, findings)
    wire['request'] = { ...request, assertions }
  }
  return wire
}

/** Assertions in the wire form; undefined in place of an invalid line. */
export function expandAssertions(list: unknown[], path: Path, findings: Findings): unknown[] {
  return list.map((one, index) => {
    const place = [...path, index]
    if (isLineWithColon(one)) {
      const message = 'a line with ": " in it is a mapping in YAML; put the whole line in quotes'
      findings.push({ path: place, message })
      return undefined
    }
    if (typeof one !== 'string') return one
    const parsed = assertionOf(one)
    if (typeof parsed !== 'string') return parsed
    findings.push({ path: place, message: `${parsed}${got(path, one)}` })
    // Its place stays, so that those after it keep their index.
    return undefined
  })
}

/** `- TEXT_BODY "a: b" NOT_EMPTY` as YAML reads it. */
function isLineWithColon(value: unknown): boolean {
  const keys = isFields(value) ? Object.keys(value) : []
  return keys.length === 1 && /^[A-Z][A-Z_]* /.test(keys[0] ?? '')
}

function twice(path: Path, short: string, long: string): Finding {
  const message = `means the same as ${long} next to it; keep one of them`
  return { path: [...path, short], message, atKey: true }
}

const MINUTES = FREQUENCIES.filter((minutes) => minutes > 0)
const UNIT_SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 }

const EVERY_ALLOWED = `must be 1s to 59s or one of ${MINUTES.map(shortest).join(', ')}`

/** `60` minutes as `1h`. */
function shortest(minutes: number): string {
  if (minutes % 1440 === 0) return `${minutes / 1440}d`
  return minutes % 60 === 0 ? `${minutes / 60}h` : `${minutes}m`
}

/** The frequency pair for `30s`, `5m`, `1h`, `1d`; undefined when the wire form cannot say it. */
function timingOf(every: unknown): Fields | undefined {
  const match = typeof every === 'string' ? /^(\d{1,6})\s?([smhd])$/.exec(every.trim()) : null
  if (match === null) return undefined
  const seconds = Number(match[1]) * (UNIT_SECONDS[match[2] ?? ''] ?? 0)
  if (seconds >= 1 && seconds <= 59) return { frequency: 0, frequencyOffset: seconds }
  const minutes = MINUTES.find((one) => one * 60 === seconds)
  return minutes === undefined ? undefined : { frequency: minutes }
}

const NEARLY_TIME = /^(\d{1,6})\s*(?:([smhd])(?:ec\w*|in\w*|ou?rs?|rs?|ays?)?)?$/i

/** `; did you mean 30s?` for a time without a unit, or with one that is written out. */
function nearEvery(every: unknown): string {
  const text = typeof every === 'string' || typeof every === 'number' ? String(every) : ''
  const match = NEARLY_TIME.exec(text.trim())
  const meant = match === null ? '' : `${match[1]}${match[2]?.toLowerCase() ?? 's'}`
  return timingOf(meant) === undefined ? '' : `; did you mean ${meant}?`
}

const comparisons: ReadonlySet<string> = new Set(COMPARISONS)

/**
 * The assertion that a line like `JSON_BODY $.status EQUALS ok` stands for, or what is wrong with it.
 * The first comparison that stands alone and unquoted divides the line. Property and target need quotes only where
 * they contain a comparison or begin or end with blanks.
 */
function assertionOf(line: string): Fields | string {
  const tokens = tokensOf(line.trim())
  const source = tokens[0]?.text ?? ''
  const at = tokens.findIndex(({ text }, index) => index > 0 && comparisons.has(text))
  const token = tokens[at]
  if (token === undefined) return noComparison(tokens.map(({ text }) => text))
  const text = line.trim()
  const property = unquoted(text.slice(source.length, token.start))
  const rest = text.slice(token.start + token.text.length).trim()
  const comparison = token.text as Comparison
  if (TARGETLESS.includes(comparison)) {
    return rest === ''
      ? { source, property, comparison }
      : `${comparison} takes no value; remove what follows it`
  }
  if (rest === '') return `${comparison} needs a value after it; write "" for an empty string`
  return { source, property, comparison, target: unquoted(rest) }
}

function noComparison(tokens: string[]): string {
  const form = 'write SOURCE [PROPERTY] COMPARISON [TARGET], like STATUS_CODE EQUALS 200'
  for (const token of tokens.slice(1)) {
    const meant = didYouMean(token, COMPARISONS)
    if (meant !== undefined) return `unknown comparison ${token}; ${meant}`
  }
  return `no comparison in it; ${form}; comparisons are ${COMPARISONS.join(', ')}`
}

interface Token {
  text: string
  start: number
}

/** Tokens separated by blanks; one that begins with a quote ends with the same quote. */
function tokensOf(line: string): Token[] {
  const found = line.matchAll(/"(?:\\"|[^"])*"(?=\s|$)|'[^']*'(?=\s|$)|\S+/g)
  return [...found].map((match) => ({ text: match[0], start: match.index }))
}

/** Without the quotes around it; within double quotes `\"` is a quote, otherwise a backslash is literal. */
function unquoted(text: string): string {
  const trimmed = text.trim()
  const double = /^"((?:\\"|[^"])*)"$/.exec(trimmed)?.[1]
  if (double !== undefined) return double.replaceAll('\\"', '"')
  return /^'([^']*)'$/.exec(trimmed)?.[1] ?? trimmed
}
