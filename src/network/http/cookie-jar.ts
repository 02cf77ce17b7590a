// Cookies of one run, carried from hop to hop. The jar is loaded only when a redirect sets a cookie.
import type { CookieJar } from 'tough-cookie'

/** Carries cookies across the redirects of one run. */
export interface Cookies {
  store(setCookie: readonly string[], url: string): Promise<void>
  /** The Cookie header for a URL; undefined when there is none. */
  headerFor(url: string): string | undefined
}

// Further cookies of an answer are ignored.
const COOKIES_MAX = 50

/** An empty jar. Cookies that are not valid are ignored, as RFC 6265 requires. */
export function createCookies(): Cookies {
  let jar: CookieJar | undefined
  return {
    async store(setCookie, url) {
      if (jar === undefined) {
        const tough = await import('tough-cookie')
        jar = new tough.CookieJar()
      }
      for (const cookie of setCookie.slice(0, COOKIES_MAX)) {
        jar.setCookieSync(cookie, url, { ignoreError: true })
      }
    },
    headerFor(url) {
      const header = jar?.getCookieStringSync(url)
      return header === '' ? undefined : header
    },
  }
}
