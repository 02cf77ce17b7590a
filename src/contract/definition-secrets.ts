// Finds the secrets that a definition contains: agents scrub them from results, and a definition with too many or
// too long ones is refused.
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
 * of assertions on sensitive headers, and credentials in URLs.
 */
export function definitionSecrets(
  definition: Readonly<Record<string, unknown>>,
  isSensitive: (name: string) => boolean,
): string[] {
  const found = new SecretSet()
  for (const { value } of ownSecrets(definition, isSensitive)) if (value !== '') found.add(value)
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
  if (values.size <= LIMITS.definitionSecretsMax && !values.isOver) return undefined
  const message =
    values.size > LIMITS.definitionSecretsMax
      ? `contains more than ${LIMITS.definitionSecretsMax} secret values; use fewer`
      : `contains secrets of more than ${LIMITS.secretsCharactersMax} characters; use shorter ones`
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

type Find = (value: unknown, path: Path, isHidden?: boolean) => Generator<FoundSecret>

function* ownSecrets(
  definition: Readonly<Record<string, unknown>>,
  isSensitive: (name: string) => boolean,
): Generator<FoundSecret> {
  const find: Find = function* (value, path, isHidden = false) {
    if (typeof value === 'string')
      yield* isHidden ? parts(value, path) : urlCredentials(value, path)
    if (typeof value !== 'object' || value === null) return
    const isList = Array.isArray(value)
    if (!isList) yield* named(value as Record<string, unknown>, path, isSensitive)
    for (const [key, field] of Object.entries(value as Record<string, unknown>)) {
      const at = [...path, isList ? Number(key) : key]
      yield* find(field, at, isList ? isHidden : isSensitive(key))
    }
  }
  const { environmentVariables: _, ...own } = definition
  yield* find(own, [])
}

/** A header or parameter `{key, value}`, or an assertion `{property, target}`. */
function* named(
  { key, name, value, property, target, locked }: Record<string, unknown>,
  path: Path,
  isSensitive: (name: string) => boolean,
): Generator<FoundSecret> {
  const title = typeof key === 'string' ? key : name
  const isHidden = locked === true || (typeof title === 'string' && isSensitive(title))
  if (isHidden && typeof value === 'string') yield* parts(value, [...path, 'value'])
  const isExpected = typeof property === 'string' && isSensitive(property)
  if (isExpected && typeof target === 'string') yield* parts(target, [...path, 'target'])
}

function* parts(value: string, path: Path): Generator<FoundSecret> {
  yield { value, path }
  for (const part of headerSecrets(value)) yield { value: part, path }
}

function* urlCredentials(text: string, path: Path): Generator<FoundSecret> {
  if (!text.includes('@') || !text.includes('://')) return
  const { username = '', password = '' } = URL.parse(text) ?? {}
  const part = password === '' ? username : password
  yield { value: part, path }
  yield { value: decoded(part), path }
}

/** A percent-decoded part of a URL; unchanged if the encoding is invalid. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** Shorter values would match in ordinary text. */
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

function isSetCookie(value: string): boolean {
  return /;\s*(?:path|expires|max-age|domain|secure|httponly|samesite)\b/i.test(value)
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
