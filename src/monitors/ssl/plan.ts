// Plan of an SSL monitor, computed once for all its runs.
import { domainToASCII } from 'node:url'
import { isIP } from 'node:net'
import type { Assertion } from '../../contract/assertion.ts'
import type { SslConfig, SslMonitor } from './definition.ts'
import type { TlsSettings } from '../../contract/tls.ts'
import type { Family } from '../../network/dial.ts'

/** A definition, ready to be run. */
export interface SslPlan {
  host: string
  port: number
  family: Family
  /** Name for SNI and verification, in its ASCII form. */
  name: string
  config: SslConfig
  /** Without `serverName`; see `name`. */
  tls: TlsSettings | undefined
  alpn: string[] | undefined
  assertions: readonly Assertion[]
  maxResponseTime: number
}

const ALPN_OF_HTTPS = ['h2', 'http/1.1']

/** Common plan of all attempts of a monitor. */
export function makePlan({ request, maxResponseTime }: SslMonitor): SslPlan {
  const { sslConfig: config, tls } = request
  const { hostname, port, alpnProtocols } = config
  const { serverName, ...rest } = tls ?? {}
  const offered = alpnProtocols ?? (port === 443 ? ALPN_OF_HTTPS : [])
  return {
    host: hostname,
    port,
    family: config.ipFamily,
    name: asciiName(config.serverName ?? serverName ?? hostname),
    config,
    tls: Object.keys(rest).length === 0 ? undefined : rest,
    alpn: offered.length === 0 ? undefined : offered,
    assertions: request.assertions,
    maxResponseTime,
  }
}

/** Certificates contain names in ASCII form, without a dot at the end (RFC 9525, 6.3). */
function asciiName(name: string): string {
  const bare = name.replace(/^\[|\]$|\.$/g, '')
  return isIP(bare) === 0 ? domainToASCII(bare) || bare : bare
}
