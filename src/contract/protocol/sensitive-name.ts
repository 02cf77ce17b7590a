// Which names of headers and fields belong to secrets. One list for all that must not show a secret, and
// for what must not carry one to somebody else.

/** Headers that are always scrubbed, in any case. */
const HEADERS: readonly string[] = [
  'authorization',
  'proxy-authorization',
  'cookie',
  'cookie2',
  'set-cookie',
  'set-cookie2',
  'x-api-key',
  'api-key',
  'x-auth-token',
  'x-access-token',
  'x-csrf-token',
  'x-xsrf-token',
  'x-amz-security-token',
  'x-goog-api-key',
  'x-auth',
  'x-authorization',
  'authentication',
  'x-functions-key',
  'x-session-id',
  'x-amzn-oidc-data',
  'x-forwarded-client-cert',
  'x-registry-auth',
]

/**
 * Parts that make any name a sensitive one, compared without `-`, `_` and case. What is left of a rate limit is a count,
 * and whether CORS allows credentials is a rule.
 */
const PARTS =
  /^(?!.*ratelimit|accesscontrolallowcredentials$).*(?:token|secret|passw(?:or)?d|passphrase|apikey|privatekey|credential|signature(?!algorithm)|jwt|(?:auth|access|application|account|encryption|signing|master|subscription)key$|authorization$|^(?:pwd|sig)$)/

/**
 * The same test as the source of a regular expression, for who cannot import this: it is for names in small letters
 * without `-`, `_`, `.` and blanks. Further names may match that are spelled with less of these.
 */
export function sensitiveNames(headers: readonly string[] = []): string {
  const listed = [...HEADERS, ...headers].map((name) => bare(name).replaceAll(/[^a-z0-9]/g, '.'))
  return `^(?:${listed.join('|')})$|${PARTS.source}`
}

const bare = (name: string) => name.toLowerCase().replaceAll(/[-_. ]/g, '')

/** Different names that are remembered; a server may answer with any number of them. */
const NAMES_MAX = 10_000

/** Detects sensitive names of headers and fields; caches its answers. */
export function createNameTest(headers: readonly string[] = []): (name: string) => boolean {
  const listed = new Set([...HEADERS, ...headers].map(bare))
  const known = new Map<string, boolean>()
  return (name) => {
    let sensitive = known.get(name)
    if (sensitive === undefined) {
      const plain = bare(name)
      sensitive = listed.has(plain) || PARTS.test(plain)
      if (known.size >= NAMES_MAX) known.clear()
      known.set(name, sensitive)
    }
    return sensitive
  }
}
