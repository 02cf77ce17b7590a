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
const DEPTH_MAX = 3

/** Inner secrets, also those within them; no plain words, which stand in other texts. */
export function innerSecrets(secret: string, depth = 0): string[] {
  const texts = textsInBase64(secret)
  const found = [
    ...fieldsOf(secret),
    ...pathsOf(secret),
    ...credentialsIn(secret),
    ...namedIn(secret),
    ...(SCHEME.test(secret) ? headerSecrets(secret) : []),
    ...(LINES_OF_BASE64.test(secret) ? texts.filter((text) => TOKEN.test(text)) : []),
  ].filter((one) => one !== '' && one !== secret && !PLAIN_WORD.test(one))
  if (depth === DEPTH_MAX) return found
  return [...found, ...[...found, ...texts].flatMap((one) => innerSecrets(one, depth + 1))]
}

const isSensitive = createNameTest()

/** Within a secret these names are sensitive, too; elsewhere they have other meanings. */
const SHORT_NAMES = /^(?:auth|pass)$/i

const isField = (name: string) => isSensitive(name) || SHORT_NAMES.test(name)

/** The value of a header. */
const SCHEME = /^(?:apikey|basic|bearer|token)\s/i

const NAME_CHARS_MAX = 100
/** Shorter values stand in other texts as well. */
const VALUE_CHARS_MIN = 6
/** Dates, times and versions. */
const NUMBERS = /^\d+[.:-][\d.:T-]*Z?$/

/** Values of sensitive names, as in connection strings, forms, and files of settings. */
function namedIn(secret: string): string[] {
  return secret.split(/[;&\r\n]/).flatMap((part) => {
    const at = part.search(/[=:]/)
    if (at <= 0 || at > NAME_CHARS_MAX || !isField(part.slice(0, at).trim())) return []
    const value = part
      .slice(at + 1)
      .trim()
      .replace(/^(["'])(.*)\1$/, '$2')
    return value.length < VALUE_CHARS_MIN || NUMBERS.test(value) ? [] : [value]
  })
}

/** A bounded scheme keeps the search linear. */
const URLS = /[a-z][\w+.-]{0,31}:\/\/[^\s"'<>]+/gi

/** Credentials of URLs, and their parameters of sensitive names. */
function credentialsIn(text: string): string[] {
  if (!text.includes('://')) return []
  return [text, ...(text.match(URLS) ?? [])].flatMap((url) => {
    const parameters = parseUrl(url)?.searchParams ?? []
    return [
      ...urlSecrets(url),
      ...[...parameters].filter(([name]) => isField(name)).map(([, value]) => value),
    ]
  })
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

/** Sensitive fields of JSON, credentials of its URLs, and what a list holds that is such a field or the whole. */
function fieldsOf(secret: string): string[] {
  const found: string[] = []
  const open = [{ value: jsonIn(secret), isSecret: true }]
  for (const { value, isSecret } of open) {
    const text = textOf(value)
    found.push(...(isSecret ? [text] : credentialsIn(text)))
    if (typeof value !== 'object' || value === null) continue
    const isList = Array.isArray(value)
    for (const [name, field] of Object.entries(value as Record<string, unknown>))
      open.push({ value: field, isSecret: isList ? isSecret : isField(name) })
  }
  return found
}

/** The value of JSON in a secret, also as a cookie has it: escaped for URLs, and with more around it. */
function jsonIn(secret: string): unknown {
  const text = /%[57]B/i.test(secret) ? decoded(secret.replaceAll('+', ' ')) : secret
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
