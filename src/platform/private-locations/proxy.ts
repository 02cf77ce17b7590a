// The proxy of a location, whose password is kept and never shown.
import { SECRET_MASK } from '../../contract/api/resource.ts'

/** The URL with a mask in place of its password. */
export function maskedProxy(url: string): string {
  const parsed = new URL(url)
  return parsed.password === '' ? url : withPassword(parsed, SECRET_MASK)
}

/**
 * The URL with the password that its mask stands for; undefined when it stands for none, or for that of
 * another address.
 */
export function unmaskedProxy(url: string, kept: string | undefined): string | undefined {
  const parsed = new URL(url)
  if (parsed.password !== SECRET_MASK) return url
  const isSame = kept !== undefined && maskedProxy(kept) === withPassword(parsed, SECRET_MASK)
  return isSame ? kept : undefined
}

function withPassword(url: URL, password: string): string {
  const copy = new URL(url)
  copy.password = password
  return copy.href
}
