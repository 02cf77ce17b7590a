// Values that sources write in ways of their own: times, status codes, regular expressions, hosts, JSON paths.
import { DNS_TYPE_NUMBERS, dnsTypeProblem } from '../../contract/dns/parameters.ts'
import { FREQUENCIES, type responseTimes } from '../../contract/monitor.ts'
import { type DefinedType, definitionOf } from '../../monitors/definitions.ts'
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import { type Around, refuse } from './drafts.ts'

/** The mapping; an empty one for anything else. */
export const fieldsOf = (value: unknown): Fields => (isFields(value) ? value : {})

/** The text of a text, a number or a boolean; empty for anything else, or nothing. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
  y: 31_536_000_000,
}
const unitMs = (unit: string) => UNIT_MS[unit] ?? 0

/** Why a value is refused that `durationMs` cannot read. */
export const NO_DURATION = 'is not a duration; write 30s'

/** Milliseconds of a duration as Go and Prometheus write it, like `1m30s`; undefined for anything else. */
export function durationMs(text: unknown): number | undefined {
  if (typeof text !== 'string' || !/^(?:\d{1,9}(?:\.\d+)?(?:ms|[smhdwy]))+$/.test(text))
    return undefined
  const parts = [...text.matchAll(/([\d.]+)(ms|[smhdwy])/g)]
  return parts.reduce((sum, [, number, unit = '']) => sum + Number(number) * unitMs(unit), 0)
}

/** Bounds of the time-out of an echo, milliseconds. */
const ECHO_MS_MIN = 10
const ECHO_MS_MAX = 30_000

/** The default and the upper bound of a type's response times, milliseconds. */
function timesOf(type: string): { degraded: number; most: number } {
  const { shape } = definitionOf(type as DefinedType).schema
  const { degradedResponseTime, maxResponseTime } = shape as ReturnType<typeof responseTimes>
  return {
    degraded: degradedResponseTime.parse(undefined),
    most: maxResponseTime.unwrap().maxValue ?? Infinity,
  }
}

/**
 * Sets the time after which a run fails. Where the source has a longer one than its type allows, by default or not,
 * that is noted.
 */
export function setTimeoutMs({ all, draft, path }: Around, ms: number): void {
  const isEcho = draft.type === 'ICMP'
  const { degraded, most } = isEcho ? { degraded: 0, most: ECHO_MS_MAX } : timesOf(draft.type)
  if (ms > most) {
    const message = `${ms / 1000} s becomes ${most / 1000} s, the longest of ${draft.type} monitors`
    all.notes.push({ path, message })
  }
  const max = Math.max(isEcho ? ECHO_MS_MIN : 1, Math.min(Math.round(ms), most))
  if (isEcho) draft.request['timeoutMs'] = max
  else draft.fields['maxResponseTime'] = max
  if (degraded >= max) draft.fields['degradedResponseTime'] = Math.floor(max / 2)
}

/** Seconds of every interval there is, shortest first. */
const INTERVALS = [
  ...Array.from({ length: 59 }, (_, index) => index + 1),
  ...FREQUENCIES.filter((minutes) => minutes > 0).map((minutes) => minutes * 60),
]

const UNITS = ['d', 'h', 'm', 's']

/** Sets the interval; where there is no such one, to the next shorter one or else the shortest, with a note. */
export function setEvery({ all, draft, path }: Around, ms: number): void {
  const least = draft.type === 'SSL' ? 60 : 1
  const seconds = INTERVALS.findLast((one) => one * 1000 <= ms && one >= least) ?? least
  const unit = UNITS.find((one) => (seconds * 1000) % unitMs(one) === 0) ?? 's'
  const every = `${(seconds * 1000) / unitMs(unit)}${unit}`
  draft.fields['every'] = every
  if (seconds * 1000 === ms) return
  const which = seconds * 1000 < ms ? 'the next shorter interval' : 'the shortest interval'
  all.notes.push({ path, message: `becomes ${every}, ${which}` })
}

/**
 * Assertions that the status is one of these: a single one, a range, or a regular expression. `shouldFail` lets
 * codes of 400 and above pass, which no API monitor does otherwise.
 */
export function acceptStatus(around: Around, accepted: ReadonlySet<number>): void {
  const codes = [...accepted].filter((one) => one >= 100 && one <= 999).sort((a, b) => a - b)
  const [least, most] = [codes[0], codes.at(-1)]
  if (least === undefined || most === undefined) {
    return refuse(around, 'accepts no status at all')
  }
  const { draft } = around
  if (most >= 400) draft.fields['shouldFail'] = true
  const add = (comparison: string, target: number) =>
    draft.assertions.push({ source: 'STATUS_CODE', comparison, target })
  if (least === most) add('EQUALS', least)
  else if (most - least === codes.length - 1) {
    add('GREATER_THAN', least - 1)
    add('LESS_THAN', most + 1)
  } else {
    const hundreds = [1, 2, 3, 4, 5, 6, 7, 8, 9].filter((digit) =>
      Array.from({ length: 100 }, (_, index) => digit * 100 + index).every((one) =>
        accepted.has(one),
      ),
    )
    const single = codes.filter((one) => !hundreds.includes(Math.floor(one / 100)))
    const regex = `^(?:${[...hundreds.map((one) => `${one}..`), ...single].join('|')})$`
    draft.assertions.push({ source: 'STATUS_CODE', comparison: 'NOT_NULL', regex })
  }
}

/**
 * Accepts the codes and ranges of codes in a list, like `[200-299, 404]`, or without any those from 200 to 299. Refuses
 * the draft where one is something else.
 */
export function acceptCodes(around: Around, ranges: unknown = []): void {
  const given = Array.isArray(ranges) ? ranges.map(textOf) : ['']
  const texts = given.length === 0 ? ['200-299'] : given
  if (!texts.every((one) => /^[1-9]\d\d(?:-[1-9]\d\d)?$/.test(one))) {
    return refuse(around, 'is not a list of status codes; write ["200-299"]')
  }
  const codes = texts.flatMap((one) => {
    const [first = 0, last = first] = one.split('-').map(Number)
    return codesFrom(first, last)
  })
  acceptStatus(around, new Set(codes))
}

/** All codes from the first to the last. */
export const codesFrom = (first: number, last: number) =>
  Array.from({ length: Math.max(0, Math.min(last, 999) - first + 1) }, (_, index) => first + index)

/** A regular expression of Go as one of ECMAScript; undefined where they mean different things. */
export function fromGoRegex(pattern: string): string | undefined {
  if (/\\[AzQEC]|\\[pP](?!\{)|\[\[:|\(\?[a-z]*U/.test(pattern)) return undefined
  const named = pattern.replaceAll('(?P<', '(?<')
  const flags = /^\(\?([ims]+)\)/.exec(named)
  return flags === null ? named : `(?${flags[1]}:${named.slice(flags[0].length)})`
}

export const GO_REGEX = 'is a regular expression of Go without an equivalent in JavaScript'

/** An assertion that a text matches, or does not. A group around all of it yields the match, whatever groups it has. */
export function matching(source: string, regex: string, isWanted: boolean, property = ''): Fields {
  const whole = `(${regex})`
  const isText = ['RESPONSE_DATA', 'MESSAGE'].includes(source)
  const [yes, no] = isText ? ['NOT_EMPTY', 'IS_EMPTY'] : ['NOT_NULL', 'IS_NULL']
  const comparison = isWanted ? yes : no
  const isPattern = ['TEXT_BODY', 'TEXT_ANSWER', 'RESPONSE_DATA', 'MESSAGE'].includes(source)
  return isPattern
    ? { source, property: whole, comparison }
    : { source, property, comparison, regex: whole }
}

/** The text as a pattern that matches it alone. */
export const literal = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)

/** Host and port of `host:port`, `[::1]:port` or an address alone. */
export function hostAndPort(text: string): { host: string; port?: number } {
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text) ?? []
  const host = bracketed ?? plain ?? text
  return port === undefined ? { host } : { host, port: Number(port) }
}

/** RFC 9535 for a path of names and indexes, like `.data[0].user-id`; undefined for anything else. */
export function jsonPathOf(path: string): string | undefined {
  if (!/^(?:[\w@-]+)?(?:\.[\w@-]+|\[\d+\])*$/.test(path)) return undefined
  const steps = [...path.matchAll(/\[(\d+)\]|\.?([\w@-]+)/g)].map(([, index, name]) => {
    if (index !== undefined) return `[${index}]`
    return /^[A-Za-z_]\w*$/.test(name ?? '') ? `.${name}` : `['${name}']`
  })
  return `$${steps.join('')}`
}

/** The record type as DNS monitors know it: rare ones by their number. */
export function recordTypeOf(name: string): string {
  const number = DNS_TYPE_NUMBERS[name]
  return dnsTypeProblem(name) === undefined || number === undefined ? name : `TYPE${number}`
}
