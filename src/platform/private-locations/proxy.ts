// The proxy of a location, whose password is stored and never shown.
import { SECRET_MASK } from '../../contract/api/resource.ts'

/** The URL with a mask in place of its password. */
export function maskedProxy(url: string): string {
  const parsed = new URL(url)
  return parsed.password === '' ? url : withPassword(parsed, SECRET_MASK)
}

/**
 * The URL with its mask replaced by the stored password; undefined without a stored password for the same
 * address.
 */
export function unmaskedProxy(url: string, stored: string | undefined): string | undefined {
  const parsed = new URL(url)
  if (parsed.password !== SECRET_MASK) return url
  const isSame = stored !== undefined && maskedProxy(stored) === withPassword(parsed, SECRET_MASK)
  return isSame ? stored : undefined
}

function withPassword(url: URL, password: string): string {
  const copy = new URL(url)
  copy.password = password
  return copy.href
}
