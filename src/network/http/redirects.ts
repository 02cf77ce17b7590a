// The next request after a redirect, as browsers make it (Fetch standard, 4.4), and the cookies carried to it.
import type { CookieJar } from 'tough-cookie'
import { excerpt } from '../../contract/failure.ts'
import type { ResponseHead } from './exchange.ts'
import { bareUrl, headersWhere, type HttpTarget, targetFor } from './target.ts'
import { targetFailure } from '../target-failure.ts'

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

export function isRedirect(statusCode: number): boolean {
  return REDIRECTS.has(statusCode)
}

/**
 * The target that the answer redirects to. Throws a TargetFailure (HTTP_REDIRECT_INVALID) when it names
 * none that can be followed.
 */
export function redirectTarget(from: HttpTarget, response: ResponseHead): HttpTarget {
  const statusCode = response.statusCode as number
  const { location } = response.headers
  if (location === undefined || location === '') {
    throw targetFailure('HTTP_REDIRECT_INVALID', `status ${statusCode} came without a Location`)
  }
  const url = locationOf(from, response)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    const shown = url === null ? excerpt(location, 200) : `${url.protocol} address`
    throw targetFailure('HTTP_REDIRECT_INVALID', `cannot follow a redirect to ${shown}`, {
      from: bareUrl(from.url),
    })
  }
  const asGet =
    (statusCode === 303 && from.method !== 'HEAD') ||
    ((statusCode === 301 || statusCode === 302) && from.method === 'POST')
  const method = asGet ? 'GET' : from.method
  const body = asGet ? undefined : from.body
  const headers = carriedOver(from, url, asGet)
  return targetFor(url, { method, headers, body, locked: from.locked })
}

/** The URL of the header `Location`; null without one that is valid. */
export function locationOf(from: HttpTarget, { headers }: ResponseHead): URL | null {
  if (headers.location === undefined) return null
  // Header bytes are read as Latin-1; servers that do not escape write UTF-8.
  return URL.parse(Buffer.from(headers.location, 'latin1').toString(), from.url.href)
}

const ABOUT_THE_BODY = /^(content-.*|transfer-encoding)$/i

/**
 * The only headers that are sent to another origin. No list of secret names can be complete: any other header is
 * for the original origin alone.
 */
const HARMLESS: ReadonlySet<string> = new Set([
  'accept',
  'accept-charset',
  'accept-encoding',
  'accept-language',
  'cache-control',
  'content-encoding',
  'content-language',
  'content-type',
  'pragma',
  'user-agent',
])

/** The headers for the next request: none on a dropped body, no secrets to another origin. */
function carriedOver(
  { url, headers, locked }: HttpTarget,
  to: URL,
  withoutBody: boolean,
): string[] {
  const sameOrigin = url.origin === to.origin
  return headersWhere(headers, (name) => {
    if (withoutBody && ABOUT_THE_BODY.test(name)) return false
    return sameOrigin || !isBoundToOrigin(name, locked)
  })
}

function isBoundToOrigin(name: string, locked: ReadonlySet<string>): boolean {
  const lower = name.toLowerCase()
  return !HARMLESS.has(lower) || locked.has(lower)
}

// Further cookies of an answer are ignored.
const COOKIES_MAX = 50

/**
 * Carries cookies across the redirects of one run; the package is loaded with the first one. Cookies that are not
 * valid are ignored, as RFC 6265 requires; `Secure` ones take TLS, on loopback as well.
 */
export class Cookies {
  #jar: CookieJar | undefined

  async store(setCookie: readonly string[], url: string): Promise<void> {
    const { CookieJar: Jar } = await import('tough-cookie')
    this.#jar ??= new Jar(undefined, { allowSecureOnLocal: false })
    for (const cookie of setCookie.slice(0, COOKIES_MAX)) {
      this.#jar.setCookieSync(cookie, url, { ignoreError: true })
    }
  }

  /** The Cookie header for a URL; undefined when there is none. */
  headerFor(url: string): string | undefined {
    const header = this.#jar?.getCookieStringSync(url)
    return header === '' ? undefined : header
  }
}
