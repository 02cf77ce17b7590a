// The secrets of a run as the needles that are looked for in decoded views of a text: few spellings of each.
import { isShortWord, PLAIN_WORD, SECRET_CHARS_MIN } from '../../contract/definition-secrets.ts'
import { jsonOf } from '../../contract/exact-json.ts'
import { type SecretBounds, SecretSet } from '../../contract/secret-set.ts'
import { LIMITS } from '../../contract/versions.ts'
import { decimalEscape } from '../../network/dns/text.ts'
import { innerSecrets } from './inner-secrets.ts'
import { type Needle, NEEDLE_BYTES_MIN } from './needle-index.ts'
import { mayBeEscaped, plainView, withoutEscapes } from './text-views.ts'

/** Rounds of escaping that are decoded: JSON in JSON in a URL, and what the secret itself looks like. */
export const ESCAPE_ROUNDS_MAX = 6

/** Needles for each value that there may be: its lines and spellings. More take seconds to prepare. */
const NEEDLES_PER_VALUE_MAX = 8

/** There are more values than a run may know. The message says nothing about them. */
class TooManySecrets extends Error {
  constructor() {
    super('there are more secrets than the limit for a run')
    this.name = 'TooManySecrets'
  }
}

/**
 * Needles for secrets. Those under 3 characters are ignored; of those over `secretCharactersMax`, the first part is
 * taken. Throws TooManySecrets.
 */
export function needlesOf(secrets: Iterable<string>, bounds?: SecretBounds): Needle[] {
  const values = new SecretSet(secrets, bounds)
  const given = [...values]
  for (const secret of given) {
    if (values.isOver) break
    for (const inner of innerSecrets(secret)) values.add(inner)
  }
  if (values.isOver) throw new TooManySecrets()
  const needles: Needle[] = []
  const needlesMax = NEEDLES_PER_VALUE_MAX * values.bounds.valuesMax
  for (const secret of values) {
    if (secret.length < SECRET_CHARS_MIN) continue
    for (const value of new Set(withLines(secret))) {
      if (value.length >= SECRET_CHARS_MIN) addNeedles(value, needles)
      if (needles.length > needlesMax) throw new TooManySecrets()
    }
  }
  return needles
}

/** Shorter lines of a secret, such as the last one of a key, stand in other texts as well. */
const SECRET_LINE_CHARS_MIN = 8

/**
 * A secret, the same without blanks around it, and its lines, which a console prints separately; not the header and
 * footer of PEM, nor lines of JSON, which stand in other JSON. Where all lines are short, it consists of these, but for
 * plain words, which stand in other texts. PEM in the environment has escaped ends of lines.
 */
function withLines(secret: string): string[] {
  const trimmed = secret.trim()
  const end = trimmed.startsWith('-----BEGIN') ? /\n|(?:\\r)?\\n/ : '\n'
  const all = trimmed.split(end).map((line) => line.trim())
  if (all.length === 1 || typeof jsonOf(trimmed) === 'object') return [secret, trimmed]
  const lines = all.filter((one) => !one.startsWith('-----') && !isShortWord(one))
  const long = lines.filter((one) => one.length >= SECRET_LINE_CHARS_MIN)
  return [secret, trimmed, ...(long.length > 0 ? long : lines)]
}

function addNeedles(secret: string, needles: Needle[]): void {
  const isOpen = secret.length > LIMITS.secretCharactersMax
  const part = isOpen ? firstPart(secret) : secret
  const add = (bytes: string) => needles.push({ bytes, isOpen })
  if (MAY_BE_HOST.test(part) && !PLAIN_WORD.test(part)) add(part.toLowerCase())
  if (PLAIN.test(part)) {
    add(part)
    return
  }
  const utf8 = Buffer.from(part)
  for (const bytes of [utf8, ...rewritten(part, utf8)]) {
    const plain = bytes.toString('latin1')
    const canonical = canonicalOf(bytes)
    for (const one of new Set([plain, canonical])) add(one)
    if (bytes.includes(' ')) add(canonicalOf(asInForm(bytes)))
    // What is too short once it is decoded is looked for as it is encoded.
    if (canonical.length < NEEDLE_BYTES_MIN) for (const one of encoded(bytes.toString())) add(one)
  }
  for (const one of joinedToEscapes(utf8)) add(one)
  if (utf8.length !== part.length) {
    // In Latin-1, or as `\xfc\u20ac`, where escapes of two digits are characters and not bytes.
    add(part.replaceAll(/[^\0-\u00FF]+/g, (one) => Buffer.from(one).toString('latin1')))
  }
}

/** Bytes without escapes, in characters of Latin-1. */
function canonicalOf(bytes: Uint8Array): string {
  return Buffer.from(withoutAllEscapes(bytes)).toString('latin1')
}

/** In a form, a space is a plus. */
function asInForm(bytes: Buffer): Buffer {
  return Buffer.from(bytes.toString('latin1').replaceAll(' ', '+'), 'latin1')
}

/** Shorter ones stand in other texts by chance. Bytes. */
const JOINED_BYTES_MIN = 8

/**
 * A secret of which an end became an escape with what stands next to it: `\\n` in `CORP\\name`, `%be` in `5%beef`, `%41`
 * where `41` follows a secret that ends with `%`.
 */
function joinedToEscapes(utf8: Buffer): string[] {
  if (utf8.length > REWRITTEN_CHARS_MAX) return []
  const plain = utf8.toString('latin1')
  const texts = plain.includes(' ') ? [plain, plain.replaceAll(' ', '+')] : [plain]
  const joins = texts
    .flatMap((text) => JOINS.map(([place, rest]) => text.replace(place, rest)))
    .filter((one) => !texts.includes(one))
  if (joins.length === 0) return []
  const { length: max } = canonicalOf(utf8)
  return joins
    .map((one) => canonicalOf(Buffer.from(one, 'latin1')))
    .filter(({ length }) => length >= JOINED_BYTES_MIN && length <= max)
}

/** Where an escape may begin, and what then stands in front of it; what may be the beginning of one, and goes. */
const JOINS = [
  [/^(?=[bfnrtvux])/i, '\\'],
  [/^(?=[\da-f]{2}|u)/i, '%'],
  [/(?:%[\da-f]?|\\{1,8}(?:x[\da-f]?|u[\da-f]{0,3})?)$/i, ''],
] as const

/** Written alike in nearly every encoding that is decoded here. */
const PLAIN = /^[A-Za-z0-9]+$/

/** Names of hosts and of headers are shown in lower case. */
const MAY_BE_HOST = /^(?=.*[A-Z])[\w.-]{6,}$/

/** What programs on the way make of a secret, in ways that cannot be decoded afterwards. */
function rewritten(secret: string, utf8: Buffer): Buffer[] {
  // Of keys and documents, the lines are found.
  if (secret.length > REWRITTEN_CHARS_MAX || !MAY_BE_REWRITTEN.test(secret)) return []
  const texts = new Set<string>()
  // URLs (WHATWG): tabs and ends of lines vanish, a backslash is a slash in front of the query, and often the fragment
  // is not shown.
  const inQuery = secret.replaceAll(/[\t\r\n]/g, '')
  for (const one of [inQuery, inQuery.replaceAll('\\', '/')]) {
    texts.add(one).add(withoutFragment(one))
  }
  // A page shows several blanks as one, a line of ours no control characters, and Playwright signs.
  texts.add(secret.replaceAll(/\s+/g, ' ')).add(secret.replaceAll(/\p{Cc}+/gu, ' '))
  texts.add(secret.replaceAll('\n', '↵').replaceAll('\t', '⇆'))
  // Names and texts in DNS (RFC 1035, 5.1).
  texts.add(
    utf8.toString('latin1').replaceAll(/[^!-~]/g, (one) => decimalEscape(one.charCodeAt(0))),
  )
  if (utf8.length !== secret.length) {
    // UTF-8 that was read as Latin-1, and Latin-1 that was read as UTF-8: headers have no charset.
    texts.add(utf8.toString('latin1'))
    const isReadable = (secret.match(/[A-Za-z0-9]/g) ?? []).length >= READABLE_CHARS_MIN
    if (isReadable && LATIN1.test(secret)) texts.add(Buffer.from(secret, 'latin1').toString())
  }
  texts.delete(secret)
  return [...texts].map((text) => Buffer.from(text))
}

const LATIN1 = /^[\0-\u00FF]*$/
const REWRITTEN_CHARS_MAX = 256
const MAY_BE_REWRITTEN = /[^!-~]|[\\#]/
/** With fewer, a text of replacement characters is no secret any more. */
const READABLE_CHARS_MIN = 6

/** A secret without what would be the fragment of a URL; the whole where too little is left. */
function withoutFragment(secret: string): string {
  const [path = ''] = secret.split('#', 1)
  return path.length < SECRET_LINE_CHARS_MIN || PLAIN_WORD.test(path) ? secret : path
}

function firstPart(secret: string): string {
  const part = secret.slice(0, LIMITS.secretCharactersMax)
  return /[\uD800-\uDBFF]$/.test(part) ? part.slice(0, -1) : part
}

function withoutAllEscapes(bytes: Uint8Array): Uint8Array {
  let view = plainView(bytes)
  for (let round = 0; round < ESCAPE_ROUNDS_MAX && mayBeEscaped(view); round++) {
    const next = withoutEscapes(view)
    if (next === undefined) break
    view = next
  }
  return view.bytes
}

function encoded(secret: string): string[] {
  const html = secret
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
  const url = encodeURIComponent(secret.toWellFormed())
  const form = new URLSearchParams({ a: secret }).toString().slice(2)
  const all = [html, url, url.toLowerCase(), form, JSON.stringify(secret).slice(1, -1)]
  return all.map((one) => Buffer.from(one).toString('latin1'))
}
