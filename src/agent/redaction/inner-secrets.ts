// What is secret within a secret, and goes alone as well: fields of JSON, credentials of URLs, values of sensitive names,
// and what base64 holds.
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

/** Secrets within a secret, which may hold others in turn; no plain words, which stand in other texts. */
export function innerSecrets(secret: string): string[] {
  const found = [
    ...fieldsOf(secret),
    ...partsOfUrls(secret),
    ...namedIn(secret),
    ...(SCHEME.test(secret) ? headerSecrets(secret) : []),
  ].filter((one) => one !== '' && !PLAIN_WORD.test(one))
  return [...found, ...textsInBase64(secret)]
}

const isSensitive = createNameTest()

/** The value of a header. */
const SCHEME = /^(?:apikey|basic|bearer|token)\s/i

/** In a secret these, too, are names of secrets; elsewhere of much else. */
const SHORT_NAMES = /^(?:auth|pass)$/i

const isField = (name: string) => isSensitive(name) || SHORT_NAMES.test(name)

const NAME_CHARS_MAX = 100

/** Values of names, as in connection strings, forms, and files of settings. */
function namedIn(secret: string): string[] {
  return secret.split(/[;&\r\n]/).flatMap((part) => {
    const at = part.search(/[=:]/)
    if (at <= 0 || at > NAME_CHARS_MAX || !isField(part.slice(0, at).trim())) return []
    const value = part.slice(at + 1).trim()
    return [value.replace(/^(["'])(.*)\1$/, '$2')]
  })
}

const URLS = /[a-z][\w+.-]*:\/\/[^\s"'<>]+/gi

/** Shorter paths stand in other texts as well. */
const PATH_CHARS_MIN = 16
/** Words alone are no secret. */
const WORDS = /^(?:[a-z]{0,15}(?:[^A-Za-z\d]|$))*$/

/** What is used of secret URLs, such as that of a webhook, without the rest: credentials, and what a server gets. */
function partsOfUrls(secret: string): string[] {
  if (!secret.includes('://')) return []
  return [secret, ...(secret.match(URLS) ?? [])].flatMap((url) => {
    const { pathname = '', search = '', searchParams = [] } = parseUrl(url) ?? {}
    const parameters = [...searchParams].filter(([name]) => isField(name)).map(([, one]) => one)
    const paths = [pathname, `${pathname}${search}`].filter(
      (path) => path.length >= PATH_CHARS_MIN && !WORDS.test(path),
    )
    return [...urlSecrets(url), ...parameters, ...paths]
  })
}

/** Shorter numbers, such as the lifetime of a token, stand in other texts as well. */
const NUMBER_CHARS_MIN = 6

/** Which texts below a value in JSON are secret: all, those in lists of lists, or those of sensitive names alone. */
type SecretBelow = 'all' | 'items' | 'named'

/**
 * What is secret in JSON, such as the credentials of a database: all in sensitive fields, credentials of URLs, and what
 * a list holds that is the whole.
 */
function fieldsOf(secret: string): string[] {
  const found: string[] = []
  const open: { value: unknown; below: SecretBelow }[] = [{ value: jsonIn(secret), below: 'items' }]
  for (const { value, below } of open) {
    const text = textOf(value)
    found.push(...(below === 'named' ? partsOfUrls(text) : [text]))
    if (typeof value !== 'object' || value === null) continue
    const kept = below === 'all' || Array.isArray(value) ? below : 'named'
    for (const [name, field] of Object.entries(value as Record<string, unknown>))
      open.push({ value: field, below: isField(name) ? 'all' : kept })
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
const LINES_OF_BASE64 = /^[\w+/\s-]+={0,2}\s*$/
const BASE64 = /[\w+/-]{8,}/g
/** Control characters but for tabs and ends of lines. */
const BINARY = /[^\P{Cc}\t\r\n]/u

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
