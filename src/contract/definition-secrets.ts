// Finds the secrets that a definition contains: agents scrub them from results, and a definition with too many or
// too long ones is refused.
import { isUtf8 } from 'node:buffer'
import { compileJsonPath } from './json-path/json-path.ts'
import { jsonOf } from './exact-json.ts'
import { SecretSet } from './secret-set.ts'
import { createNameTest } from './protocol/sensitive-name.ts'
import { LIMITS } from './versions.ts'

/** Shorter secrets cannot be scrubbed by value: they would be found everywhere. UTF-16 units. */
export const SECRET_CHARS_MIN = 3

interface Variable {
  key: string
  value: string
  secret: boolean
  locked: boolean
}

/** Values of variables that are secret; a locked one is hidden in the user interface as well. */
export function variableSecrets(variables: readonly Variable[]): string[] {
  return variables.filter((one) => one.secret || one.locked).map((one) => one.value)
}

/**
 * Secrets in the own fields of a definition whose variables have been put in: passwords, keys and
 * passphrases by the name of their field, values of sensitive headers, locked values, expected values
 * of assertions on sensitive headers and JSONPaths, and credentials and sensitive parameters in URLs.
 */
export function definitionSecrets(
  definition: Readonly<Record<string, unknown>>,
  isSensitive: (name: string) => boolean,
): string[] {
  const found = new SecretSet()
  for (const { value } of ownSecrets(definition, isSensitive)) {
    if (value !== '') found.add(value)
    if (found.isOver) break
  }
  return [...found]
}

const isUsuallySensitive = createNameTest()

/** Reason and place of a secret that cannot be scrubbed; undefined for none. */
export function secretsProblem(
  definition: Readonly<Record<string, unknown>>,
): { path: Path; message: string } | undefined {
  const values = new SecretSet()
  for (const { value, path } of ownSecrets(definition, isUsuallySensitive)) {
    if (value.length > LIMITS.secretCharactersMax) return { path, message: SECRET_TOO_LONG }
    values.add(value)
  }
  if (values.size > LIMITS.definitionSecretsMax) {
    const message = `contains more than ${LIMITS.definitionSecretsMax} secret values; use fewer`
    return { path: [], message }
  }
  const { environmentVariables = [] } = definition as { environmentVariables?: Variable[] }
  for (const value of variableSecrets(environmentVariables)) values.add(value)
  if (!values.isOver) return undefined
  const message = `contains secrets of more than ${LIMITS.secretsCharactersMax} characters; use shorter ones`
  return { path: [], message }
}

/** The error text of a value over `secretCharactersMax`. */
export const SECRET_TOO_LONG = `a secret has at most ${LIMITS.secretCharactersMax} characters; use a shorter one`

/**
 * How much of the value of a sensitive name is looked at: more than a secret may have, also after a scheme or the
 * name of a cookie. UTF-16 units.
 */
export const NAMED_VALUE_CHARS_MAX = LIMITS.secretCharactersMax + 1024

type Path = (string | number)[]

interface FoundSecret {
  value: string
  path: Path
}

type Fields = Record<string, unknown>

type Find = (value: unknown, path: Path, isHidden?: boolean) => Generator<FoundSecret>

function* ownSecrets(
  definition: Readonly<Record<string, unknown>>,
  isSensitive: (name: string) => boolean,
): Generator<FoundSecret> {
  const find: Find = function* (value, path, isHidden = false) {
    if (typeof value === 'string')
      yield* isHidden ? parts(value, path) : urlParts(value, path, isSensitive)
    if (typeof value !== 'object' || value === null) return
    const isList = Array.isArray(value)
    if (!isList) yield* named(value as Fields, path, isSensitive)
    for (const [key, field] of Object.entries(value as Fields)) {
      const at = [...path, isList ? Number(key) : key]
      yield* find(field, at, isList ? isHidden : isSensitive(key))
    }
  }
  const { environmentVariables: _, ...own } = definition
  yield* find(own, [])
}

/**
 * A header or parameter `{key, value}`, a received `{header, value}`, an assertion `{property, target}`, or a user
 * without a password.
 */
function* named(
  { key, name, header, value, property, target, locked, username, password }: Fields,
  path: Path,
  isSensitive: (name: string) => boolean,
): Generator<FoundSecret> {
  const title = typeof key === 'string' ? key : name
  const isHidden = locked === true || (typeof title === 'string' && isSensitive(title))
  if (isHidden && typeof value === 'string') yield* parts(value, [...path, 'value'])
  if (typeof header === 'string' && typeof value === 'string' && isSensitive(header)) {
    for (const part of echoedSecrets(value)) yield { value: part, path }
  }
  if (typeof property === 'string' && typeof target === 'string') {
    if (isSecretOf(property, target, isSensitive)) yield* parts(target, [...path, 'target'])
  }
  if (typeof username !== 'string') return
  // The password is found by its name.
  for (const secret of secretsOf(username, typeof password === 'string' ? password : ''))
    if (secret !== password) yield { value: secret, path: [...path, 'username'] }
}

/** What the property of an assertion on a text has, but no name of a header. */
const REGULAR_EXPRESSION = /[()[\]{}*+?\\|^]/
/** A name in it with what separates it from a value. */
const NAMED = /([\w.-]{2,100})["'\\]{0,4}\s{0,4}[:=]/g

/**
 * Whether the value of a header or JSONPath, the property of an assertion, is a secret. Of a path the last name counts,
 * and numbers, short plain words and short values, which are JSON where they were found, are none.
 */
export function isSecretOf(
  property: string,
  value: unknown,
  isSensitive: (name: string) => boolean,
): boolean {
  if (REGULAR_EXPRESSION.test(property) && !property.startsWith('$'))
    return Array.from(property.matchAll(NAMED), ([, name = '']) => name).some(isSensitive)
  if (!property.startsWith('$')) return isSensitive(property)
  if (!lastNames(property).some((name) => isSensitive(name))) return false
  if (typeof value !== 'string') return true
  const text = value.replace(/^"(.*)"$/, '$1')
  return text.length >= ECHO_CHARS_MIN && !isShortWord(text) && !NUMBER.test(value)
}

const NUMBER = /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i

/** `access_token` of `$.data.access_token[*]`; the path itself where it cannot be read. */
function lastNames(path: string): string[] {
  try {
    const { segments } = compileJsonPath(path).query
    const names = segments.map(({ selectors }) =>
      selectors.flatMap((one) => (one.kind === 'name' ? one.name : [])),
    )
    return names.findLast((some) => some.length > 0) ?? []
  } catch {
    return [path]
  }
}

function* parts(value: string, path: Path): Generator<FoundSecret> {
  yield { value, path }
  for (const part of echoedSecrets(value)) yield { value: part, path }
}

/** Credentials of a URL, and its parameters of sensitive names, also in the fragment, as OAuth has them. */
function* urlParts(
  text: string,
  path: Path,
  isSensitive: (name: string) => boolean,
): Generator<FoundSecret> {
  if (!text.includes('://') || !/[@?#]/.test(text)) return
  for (const value of urlSecrets(text)) yield { value, path }
  const { search = '', hash = '', searchParams } = parseUrl(text) ?? {}
  // As they stand there, too: escapes may be no UTF-8.
  const written = [search, hash]
    .flatMap((one) => one.slice(1).split('&'))
    .map((one) => one.split(/=(.*)/s, 2))
  for (const [name = '', value = ''] of [...(searchParams ?? []), ...written])
    if (isSensitive(name)) yield { value, path }
}

/** Hosts after the first one, as URLs of MongoDB have them, which `URL` does not parse. */
const FURTHER_HOSTS = /^([^/?#]+:\/\/(?:[^@/?#]*@)?[^,/?#]+),[^@/?#]*(?=[/?#]|$)/

/** A URL, perhaps with several hosts; null for another text. */
export function parseUrl(text: string): URL | null {
  return URL.parse(text.replace(FURTHER_HOSTS, '$1'))
}

/** A user from this length on, next to a password that is a word such as `x-oauth-basic`, is a key. UTF-16 units. */
const KEY_CHARS_MIN = 16

/** The secret in the credentials of a URL, as it stands there and decoded; none where there are no credentials. */
export function urlSecrets(url: string): string[] {
  const { username = '', password = '' } = parseUrl(url) ?? {}
  return secretsOf(username, password).flatMap((part) => [part, decoded(part)])
}

/** The password, and a user that is a key: next to no password, a very short one as in `key:X`, or a word. */
function secretsOf(username: string, password: string): string[] {
  const isKey =
    password.length < SECRET_CHARS_MIN
      ? !PLAIN_WORD.test(username)
      : PLAIN_WORD.test(password) && username.length >= KEY_CHARS_MIN
  return [password, ...(isKey ? [username] : [])].filter((one) => one !== '')
}

/** `deleted`, `undefined`, `no-check`: settings, and what a program without its secret says. */
export const PLAIN_WORD = /^(?:[A-Z]?[a-z]+(?:[-_][a-z]+)*|[A-Z]+)$/

/** Length up to which a plain word is not searched for. */
const PLAIN_WORD_CHARS_MAX = 9

/** A plain word that occurs in ordinary text. */
export function isShortWord(text: string): boolean {
  return text.length <= PLAIN_WORD_CHARS_MAX && PLAIN_WORD.test(text)
}

/** A percent-decoded part of a URL; unchanged if the encoding is invalid. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** A parameter of credentials (RFC 9110, 11.4) that holds a secret; others are public, such as a realm. */
const SECRET_PARAMETER = /(?:token|key|secret|password|response|signature)\s*=\s*"?([^",;\s]+)/gi

/** Shorter values would match in ordinary text. */
const ECHO_CHARS_MIN = 6

/**
 * The secrets in the value of a sensitive header: the whole, what follows a scheme (`Bearer …`), the password of basic
 * authentication, parameters of other schemes (`Token token="…", …`); of several cookies, their values.
 */
export function headerSecrets(value: string): string[] {
  // A script may have given it an end of line.
  const scheme = /^([\w-]+)\s+(\S.*)$/s.exec(value.trim())
  const credentials = scheme?.[2] ?? ''
  const pairs = value.includes('=') ? cookieValues(value) : []
  const basic = scheme?.[1]?.toLowerCase() === 'basic' ? textOf(credentials) : ''
  const colon = basic.indexOf(':')
  const secrets = secretsOf(basic.slice(0, Math.max(0, colon)), basic.slice(colon + 1))
  const parameters = [...credentials.matchAll(SECRET_PARAMETER)].map((one) => one[1] as string)
  // Of cookies the values are enough: many sites change one with each answer.
  const isCookies = value.includes(';') && (pairs[0] ?? '').length >= ECHO_CHARS_MIN
  const whole = isCookies ? '' : value
  const cookies = pairs.filter((one) => !PREFERENCE.test(one))
  return [whole, credentials, ...secrets, ...parameters, ...cookies].filter(
    (one) => one.length >= ECHO_CHARS_MIN,
  )
}

/** What base64 holds, in UTF-8, or in Latin-1 as by `btoa`. */
function textOf(base64: string): string {
  const bytes = Buffer.from(base64, 'base64')
  return bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1')
}

/** The secrets of a header to search for elsewhere. */
export function echoedSecrets(value: string): string[] {
  const isBasic = /^basic\s/i.test(value)
  // What follows the first word of a sentence is no credentials, but for a single word, as in `Token abc`.
  const isSentence = SENTENCE.test(value)
  return headerSecrets(value).filter(
    (one) => isBasic || !(isOrdinary(one) || (isSentence && one.includes(' '))),
  )
}

/** Words alone, with anything between them. */
export const WORDS = /^(?:[a-z]{0,15}(?:[^A-Za-z\d]|$))*$/

/** A day, perhaps with a time. */
export const DATE = /^\d{4}-\d\d-\d\d(?:T[\d:.]*Z?)?$/

/** What sites keep in cookies, and have as texts under sensitive names, which is no secret. */
const USUAL = [
  DATE,
  /^\d{1,2}[-./](?:\d\d?|[A-Z][a-z]{2})[-./]\d{4}$/,
  // The date of a header (RFC 9110, 5.6.7).
  /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT$/,
  // Unix time from September 2020 to 2033, in seconds or milliseconds.
  /^1[6-9]\d{8}(?:\d{3}|\.\d{1,9})?$/,
  // A time zone.
  /^[A-Z][a-z]{1,15}(?:\/[A-Z][A-Za-z_]{1,30}){1,2}$/,
]

/** A sentence: words with a blank in front of a small letter, and two short numbers at most. */
const SENTENCE =
  /^(?=[A-Z][a-z]{0,15}[^A-Za-z\d])(?=.* [a-z])(?!(?:\D*\d{1,4}(?!\d)){3})(?:(?:[A-Z]?[a-z]{0,15}|\d{1,4})(?:[^A-Za-z\d]|$))*$/

/** The path of a page, perhaps after a host, without credentials: words, perhaps with a version. */
export const PAGE = /^(?:https?:\/\/[^/?#@]*|(?=\/))(?:[a-z]{0,15}\d{0,2}(?:[^A-Za-z\d@]|$))*$/
/** Texts, and what stands outside of them. */
const JSON_PARTS = /"(?:[^"\\]|\\.)*"|[\w.+-]+/g

/**
 * What occurs elsewhere anyway: short plain words, little but punctuation, dates and times, sentences. Also the path of
 * a page, which a login keeps in a cookie, and JSON of short values, such as `{"width":1280,"height":720}`.
 */
function isOrdinary(value: string): boolean {
  const plain = decoded(value)
  if (isShortOrPlain(plain) || [...USUAL, SENTENCE, PAGE].some((one) => one.test(plain)))
    return true
  const isJson = /^[[{]/.test(plain) && typeof jsonOf(plain) === 'object'
  return isJson && (plain.match(JSON_PARTS) ?? []).every(isShortOrPlain)
}

function isShortOrPlain(text: string): boolean {
  const words = text.match(/[\p{L}\p{N}]+/gu) ?? []
  return words.join('').length < ECHO_CHARS_MIN || isShortWord(words.join('-'))
}

/** Attributes of a cookie that is set (RFC 6265, 4.1.2), and what browsers and older servers add to these. */
const ATTRIBUTES = 'path|expires|max-age|domain|secure|httponly|samesite'
const [SET_COOKIE, ATTRIBUTE] = [
  new RegExp(`;\\s*(?:${ATTRIBUTES})\\b`, 'i'),
  new RegExp(`^(?:${ATTRIBUTES}|partitioned|priority|version|comment)$`, 'i'),
]

/** A cookie with a preference, such as `sort=description`: no session is as short and without a digit. */
export const PREFERENCE = /^[a-z]{1,15}$/

/**
 * Values of cookies, without the quotes around them. Programs join several headers that set one by ends of lines or
 * commas; a request may have cookies with the names of attributes.
 */
function cookieValues(header: string): string[] {
  const isSet = SET_COOKIE.test(header)
  const pieces = header.split(isSet ? /[;\n]|,(?=\s*[^\s=;,"]+=)/ : /[;\n]/)
  return pieces.flatMap((part) => {
    const [name = ''] = part.split('=', 1)
    const value = part.slice(part.indexOf('=') + 1).trim()
    return isSet && ATTRIBUTE.test(name.trim()) ? [] : [value.replace(/^"(.*)"$/, '$1')]
  })
}

/**
 * Warnings about secret variables that cannot be scrubbed by value, because they are so short that
 * they would be found everywhere. For validation.
 */
export function secretWarnings(variables: readonly Variable[]): string[] {
  return variables
    .filter(({ secret, value }) => secret && value !== '' && value.length < SECRET_CHARS_MIN)
    .map(
      (one) =>
        `the secret ${one.key} is shorter than ${SECRET_CHARS_MIN} characters, so that it cannot be found and ` +
        'scrubbed in results; use a longer one',
    )
}
