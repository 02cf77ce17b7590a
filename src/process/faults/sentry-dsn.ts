// Sentry's DSN: an address that contains the receiver, the project and the key of fault reports.

export interface SentryDsn {
  /** Base address of the receiver, without a final slash. */
  baseUrl: string
  /** Below it: where envelopes are posted. */
  path: string
  /** The public key, which is all that a receiver asks for. */
  key: string
}

const FORM = 'a DSN of Sentry: https://key@host/project'
const FIX = 'copy it from the project’s settings, Client Keys'

/**
 * Parses a DSN: `{protocol}://{key}@{host}{path}/{project}`, as Sentry's SDKs read it; a second,
 * secret key, which no receiver asks for any more, is ignored. Undefined when it is none.
 */
export function parseDsn(text: string): SentryDsn | undefined {
  const url = URL.parse(text)
  if (url === null || !['https:', 'http:'].includes(url.protocol)) return undefined
  const [, prefix = '', project = ''] =
    /^((?:\/[^/]+)*)\/([A-Za-z0-9_-]+)$/.exec(url.pathname) ?? []
  const isWhole = /^[A-Za-z0-9._~-]+$/.test(url.username) && url.hostname !== '' && project !== ''
  if (!isWhole || url.search !== '' || url.hash !== '') return undefined
  const baseUrl = `${url.protocol}//${url.host}${prefix}`
  return { baseUrl, path: `/api/${project}/envelope/`, key: url.username }
}

/** The problem of a DSN, without quoting it; undefined when it is valid. */
export function dsnProblem(text: string): { allowed: string; fix: string } | undefined {
  return parseDsn(text) === undefined ? { allowed: FORM, fix: FIX } : undefined
}
