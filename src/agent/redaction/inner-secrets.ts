// Inner secrets: parts of a secret that are secrets by themselves: the text in base64, fields of JSON, credentials and
// paths of URLs, values of sensitive names in settings, and what follows the scheme of a header.
import { isUtf8 } from 'node:buffer'
import {
  DATE,
  decoded,
  echoedSecrets,
  headerSecrets,
  isShortWord,
  PREFERENCE,
  parseUrl,
  urlSecrets,
  WORDS,
} from '../../contract/definition-secrets.ts'
import { parseExactJson } from '../../contract/exact-json.ts'
import { createNameTest } from '../../contract/protocol/sensitive-name.ts'

/** Parts of parts of parts: a token in JSON that a cookie has in base64, or a key in base64 in base64. */
const DEPTH_MAX = 3

/** Inner secrets, but no short plain words, which stand in other texts. */
export function innerSecrets(secret: string): string[] {
  const found = new Set<string>()
  let texts = [secret]
  for (let depth = 0; depth < DEPTH_MAX && texts.length > 0; depth++) {
    const parts = new Set(texts.flatMap(partsOf))
    texts = [...parts].filter((one) => one !== '' && !isShortWord(one) && !found.has(one))
    for (const one of texts) found.add(one)
  }
  return [...found]
}

function partsOf(text: string): string[] {
  // What a cookie holds is escaped.
  const plain = decoded(text)
  const parts = [...new Set([text, plain])].flatMap((one) => [
    ...fieldsOf(one),
    ...partsOfUrls(one),
    ...settingsIn(one),
    ...textsIn(one),
    ...(SCHEME.test(one) ? headerSecrets(one) : []),
  ])
  return plain.includes('\n') ? [plain, ...parts] : parts
}

const BASE64 = /^[\w+/\r\n-]{14,}={0,2}$/
/** What some programs mark it with, such as Supabase in cookies. */
const BASE64_MARK = /^base64[-:]/
/** What separates user and password in SASL PLAIN (RFC 4616). */
const CONTROLS = /[^\P{Cc}\t\r\n]+/u

/** The texts in base64, as stores of secrets give keys; none where it holds other bytes. */
function textsIn(secret: string): string[] {
  const base64 = secret.replace(BASE64_MARK, '')
  if (!BASE64.test(base64.trim())) return []
  const bytes = Buffer.from(base64, 'base64')
  const texts = isUtf8(bytes) ? bytes.toString().split(CONTROLS) : []
  return texts.filter(({ length }) => length >= VALUE_CHARS_MIN)
}

const isSensitive = createNameTest()

/** Within a secret names with this last word are sensitive, too; elsewhere they have other meanings. */
const SHORT_NAMES = /(?:^|[-_.])(?:auth|pass|AUTH|PASS)$|(?:Auth|Pass)$/

const isField = (name: string) => isSensitive(name) || SHORT_NAMES.test(name)

/** What begins the value of a header. */
const SCHEME = /^(?:apikey|basic|bearer|token)\s/i

/** Shorter values stand in other texts as well. */
const VALUE_CHARS_MIN = 6

/** A name and what separates it from its value. */
const NAMED = /(?<![\w.-])([\w.-]{2,100})["']?[ \t]*[=:][ \t]*/g
/** A value in quotes, in braces, or without blanks but for that behind a scheme. */
const VALUE =
  /"([^"\r\n]{1,4096})"|'([^'\r\n]{1,4096})'|\{([^}\r\n]{1,4096})\}|((?:(?:apikey|basic|bearer|token) )?[^\s;&,]{1,4096})/iy

/** Values of sensitive names, as in connection strings, forms, and files of settings. */
function settingsIn(text: string): string[] {
  const found: string[] = []
  let end = 0
  for (const { 0: whole, 1: name = '', index } of text.matchAll(NAMED)) {
    if (index < end || !isField(name)) continue
    VALUE.lastIndex = index + whole.length
    const [all = '', ...values] = VALUE.exec(text) ?? []
    end = index + whole.length + all.length
    const value = values.find((one) => one !== undefined) ?? ''
    // A quote belongs to it, or ends what the setting stands in.
    found.push(value, ...value.split(/["']/, 1))
  }
  return found.filter((value) => value.length >= VALUE_CHARS_MIN && !DATE.test(value))
}

/** A bounded scheme keeps the search linear. */
const URLS = /[a-z][\w+.-]{0,31}:\/\/[^\s"'<>]+/gi
/** A password in what only its own client takes for a URL, such as one of several hosts. */
const PASSWORD = /:\/\/[^\s:@/?#]*:([^\s@/?#]+)@/g

/** Shorter paths stand in other texts as well. */
const PATH_CHARS_MIN = 16

/** Credentials of URLs, and what a server gets of a secret URL, such as that of a webhook. */
function partsOfUrls(text: string): string[] {
  if (!text.includes('://')) return []
  const passwords = Array.from(text.matchAll(PASSWORD), ([, password = '']) => password)
  const ofUrls = [text, ...(text.match(URLS) ?? [])].flatMap(urlSecrets)
  const { pathname = '', search = '' } = parseUrl(text) ?? {}
  // Some servers name it without its first slash.
  const path = pathname.slice(1)
  const paths = [path, `${path}${search}`].filter(
    (one) => one.length >= PATH_CHARS_MIN && !WORDS.test(one),
  )
  return [...passwords, ...ofUrls, ...paths]
}

/** Shorter numbers, such as the lifetime of a token, stand in other texts as well. */
const NUMBER_CHARS_MIN = 6

/**
 * Values of the sensitive fields of JSON at any depth, and of the lists in them; of a text in quotes, the text. Also the
 * `value` next to a `name`, as in the `storageState` of Playwright, as it would be found of a cookie.
 */
function fieldsOf(secret: string): string[] {
  const found: string[] = []
  const root = jsonOf(secret)
  const open = [{ value: root, isSecret: typeof root === 'string' }]
  for (const { value, isSecret } of open) {
    if (value === undefined) continue
    const text = textOf(value)
    if (isSecret) found.push(text)
    // As in what a store of secrets gives.
    open.push({ value: jsonOf(text), isSecret: false })
    if (typeof value !== 'object' || value === null) continue
    const isList = Array.isArray(value)
    const { name, value: named } = value as Record<string, unknown>
    if (typeof name === 'string' && typeof named === 'string')
      found.push(...echoedSecrets(named).filter((one) => !PREFERENCE.test(one)))
    for (const [key, field] of Object.entries(value as Record<string, unknown>))
      open.push({ value: field, isSecret: isList ? isSecret : isField(key) })
  }
  return found
}

function jsonOf(secret: string): unknown {
  // Express marks JSON in cookies.
  const text = secret.replace(/^j:/, '')
  if (!/^\s*[{["]/.test(text)) return undefined
  try {
    return parseExactJson(text)
  } catch {
    return undefined
  }
}

/** A text, or a number that is long enough; empty for other values. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : ''
  return text.length < NUMBER_CHARS_MIN ? '' : text
}
