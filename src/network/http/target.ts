// One HTTP request, ready to send: destination and content. A monitor's first request is created once for its
// definition; requests after a redirect are created from it.
import { validateHeaderName, validateHeaderValue } from 'node:http'
import { decoded } from '../../contract/definition-secrets.ts'
import { VERSION } from '../../contract/versions.ts'
import { targetFailure } from '../target-failure.ts'
import type { Connection } from '../dial.ts'
import { ACCEPT_ENCODING } from './body.ts'
import type { Outgoing } from './exchange.ts'

export interface HttpTarget {
  url: URL
  /** Without credentials and fragment, for results. */
  shownUrl: string
  secure: boolean
  /** Application protocols to offer in the TLS handshake (ALPN). */
  alpn: string[]
  /** Without brackets. */
  host: string
  port: number
  /** Origin form. */
  path: string
  method: string
  /** Names and values in turn, without Host unless the user set it. */
  headers: readonly string[]
  /** The headers to send: the same with Host and the length of the body. */
  sentHeaders: readonly string[]
  body: Buffer | undefined
  /** Lower-case names of headers whose values are secret. */
  locked: ReadonlySet<string>
}

const USER_AGENT = `Vedette/${VERSION}`

const DEFAULTS: readonly (readonly [string, string])[] = [
  ['Accept', '*/*'],
  ['Accept-Encoding', ACCEPT_ENCODING],
  ['User-Agent', USER_AGENT],
]

export const HTTP1_ALPN = ['http/1.1']
const ALPN = ['h2', ...HTTP1_ALPN]

const NOTHING: ReadonlySet<string> = new Set()

/** The user's settings of a request besides its URL. */
export interface RequestParts {
  method: string
  headers?: readonly string[]
  body?: Buffer | undefined
  locked?: ReadonlySet<string>
}

/** Creates a target. Credentials in the URL become Basic authentication, unless a header replaces them. */
export function targetFor(url: URL, parts: RequestParts): HttpTarget {
  const headers = headersWhere(parts.headers ?? [], (name) => !FRAMING.test(name))
  const has = namesOf(headers)
  for (const [name, value] of DEFAULTS) {
    if (!has.has(name.toLowerCase())) headers.push(name, value)
  }
  if ((url.username !== '' || url.password !== '') && !has.has('authorization')) {
    headers.push('Authorization', basic(decoded(url.username), decoded(url.password)))
  }
  const sentHeaders = has.has('host') ? [...headers] : ['Host', url.host, ...headers]
  const { body } = parts
  if (body !== undefined) sentHeaders.push('Content-Length', String(body.length))
  const secure = url.protocol === 'https:'
  return {
    url,
    shownUrl: bareUrl(url),
    secure,
    // HTTP/2 cannot switch to another protocol.
    alpn: has.has('upgrade') ? HTTP1_ALPN : ALPN,
    host: url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname,
    port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
    path: url.pathname + url.search,
    method: parts.method,
    headers,
    sentHeaders,
    body,
    locked: parts.locked ?? NOTHING,
  }
}

/**
 * The request as it goes out on a connection, with a Cookie header. Where the connection leads to a proxy that
 * forwards requests, it has the absolute form and the proxy's credentials.
 */
export function outgoingOf(
  { method, body, path, shownUrl, sentHeaders }: HttpTarget,
  forward: Connection['forward'],
  cookie?: string,
): Outgoing {
  const own = cookie === undefined ? sentHeaders : withCookie(sentHeaders, cookie)
  if (forward === undefined) return { method, path, headers: own, body }
  const { authorization } = forward
  const headers = authorization === undefined ? own : [...own, 'Proxy-Authorization', authorization]
  return { method, path: shownUrl, headers, body }
}

/** One Cookie header (RFC 6265, 5.4): cookies of the user, then those of the jar. */
function withCookie(headers: readonly string[], cookie: string): string[] {
  const at = headers.findIndex((name, index) => index % 2 === 0 && /^cookie$/i.test(name))
  return at < 0
    ? [...headers, 'Cookie', cookie]
    : headers.with(at + 1, `${headers[at + 1]}; ${cookie}`)
}

/** The value of a Basic Authorization header (RFC 7617), in UTF-8. */
export function basic(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

/** The URL as text without user name, password and fragment. */
export function bareUrl(url: URL): string {
  if (url.username === '' && url.password === '' && url.hash === '') return url.href
  const bare = new URL(url)
  bare.username = ''
  bare.password = ''
  bare.hash = ''
  return bare.href
}

export function namesOf(headers: readonly string[]): Set<string> {
  return new Set(headers.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase()))
}

/** The headers, names and values in turn, with the names that pass. */
export function headersWhere(
  headers: readonly string[],
  passes: (name: string) => boolean,
): string[] {
  return headers.filter((_, at) => passes(headers[at - (at % 2)] as string))
}

/** Not those of a user: a wrong length would only hang the exchange. */
const FRAMING = /^(content-length|transfer-encoding)$/i

/** What is a name (RFC 9110, 5.6.2): a whole header that was given as its name has its value behind it. */
const NAME_BEGINNING = /^[\w!#$%&'*+.^`|~-]*/

/** Headers and credentials as a monitor's definition has them. */
export interface RequestFields {
  headers: readonly { key: string; value: string }[]
  basicAuth?: { username: string; password: string } | null | undefined
}

/**
 * Names and values in turn; an Authorization of the user wins over `basicAuth`. Throws a TargetFailure
 * (SETTINGS_INVALID) for a header that HTTP cannot carry, which names the header and never its value.
 */
export function headersOf({ headers: pairs, basicAuth }: RequestFields): string[] {
  const headers = pairs.flatMap(({ key, value }) => {
    try {
      validateHeaderName(key)
      validateHeaderValue(key, value)
    } catch {
      const header = NAME_BEGINNING.exec(key)?.[0] ?? ''
      const message = `the header ${JSON.stringify(header)} has a character that HTTP does not allow`
      throw targetFailure('SETTINGS_INVALID', message, { header })
    }
    return [key, value]
  })
  const { username = '', password = '' } = basicAuth ?? {}
  const hasCredentials = username !== '' || password !== ''
  if (hasCredentials && !namesOf(headers).has('authorization')) {
    headers.push('Authorization', basic(username, password))
  }
  return headers
}
