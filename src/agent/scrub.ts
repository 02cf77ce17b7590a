// Takes secrets out of what leaves the agent: values of sensitive headers, known secret values in any
// usual encoding, and credentials in URLs. Always on; settings can only add.
import { createNameTest } from '../contract/sensitive-name.ts'
import { SECRET_VALUES_MAX, SecretFinder } from './secret-finder.ts'
import { SECRET_CHARS_MIN } from './secret-spellings.ts'

/** What stands where a secret stood. */
export const SCRUBBED = '[scrubbed]'

/** Takes secrets out. What holds none is given back as it is, not copied. */
export interface Scrubber {
  text(text: string): string
  /** Texts in lists and objects too, and the values of sensitive names. */
  value<T>(value: T): T
  /** Whether a header or field of this name is sensitive. */
  isSensitive(name: string): boolean
  /** What it was made from, for whoever scrubs in another thread. */
  readonly settings: { readonly secrets: readonly string[]; readonly headers: readonly string[] }
}

/** What a scrubber knows. */
export interface ScrubSettings {
  /** Secret values; those under 3 characters are ignored. */
  secrets?: Iterable<string>
  /** Further names of headers. */
  headers?: readonly string[]
}

/** Makes a scrubber. It fails closed: whatever goes wrong inside of it, the whole text is SCRUBBED. */
export function createScrubber(
  settings: ScrubSettings,
  isSensitive = createNameTest(settings.headers),
): Scrubber {
  const values = [...new Set(settings.secrets)]
  const secrets = [...new Set(values.flatMap(withLines))]
  const without = withoutSecrets(() => {
    if (values.length > SECRET_VALUES_MAX) throw new RangeError('too many secrets')
    return new SecretFinder(secrets)
  })
  const text = (given: string) => withoutUrlCredentials(without(given))
  return {
    text,
    isSensitive,
    settings: { secrets, headers: settings.headers ?? [] },
    value(value) {
      const walk: Walk = { isSensitive, text, found: new Set() }
      const clean = cleaned(value, walk)
      if (walk.found.size === 0) return clean as typeof value
      // What a sensitive header held may stand elsewhere too: in a message, in an echoed body.
      return withTexts(
        clean,
        withoutSecrets(() => new SecretFinder(walk.found)),
      ) as typeof value
    },
  }
}

/** Makes the finder at once, and of each text what is left without its secrets. Never throws. */
function withoutSecrets(make: () => SecretFinder): (given: string) => string {
  let finder: SecretFinder | undefined
  try {
    finder = make()
  } catch {
    // An error could quote a secret, so nobody is told of it.
  }
  return (given) => {
    try {
      return finder === undefined ? SCRUBBED : withoutSpans(given, finder)
    } catch {
      return SCRUBBED
    }
  }
}

/** What whoever cuts a text puts there. */
const CUT_MARK = /(?:…|\.{3})$/

function withoutSpans(given: string, finder: SecretFinder): string {
  const mark = CUT_MARK.exec(given.slice(-3))?.[0] ?? ''
  const bytes = Buffer.from(mark === '' ? given : given.slice(0, -mark.length))
  const spans = finder.spansOfCut(bytes)
  if (spans.length === 0) return given
  let clean = ''
  let at = 0
  for (const { from, to } of spans) {
    clean += bytes.toString('utf8', at, from) + SCRUBBED
    at = to
  }
  return clean + bytes.toString('utf8', at) + mark
}

/** The value with each of its texts, in lists and objects too, as `text` gives it. */
export function withTexts<T>(value: T, text: (given: string) => string): T {
  return cleaned(value, { isSensitive: () => false, text, found: new Set() }) as T
}

/** Shorter lines of a secret, such as the last one of a key, stand in other texts as well. */
const SECRET_LINE_CHARS_MIN = 8

/** A secret of several lines and its lines, which a console tells apart; not the frame of a key. */
function withLines(secret: string): string[] {
  if (!secret.includes('\n')) return [secret]
  const lines = secret.split('\n').map((line) => line.trim())
  const own = lines.filter((one) => one.length >= SECRET_LINE_CHARS_MIN && !one.startsWith('-----'))
  return [secret, ...own]
}

// user:password@ or token@ after the slashes of a URL.
const URL_CREDENTIALS = /:\/\/[^\s/?#"'<>\\{}]+@/g

function withoutUrlCredentials(text: string): string {
  if (!text.includes('@') || !text.includes('://')) return text
  return text.replace(URL_CREDENTIALS, `://${SCRUBBED}@`)
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
  // A header as a pair: ['Authorization', 'Basic …'].
  const [name, held] = items
  if (items.length === 2 && typeof name === 'string' && typeof held === 'string') {
    if (walk.isSensitive(name)) return [name, hidden(held, walk)]
  }
  let copy: unknown[] | undefined
  for (let at = 0; at < items.length; at++) {
    const item = items[at]
    const next = cleaned(item, walk)
    if (next === item) continue
    copy ??= [...items]
    copy[at] = next
  }
  return copy ?? items
}

/** Fields that name a header, and fields that hold what it is, in lists of headers and in assertions. */
const NAME_FIELDS = ['name', 'key', 'header', 'property']
const VALUE_FIELDS: ReadonlySet<string> = new Set(['value', 'values', 'actual', 'target'])

function cleanedFields(fields: Record<string, unknown>, walk: Walk): Record<string, unknown> {
  const named = NAME_FIELDS.some((field) => {
    const name = fields[field]
    return typeof name === 'string' && walk.isSensitive(name)
  })
  let copy: Record<string, unknown> | undefined
  for (const key in fields) {
    const field = fields[key]
    const hide = walk.isSensitive(key) || (named && VALUE_FIELDS.has(key))
    const next = hide ? hidden(field, walk) : cleaned(field, walk)
    if (next === field) continue
    copy ??= { ...fields }
    copy[key] = next
  }
  return copy ?? fields
}

function hidden(value: unknown, walk: Walk): unknown {
  if (Array.isArray(value)) return value.map((item) => hidden(item, walk))
  if (typeof value === 'object' && value !== null) return cleaned(value, walk)
  if (typeof value !== 'string') return value
  if (value === '') return value
  for (const part of headerSecrets(value)) walk.found.add(part)
  return SCRUBBED
}

/** Echoes of shorter values would be found in every other word. */
const ECHO_CHARS_MIN = 6

/**
 * The secrets in the value of a sensitive header: the whole, what follows a scheme (`Bearer …`), the
 * user and password of basic authentication, and the values of cookies.
 */
export function headerSecrets(value: string): string[] {
  const scheme = /^(\w+)\s+(.+)$/.exec(value)
  const credentials = scheme?.[2] ?? ''
  const cookies = value.split(';').map((part) => part.slice(part.indexOf('=') + 1).trim())
  const pairs = value.includes('=') ? cookies.slice(0, isSetCookie(value) ? 1 : undefined) : []
  const basic =
    scheme?.[1]?.toLowerCase() === 'basic' ? Buffer.from(credentials, 'base64').toString() : ''
  const password = basic.slice(basic.indexOf(':') + 1)
  return [value, credentials, password, ...pairs].filter((one) => one.length >= ECHO_CHARS_MIN)
}

/** The longest word that is taken for none. */
const WORD_CHARS_MAX = 9
/** `deleted`, `undefined`, `no-check`: settings, and what a program without its secret says. */
const WORD = /^(?:[A-Z]?[a-z]+(?:[-_][a-z]+)*|[A-Z]+)$/

/** Those of them that may be looked for in what a program says: not a short word, which would stand there by itself. */
export function echoedSecrets(value: string): string[] {
  const isBasic = /^basic\s/i.test(value)
  return headerSecrets(value).filter(
    (one) => isBasic || one.length > WORD_CHARS_MAX || !WORD.test(one),
  )
}

function isSetCookie(value: string): boolean {
  return /;\s*(?:path|expires|max-age|domain|secure|httponly|samesite)\b/i.test(value)
}

/** Whether a secret is too short to be found wherever it stands. */
export function isTooShort(secret: string): boolean {
  return secret.length > 0 && secret.length < SECRET_CHARS_MIN
}
