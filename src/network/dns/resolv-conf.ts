// The system's settings for name servers, resolv.conf(5).
import { isIP } from 'node:net'
import { LIMITS } from '../../contract/versions.ts'

export const RESOLV_CONF = '/etc/resolv.conf'

/** The settings in use, with the limits and defaults of the manual page. */
export interface ResolvConf {
  /** Addresses, in the order in which they are asked; this host where none is named. */
  servers: readonly string[]
  search: readonly string[]
  ndots: number
  timeoutMs: number
  attempts: number
}

/** Parses the text; never throws, ignores unknown lines. */
export function parseResolvConf(text: string): ResolvConf {
  const servers: string[] = []
  const conf = { servers, search: [] as string[], ndots: 1, timeoutMs: 5000, attempts: 2 }
  for (const line of text.split('\n')) {
    const [keyword, ...values] = line
      .replace(/[#;].*/, '')
      .trim()
      .split(/\s+/)
    if (keyword === 'nameserver' && isIP(values[0] ?? '') !== 0) servers.push(values[0] as string)
    if (keyword === 'search' || keyword === 'domain') {
      conf.search = values.slice(0, 32).map((domain) => domain.replace(/\.$/, '').toLowerCase())
    }
    if (keyword !== 'options') continue
    for (const option of values) {
      const [key, value] = option.split(':')
      const number = Number(value)
      if (!Number.isInteger(number) || number < 0) continue
      if (key === 'ndots') conf.ndots = Math.min(15, number)
      if (key === 'timeout') conf.timeoutMs = Math.min(30, Math.max(1, number)) * 1000
      if (key === 'attempts') conf.attempts = Math.min(5, Math.max(1, number))
    }
  }
  servers.splice(LIMITS.nameServersMax)
  if (servers.length === 0) servers.push('127.0.0.1')
  return conf
}
