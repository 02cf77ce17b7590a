// Inner secrets: parts of a secret that are secrets by themselves, such as fields of JSON, credentials of URLs, values
// of sensitive names, and what base64 holds.
import { isUtf8 } from 'node:buffer'
import {
  decoded,
  headerSecrets,
  parseUrl,
  PLAIN_WORD,
  urlSecrets,
} from '../../contract/definition-secrets.ts'
import { parseExactJson } from '../../contract/exact-json.ts'
import { createNameTest } from '../../contract/protocol/sensitive-name.ts'

/** Texts within texts that are looked into, such as a URL in JSON in base64. */
const DEPTH_MAX = 4

/** Inner secrets, also those within them; no plain words, which stand in other texts. */
export function innerSecrets(secret: string): Set<string> {
  const found = new Set<string>()
  const seen = new Set([secret])
  let texts = [secret]
  for (let depth = 0; depth < DEPTH_MAX; depth++) {
    const next = texts.flatMap((text) => {
      const inBase64 = textsInBase64(text)
      const parts = partsOf(text, inBase64).filter((one) => one !== '' && !PLAIN_WORD.test(one))
      for (const one of parts) found.add(one)
      return [...parts, ...inBase64]
    })
    // Each text is looked into once, as many parts are parts of others, too.
    texts = next.filter((text) => seen.size < seen.add(text).size)
  }
  return found
}

function partsOf(text: string, inBase64: readonly string[]): string[] {
  return [
    ...fieldsOf(text),
    ...pathsOf(text),
    ...credentialsIn(text),
    ...namedIn(text),
    ...(SCHEME.test(text) ? headerSecrets(text.replace(SCHEME, '$1 ')) : []),
    ...(LINES_OF_BASE64.test(text) ? inBase64.filter((one) => TOKEN.test(one)) : []),
  ]
}

const isSensitive = createNameTest()

/** Within a secret names that end so are sensitive, too; elsewhere they have other meanings. */
const SHORT_NAMES = /(?:^|[-_.])(?:auth|pass)$/i

const isField = (name: string) => isSensitive(name) || SHORT_NAMES.test(name)

/** What begins the value of a header, also in a cookie. */
const SCHEME = /^(apikey|basic|bearer|token)(?:\s|%20|\+)+/i

/** Shorter values stand in other texts as well. */
const VALUE_CHARS_MIN = 6
/** Dates, times and versions. */
const NUMBERS = /^\d+[.:-][\d.:T-]*Z?$/

/** A name and what separates it from its value. */
const NAMED = /(?<![\w.-])([\w.-]{2,100})["']?[ \t]*[=:][ \t]*/g
/** A value in quotes, in braces, or without blanks. */
const VALUE = /"[^"\r\n]{1,4096}"|'[^'\r\n]{1,4096}'|\{[^}\r\n]{1,4096}\}|[^\s;&,]{1,4096}/y
/** A name and a value of several words. */
const NAMED_TEXT = /^\s*([\w.-]{2,100})[ \t]*[=:](.*)$/

/** Values of sensitive names, as in connection strings, forms, and files of settings. */
function namedIn(text: string): string[] {
  const found = text.split(/[;&\r\n]/).flatMap((part) => {
    const [, name = '', value = ''] = NAMED_TEXT.exec(part) ?? []
    return isField(name) ? [value] : []
  })
  let end = 0
  for (const { 0: whole, 1: name = '', index } of text.matchAll(NAMED)) {
    if (index < end || !isField(name)) continue
    VALUE.lastIndex = index + whole.length
    const [value] = VALUE.exec(text) ?? []
    if (value === undefined) continue
    found.push(value)
    end = VALUE.lastIndex
  }
  return found
    .map((value) => value.trim().replace(/^(?:(["'])(.*)\1|\{(.*)\})$/, '$2$3'))
    .filter((value) => value.length >= VALUE_CHARS_MIN && !NUMBERS.test(value))
}

/** A bounded scheme keeps the search linear. */
const URLS = /[a-z][\w+.-]{0,31}:\/\/[^\s"'<>]+/gi

/** A password in what only its own client takes for a URL, such as one of several hosts. */
const PASSWORD = /:\/\/[^\s:@/?#]*:([^\s@/?#]+)@/g

/** Credentials of URLs, and their parameters of sensitive names. */
function credentialsIn(text: string): string[] {
  if (!text.includes('://')) return []
  const passwords = Array.from(text.matchAll(PASSWORD), ([, password = '']) => password)
  const ofUrls = [text, ...(text.match(URLS) ?? [])].flatMap((url) => {
    const parameters = [...(parseUrl(url)?.searchParams ?? [])].filter(([name]) => isField(name))
    return [...urlSecrets(url), ...parameters.map(([, value]) => value)]
  })
  return [...passwords, ...ofUrls]
}

/** Shorter paths stand in other texts as well. */
const PATH_CHARS_MIN = 16
/** Words alone are no secret. */
const WORDS = /^(?:[a-z]{0,15}(?:[^A-Za-z\d]|$))*$/

/** What a server gets of a secret URL, such as that of a webhook. */
function pathsOf(secret: string): string[] {
  if (!secret.includes('://')) return []
  const { pathname = '', search = '' } = parseUrl(secret) ?? {}
  return [pathname, `${pathname}${search}`].filter(
    (path) => path.length >= PATH_CHARS_MIN && !WORDS.test(path),
  )
}

/** Shorter numbers, such as the lifetime of a token, stand in other texts as well. */
const NUMBER_CHARS_MIN = 6

const JSON_TEXT = /^\s*[{[]/

/** Sensitive fields of JSON, also in its texts, credentials of its URLs, and lists that are such a field or the whole. */
function fieldsOf(secret: string): string[] {
  const found: string[] = []
  const open = [{ value: jsonIn(secret), isSecret: true }]
  for (const { value, isSecret } of open) {
    const text = textOf(value)
    found.push(...(isSecret ? [text] : [...credentialsIn(text), ...namedIn(text)]))
    if (JSON_TEXT.test(text)) open.push({ value: jsonIn(text), isSecret: false })
    if (typeof value !== 'object' || value === null) continue
    const isList = Array.isArray(value)
    for (const [name, field] of Object.entries(value as Record<string, unknown>))
      open.push({ value: field, isSecret: isList ? isSecret : isField(name) })
  }
  return found
}

/** How often JSON in a secret may be escaped for URLs. */
const ESCAPED_MAX = 3

/** The value of JSON in a secret, also as a cookie has it: escaped for URLs, and with more around it. */
function jsonIn(secret: string): unknown {
  let text = secret
  for (let round = 0; round < ESCAPED_MAX && /%(?:25)*[57]B/i.test(text); round++)
    text = decoded(text.replaceAll('+', ' '))
  const from = text.search(/[{[]/)
  const to = Math.max(text.lastIndexOf('}'), text.lastIndexOf(']'))
  if (from < 0 || to < from) return undefined
  try {
    return parseExactJson(text.slice(from, to + 1))
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

/** How Supabase marks cookies. */
const PREFIX = /^base64-/
const LINES_OF_BASE64 = /^[\w+/\s-]+(?:={1,2}\s*)?$/
const BASE64 = /[\w+/-]{8,}/g
/** Control characters but for tabs and ends of lines. */
const BINARY = /[^\P{Cc}\t\r\n]/u
/** A password or a key, but no address. */
const TOKEN = /^(?!.*:\/\/)\S{6,}$|-----BEGIN/

/** Texts that the secret holds in base64, as a whole or as one of its parts. */
function textsInBase64(secret: string): string[] {
  const digits = secret.replace(PREFIX, '')
  const all = LINES_OF_BASE64.test(digits)
    ? [digits.replaceAll(/\s/g, '')]
    : (digits.match(BASE64) ?? [])
  return all
    .map((one) => Buffer.from(one, 'base64'))
    .filter(isUtf8)
    .map(String)
    .filter((text) => !BINARY.test(text))
}
