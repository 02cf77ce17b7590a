// Takes secrets out of what leaves the agent: values of sensitive headers, known secret values in any
// usual encoding, and credentials in URLs. Always on; settings can only add.
import { echoedSecrets, isSecretOf } from '../../contract/definition-secrets.ts'
import { type SecretBounds, SecretSet } from '../../contract/secret-set.ts'
import { LIMITS } from '../../contract/versions.ts'
import { createNameTest } from '../../contract/protocol/sensitive-name.ts'
import { partSpans, TEXT_MARKS } from './cut-parts.ts'
import {
  type Finder,
  joined,
  SecretFinder,
  type Span,
  TEXT_PART_BYTES_MIN,
} from './secret-finder.ts'

/** What stands where a secret stood. */
export const SCRUBBED = '[scrubbed]'

/** Of a run of user code whose texts are all scrubbed, the reason. */
export const ALL_SCRUBBED =
  `its secret values are more than ${LIMITS.userCodeSecretValuesMax}, have more than ` +
  `${LIMITS.userCodeSecretsCharactersMax} characters, or could not be searched for: all texts are scrubbed`

/** Whether a scrubber removes all texts, since it cannot search for secrets, which are longer than this one. */
export function scrubsAll({ text }: Pick<Scrubber, 'text'>): boolean {
  return text('-') === SCRUBBED
}

/** Removes secrets. A value without any is returned as it is, not copied. */
export interface Scrubber {
  text(text: string): string
  /** Texts in lists and objects too, and the values of sensitive names. */
  value<T>(value: T): T
  /** Whether a header or field of this name is sensitive. */
  isSensitive(name: string): boolean
  /** The values of sensitive names in it, which may also stand elsewhere. */
  namedIn(value: unknown): string[]
  /** A scrubber that knows more secrets. Prepares only these; over `bounds`, it removes all texts. */
  and(secrets: Iterable<string>, bounds?: SecretBounds): Scrubber
  /** The settings it was made from, for scrubbing in another thread. */
  readonly settings: { readonly secrets: readonly string[]; readonly headers: readonly string[] }
}

export interface ScrubSettings {
  /** Secret values; those under 3 characters are ignored. */
  secrets?: Iterable<string>
  headers?: readonly string[]
}

/**
 * Makes a scrubber. It fails closed: on an internal error all of the text is replaced, and no error
 * leaves, since its message could hold a secret.
 */
export function createScrubber(
  { secrets = [], headers = [] }: ScrubSettings,
  isSensitive = createNameTest(headers),
  finderOf: MakeFinder = (...given) => new SecretFinder(...given),
): Scrubber {
  const settings = { secrets: [], headers }
  return scrubberOf({ settings, isSensitive, finderOf, finders: [] }).and(secrets)
}

type MakeFinder = (secrets: readonly string[], bounds?: SecretBounds) => Finder

interface Parts extends Pick<Scrubber, 'isSensitive' | 'settings'> {
  finderOf: MakeFinder
  finders: readonly Finder[]
}

function scrubberOf(parts: Parts): Scrubber {
  const { finders, isSensitive, settings } = parts
  const finderOf: MakeFinder = (...given) => madeOrFailing(() => parts.finderOf(...given))
  const text = textsWithout(finders)
  return {
    text,
    namedIn(value) {
      const found = new Set<string>()
      cleaned(value, { isSensitive, text: unchanged, found })
      return [...found]
    },
    isSensitive,
    settings,
    and(more, bounds) {
      const own = [...new SecretSet(more, bounds)]
      if (own.length === 0) return this
      const secrets = [...settings.secrets, ...own]
      const all = [...finders, finderOf(own, bounds)]
      return scrubberOf({ ...parts, finders: all, settings: { ...settings, secrets } })
    },
    value(value) {
      const found = new Set<string>()
      const clean = cleaned(value, { isSensitive, text, found })
      if (found.size === 0) return clean as typeof value
      // The value of a sensitive header may also stand elsewhere: in a message, in an echoed body.
      const known = new Set(settings.secrets)
      const own = [...found].filter((one) => !known.has(one))
      if (own.length === 0) return clean as typeof value
      const all = textsWithout([...finders, finderOf(own)])
      return cleaned(value, { isSensitive, text: all, found }) as typeof value
    },
  }
}

const unchanged = (text: string) => text

function madeOrFailing(make: () => Finder): Finder {
  try {
    return make()
  } catch {
    const message = 'the search for secrets could not be prepared'
    return {
      spans: () => {
        throw new Error(message)
      },
    }
  }
}

/** How texts lose secrets; all of a text goes when that fails. Places of several finders may overlap. */
function textsWithout(finders: readonly Finder[]): (given: string) => string {
  const [only] = finders
  const finder: Finder | undefined =
    finders.length <= 1
      ? only
      : { spans: (...given) => joined(finders.flatMap((one) => one.spans(...given))) }
  return (given) => {
    try {
      const clean = finder === undefined || given === '' ? given : withoutSecrets(given, finder)
      return withoutUrlCredentials(clean)
    } catch {
      return SCRUBBED
    }
  }
}

/** The value with each of its texts, in lists and objects too, as `text` gives it. */
export function withTexts<T>(value: T, text: (given: string) => string): T {
  return cleaned(value, { isSensitive: () => false, text, found: new Set() }) as T
}

/** Texts from this length on may have been cut to it, through the middle of a secret. UTF-16 units. */
const CUT_TEXT_CHARS_MIN = 100

function withoutSecrets(text: string, finder: Finder): string {
  const bytes = Buffer.from(text)
  const mayBeCut = text.length >= CUT_TEXT_CHARS_MIN
  const ends = { start: mayBeCut, end: mayBeCut }
  const latin1 = bytes.length === text.length ? text : bytes.toString('latin1')
  const parts = partSpans(finder, bytes, latin1, { marks: TEXT_MARKS })
  const spans = joined([...finder.spans(bytes, ends, TEXT_PART_BYTES_MIN), ...parts])
  return spans.length === 0 ? text : withoutSpans(text, bytes, spans)
}

/** The text without spans of its bytes; a character goes as a whole. */
function withoutSpans(text: string, bytes: Buffer, spans: readonly Span[]): string {
  const isInside = (at: number) => ((bytes[at] ?? 0) & 0xc0) === 0x80
  const isAscii = bytes.length === text.length
  let clean = ''
  let [at, unit] = [0, 0]
  const pass = (to: number) => {
    const units = isAscii ? to - at : bytes.toString('utf8', at, to).length
    at = to
    unit += units
  }
  for (const span of spans) {
    let { from, to } = span
    while (isInside(from)) from--
    while (isInside(to)) to++
    const begin = unit
    pass(Math.max(at, from))
    clean += text.slice(begin, unit) + SCRUBBED
    pass(Math.max(at, Math.min(to, bytes.length)))
  }
  return clean + text.slice(unit)
}

/**
 * `user:password@` or `token@` after the slashes of a URL, which may be escaped or percent-encoded. An apostrophe may
 * belong to them, or end the literal that a URL stands in. JSON may have escaped an ampersand, and what is not ASCII.
 */
const URL_CREDENTIALS =
  /(:(?:\\?\/){2})(?:[^\s/?#"'<>\\{}]|'(?![\s,;)\]])|\\{1,4}u(?:0026|(?!00[0-7])[\da-f]{4}))+@|(%3A%2F%2F)(?:[^\s/?#"'<>\\{}%&]|%(?!2F|3F|23))+?%40/gi

function withoutUrlCredentials(text: string): string {
  if (!text.includes('@') && !text.includes('%40')) return text
  return text.replace(URL_CREDENTIALS, (_, plain?: string, encoded?: string) =>
    plain === undefined ? `${encoded}${SCRUBBED}%40` : `${plain}${SCRUBBED}@`,
  )
}

/** Where credentials in URLs stand in a text. */
export function* urlCredentials(text: string): Generator<Span> {
  for (const { 0: whole, 1: plain, 2: encoded = '', index } of text.matchAll(URL_CREDENTIALS)) {
    const from = index + (plain ?? encoded).length
    const to = index + whole.length - (plain === undefined ? '%40' : '@').length
    yield { from, to }
  }
}

interface Walk {
  isSensitive(name: string): boolean
  text(text: string): string
  /** Values of sensitive names, as they were met. */
  found: Set<string>
}

function cleaned(value: unknown, walk: Walk): unknown {
  if (typeof value === 'string') return walk.text(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return cleanedItems(value, walk)
  if (!isPlain(value)) return value
  return cleanedFields(value as Record<string, unknown>, walk)
}

// Errors, buffers and the like become text later, which is looked at then.
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

function cleanedItems(items: readonly unknown[], walk: Walk): readonly unknown[] {
  let copy: unknown[] | undefined
  for (let at = 0; at < items.length; at++) {
    const item = items[at]
    const next = isSensitivePair(item, walk)
      ? [item[0], hidden(item[1], walk)]
      : cleaned(item, walk)
    if (next === item) continue
    copy ??= [...items]
    copy[at] = next
  }
  return copy ?? items
}

/** A header in a list of pairs: ['Authorization', 'Basic …']. Two texts elsewhere are two texts, such as names of hosts. */
function isSensitivePair(item: unknown, walk: Walk): item is [string, string] {
  if (!Array.isArray(item) || item.length !== 2) return false
  const [name, second] = item as unknown[]
  return typeof name === 'string' && typeof second === 'string' && walk.isSensitive(name)
}

/** Fields whose own fields have names from outside: headers, metadata, parameters. */
const NAMED_OUTSIDE: ReadonlySet<string> = new Set([
  'headers',
  'metadata',
  'trailers',
  'queryParameters',
])

/** Fields that name a header, and fields that hold what it is, in lists of headers and in assertions. */
const NAME_FIELDS = ['name', 'key', 'header', 'property']
const VALUE_FIELDS: ReadonlySet<string> = new Set(['value', 'values', 'actual', 'target'])

function cleanedFields(fields: Record<string, unknown>, walk: Walk): Record<string, unknown> {
  const isNamed = (value: unknown) =>
    NAME_FIELDS.some((field) => {
      const name = fields[field]
      if (typeof name !== 'string') return false
      const isSensitive = (one: string) => walk.isSensitive(one)
      return field === 'property' ? isSecretOf(name, value, isSensitive) : isSensitive(name)
    })
  let copy: Record<string, unknown> | undefined
  for (const key in fields) {
    const field = fields[key]
    const hide = walk.isSensitive(key) || (VALUE_FIELDS.has(key) && isNamed(field))
    const clean = hide ? hidden(field, walk) : cleaned(field, walk)
    const next = NAMED_OUTSIDE.has(key) ? withCleanNames(clean, walk) : clean
    if (next === field) continue
    copy ??= { ...fields }
    copy[key] = next
  }
  return copy ?? fields
}

function withCleanNames(value: unknown, walk: Walk): unknown {
  if (typeof value !== 'object' || value === null || !isPlain(value)) return value
  const names = Object.keys(value)
  const clean = names.map((name) => walk.text(name))
  if (names.every((name, at) => name === clean[at])) return value
  return Object.fromEntries(Object.values(value).map((one, at) => [clean[at], one]))
}

/** Texts in JSON, of which the last may be cut. */
const ITEMS = /"((?:[^"\\]|\\.)*)(?:"|\\?$)/gs

function hidden(value: unknown, walk: Walk): unknown {
  if (Array.isArray(value)) return value.map((item) => hidden(item, walk))
  if (typeof value === 'object' && value !== null) return cleaned(value, walk)
  if (typeof value !== 'string') return value
  if (value === '') return value
  // A failure shows a text of JSON in quotes, the beginning of a longer one, and a list as it is written.
  const bare = value.startsWith('"') ? value.slice(1).replace(/["…]$/, '') : value
  const items = value.startsWith('["') ? value.replace(/…$/, '').matchAll(ITEMS) : []
  for (const one of [bare, ...Array.from(items, ([, item = '']) => item)])
    for (const part of echoedSecrets(one)) walk.found.add(part)
  return SCRUBBED
}
