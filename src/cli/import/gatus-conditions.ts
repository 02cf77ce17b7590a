// Conditions of gatus, like `[STATUS] == 200`, as assertions.
import type { Fields } from '../../agent/monitors-file/shorthands.ts'
import { type Around, refuse } from './drafts.ts'
import { acceptStatus, codesFrom, durationMs, jsonPathOf, literal, matching } from './values.ts'

/** Source of a text and of JSON, by type of monitor. */
const BODY: Readonly<Record<string, { text: string; json?: string }>> = {
  API: { text: 'TEXT_BODY', json: 'JSON_BODY' },
  WEBSOCKET: { text: 'MESSAGE', json: 'JSON_MESSAGE' },
  TCP: { text: 'RESPONSE_DATA' },
  DNS: { text: 'TEXT_ANSWER' },
}

interface Condition {
  around: Around
  comparison: string
  right: string
}

/** Applies one condition, or refuses it. No reason shows a value of the condition. */
export function applyCondition(text: string, around: Around): void {
  const [, left = '', comparison = '', right = ''] =
    /^\s*(.+?)\s*(==|!=|<=|>=|<|>)\s*(.*?)\s*$/.exec(text) ?? []
  if (left === '') return refuse(around, 'is not a condition; write one like [STATUS] == 200')
  if (/\[[A-Z_]+\]/.test(right))
    return refuse(around, 'no assertion compares two values of an answer')
  const [, call, inner = left] = /^(len|has)\((.*)\)$/.exec(left) ?? []
  const [, placeholder = '', path = ''] = /^\[([A-Z_]+)\](.*)$/.exec(inner) ?? []
  const isPlain = placeholder === 'BODY' && path !== '' && patternOf(right) === undefined
  if (right.includes('{{') && !isPlain)
    return refuse(around, 'only a value in JSON can come from the environment')
  const condition = { around, comparison, right }
  if (placeholder === 'BODY') {
    if (call === 'len') return lengthOf(path, condition)
    return call === 'has' ? hasPath(path, condition) : body(path, condition)
  }
  const apply = Object.hasOwn(PLACEHOLDERS, placeholder) ? PLACEHOLDERS[placeholder] : undefined
  if (apply === undefined || path !== '' || call !== undefined) {
    return refuse(around, 'begins with no supported placeholder')
  }
  apply(condition)
}

const PLACEHOLDERS: Readonly<Record<string, (condition: Condition) => void>> = {
  STATUS: status,
  RESPONSE_TIME: (condition) => number(condition, SOURCES_OF_TIME[condition.around.draft.type]),
  CONNECTED({ around, comparison, right }) {
    if (comparison !== '==' || right !== 'true')
      refuse(around, 'a monitor cannot require that the connection fails')
  },
  IP: (condition) =>
    equality(
      condition,
      ADDRESS[condition.around.draft.type],
      'an address of ICMP and SSL monitors',
    ),
  CERTIFICATE_EXPIRATION: expiry,
  DOMAIN_EXPIRATION: ({ around }) => refuse(around, 'no monitor checks when a domain expires'),
  DNS_RCODE: (condition) => {
    const isDns = condition.around.draft.type === 'DNS'
    equality(condition, isDns ? { source: 'RESPONSE_CODE' } : undefined, 'a DNS response code')
  },
}

const SOURCES_OF_TIME: Readonly<Record<string, Fields>> = {
  ...Object.fromEntries(
    ['API', 'TCP', 'DNS', 'SSL', 'GRPC', 'WEBSOCKET'].map((type) => [
      type,
      { source: 'RESPONSE_TIME' },
    ]),
  ),
  ICMP: { source: 'LATENCY', property: 'avg' },
}

/** Of whole numbers, <= 5 is < 6. */
const COMPARISONS: Readonly<Record<string, [name: string, added: number]>> = {
  '==': ['EQUALS', 0],
  '!=': ['NOT_EQUALS', 0],
  '<': ['LESS_THAN', 0],
  '<=': ['LESS_THAN', 1],
  '>': ['GREATER_THAN', 0],
  '>=': ['GREATER_THAN', -1],
}

/** A whole number against a bound. */
function number({ around, comparison, right }: Condition, source: Fields | undefined): void {
  const bound = Number(right)
  if (source === undefined || !/^\d+$/.test(right))
    return refuse(around, 'is not compared with a whole number, as in < 500')
  const [name = '', added = 0] = COMPARISONS[comparison] ?? []
  around.draft.assertions.push({ ...source, comparison: name, target: bound + added })
}

const ALL_CODES = codesFrom(100, 999)

/** Status codes that the condition accepts. */
function status({ around, comparison, right }: Condition): void {
  if (around.draft.type !== 'API') return refuse(around, 'only answers over HTTP have a status')
  const pattern = /^pat\((.*)\)$/.exec(right)?.[1]
  const listed = (/^any\((.*)\)$/.exec(right)?.[1] ?? right).split(',').map(Number)
  if (pattern === undefined && listed.some((one) => !Number.isInteger(one)))
    return refuse(around, 'is not a status code; write one from 100 to 999')
  const [bound = 0] = listed
  const regex = new RegExp(whole(glob(pattern ?? '')))
  const isOne = (code: number) =>
    pattern === undefined ? listed.includes(code) : regex.test(String(code))
  const tests: Record<string, (code: number) => boolean> = {
    '<': (code) => code < bound,
    '<=': (code) => code <= bound,
    '>': (code) => code > bound,
    '>=': (code) => code >= bound,
    '==': isOne,
    '!=': (code) => !isOne(code),
  }
  const accepted = ALL_CODES.filter((code) => tests[comparison]?.(code) === true)
  acceptStatus(around, new Set(accepted))
}

/** The regular expression, without anchors, of a pattern with `*` for anything. */
const glob = (pattern: string) => pattern.split('*').map(literal).join('(?s:.*)')

/** That of `pat()` and `any()`, of the latter also with patterns in it; undefined for a plain value. */
function patternOf(right: string): string | undefined {
  const pattern = /^pat\((.*)\)$/.exec(right)?.[1]
  if (pattern !== undefined) return glob(pattern)
  const listed = /^any\((.*)\)$/.exec(right)?.[1]?.split(',')
  const one = (text: string) => patternOf(text) ?? literal(text)
  return listed && `(?:${listed.map((text) => one(text.trim())).join('|')})`
}

const whole = (pattern: string) => `^${pattern}$`

function body(path: string, { around, comparison, right }: Condition): void {
  const { type, assertions } = around.draft
  const source = BODY[type]
  if (type === 'GRPC' && path === '.status') {
    if (comparison === '==' && right === 'SERVING') return
    return refuse(around, 'a gRPC monitor passes where the state is SERVING')
  }
  if (source === undefined) return refuse(around, 'monitors of this type read no body')
  if (path !== '' && source.json === undefined)
    return refuse(around, 'a path needs an answer in JSON')
  const isEqual = comparison === '=='
  const pattern = patternOf(right)
  if (path === '') {
    if (!isEqual && comparison !== '!=')
      return refuse(around, 'the whole body is compared by == and != only')
    // The data of one of the records, of MX without its preference.
    const wanted = pattern ?? literal(right)
    const regex = type === 'DNS' ? `(?m:^(?:\\d+ )?(?:${wanted})$)` : whole(wanted)
    assertions.push(matching(source.text, regex, isEqual))
    return
  }
  const property = jsonPathOf(path)
  if (property === undefined) return refuse(around, 'is not a valid path')
  const json = { source: source.json, property }
  if (pattern !== undefined) {
    if (!isEqual && comparison !== '!=')
      return refuse(around, 'pat() and any() are compared by == and != only')
    assertions.push(matching(String(source.json), whole(pattern), isEqual, property))
    return
  }
  const [name, added] = COMPARISONS[comparison] ?? []
  if (added !== 0) return refuse(around, 'numbers in JSON are compared by < and > only')
  assertions.push({ ...json, comparison: name, target: right })
}

function lengthOf(path: string, condition: Condition): void {
  const property = jsonPathOf(path)
  const json = BODY[condition.around.draft.type]?.json
  if (property === undefined || json === undefined)
    return refuse(condition.around, 'is not a valid path')
  number(condition, { source: json, property: `${property}.length` })
}

function hasPath(path: string, { around, comparison, right }: Condition): void {
  const [, before = '', key] = /^(.*)\.([\w@-]+)$/.exec(path) ?? []
  const property = jsonPathOf(before)
  const json = BODY[around.draft.type]?.json
  if (key === undefined || property === undefined || json === undefined)
    return refuse(around, 'needs the path of a key')
  if (!/^[!=]= (?:true|false)$/.test(`${comparison} ${right}`))
    return refuse(around, 'has() is compared with true or false, by == or !=')
  const isWanted = (comparison === '==') === (right === 'true')
  const name = isWanted ? 'HAS_KEY' : 'NOT_HAS_KEY'
  around.draft.assertions.push({ source: json, property, comparison: name, target: key })
}

/** What shows the address that was connected to. */
const ADDRESS: Readonly<Record<string, Fields>> = {
  ICMP: { source: 'JSON_RESPONSE', property: '$.resolvedIp' },
  SSL: { source: 'CONNECTION', property: 'resolvedIp' },
}

/** A text that is one value, or another one. */
function equality(
  { around, comparison, right }: Condition,
  source: Fields | undefined,
  what: string,
): void {
  const isPlain = ['==', '!='].includes(comparison) && patternOf(right) === undefined
  if (source === undefined || !isPlain)
    return refuse(around, `${what} is compared by == and != only`)
  const [name] = COMPARISONS[comparison] ?? []
  around.draft.assertions.push({ ...source, comparison: name, target: right })
}

/** Whole days of a certificate; of web pages by an SSL monitor next to the API monitor. */
function expiry({ around, comparison, right }: Condition): void {
  const ms = durationMs(right)
  if (ms === undefined || !['>', '>='].includes(comparison))
    return refuse(around, 'is compared with a duration by > and >= only')
  const days = Math.max(0, Math.ceil(ms / 86_400_000) - 1)
  const assertion = {
    source: 'CERTIFICATE',
    property: 'daysUntilExpiry',
    comparison: 'GREATER_THAN',
    target: days,
  }
  const { draft } = around
  if (draft.type === 'SSL') draft.assertions.push(assertion)
  else if (draft.type === 'API') draft.certificate.push(assertion)
  else return refuse(around, 'only SSL monitors check the certificate')
}
