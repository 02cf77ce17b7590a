// From a name to addresses, as the system would do it (hosts file, search domains, name servers of
// resolv.conf) but without getaddrinfo's thread pool, which a few dead names would block for everybody.
import { lookup, Resolver as StubResolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import type { FailureCode } from '../../contract/failure.ts'
import { placeOf } from '../connect-errors.ts'
import { untilAborted } from '../deadline.ts'
import type { Family } from '../dial.ts'
import { literalOf, nameOf } from '../ip-address.ts'
import { systemNameServers, type NameServers } from './name-servers.ts'
import { parseResolvConf, RESOLV_CONF, type ResolvConf } from './resolv-conf.ts'
import { targetFailure } from '../target-failure.ts'
import { watchedFile } from '../watched-file.ts'

export interface Resolver {
  /**
   * Addresses of the host, at least one, in their original order. A literal resolves to itself, regardless of
   * `family`. Rejects with TargetFailure (DNS_…, RESOLVER_UNREACHABLE,
   * NETWORK_UNREACHABLE), or the signal's reason.
   */
  resolve(host: string, family: Family, signal: AbortSignal): Promise<Addresses>
}

export type Addresses = [string, ...string[]]

export interface ResolverSettings {
  /** Ask getaddrinfo, with all that nsswitch.conf names, instead of the name servers. */
  useOsResolver: boolean
  hostsFile?: string
  resolvConf?: string
  /** Instead of those of the system. */
  nameServers?: NameServers
}

/** Creates the resolver. It has no open connections and needs no closing. */
export function createResolver(settings: ResolverSettings): Resolver {
  const hosts = watchedFile(settings.hostsFile ?? '/etc/hosts', parseHosts)
  const known = settings.nameServers ?? systemNameServers
  const ask = settings.useOsResolver ? osResolver(known) : nameServers(settings, known)
  return {
    async resolve(host, family, signal) {
      signal.throwIfAborted()
      const literal = literalOf(host)
      if (literal !== undefined) return [literal]
      const name = nameOf(host)
      if (name === undefined) throw dnsFailure('EBADNAME', host, family)
      const local = knownAddresses(name, family, hosts())
      if (local !== undefined) return local
      // The query itself ends by its own time-outs.
      return known.ask(() => untilAborted(ask(name, family), signal), signal)
    },
  }
}

/** Name → addresses of the hosts file. */
type Hosts = ReadonlyMap<string, readonly string[]>

function parseHosts(text: string): Hosts {
  const hosts = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    if (isIP(address) === 0) continue
    for (const name of names) {
      const key = name.toLowerCase()
      const addresses = hosts.get(key)
      if (addresses === undefined) hosts.set(key, [address])
      else addresses.push(address)
    }
  }
  return hosts
}

function knownAddresses(name: string, family: Family, hosts: Hosts): Addresses | undefined {
  const bare = name.endsWith('.') ? name.slice(0, -1) : name
  const version = family === 'IPv4' ? 4 : 6
  const found = hosts.get(bare)?.filter((address) => isIP(address) === version) ?? []
  if (found.length > 0) return found as Addresses
  // RFC 6761: such names never go to a name server.
  if (bare !== 'localhost' && !bare.endsWith('.localhost')) return undefined
  return [family === 'IPv4' ? '127.0.0.1' : '::1']
}

type Ask = (name: string, family: Family) => Promise<Addresses>

/** With getaddrinfo, only a success and ENOTFOUND prove that a server has answered. */
function osResolver(known: NameServers): Ask {
  return async (name, family) => {
    const options = { family: family === 'IPv4' ? 4 : 6, all: true, order: 'verbatim' } as const
    let reason = 'ENODATA'
    try {
      const found = await lookup(name, options)
      known.noteAnswer()
      if (found.length > 0) return found.map(({ address }) => address) as Addresses
    } catch (error) {
      reason = (error as NodeJS.ErrnoException).code ?? ''
      if (reason === 'ENOTFOUND') known.noteAnswer()
    }
    throw dnsFailure(reason, name, family)
  }
}

function nameServers(settings: ResolverSettings, known: NameServers): Ask {
  const load = (text: string) => {
    const conf = parseResolvConf(text)
    const servers = new StubResolver({ timeout: conf.timeoutMs, tries: conf.attempts })
    if (settings.nameServers !== undefined) {
      servers.setServers(known.servers.map(({ address, port }) => placeOf(address, port)))
    }
    return { conf, servers }
  }
  const current = watchedFile(settings.resolvConf ?? RESOLV_CONF, load)
  return async (name, family) => {
    const { conf, servers } = current()
    let worst = 'ENOTFOUND'
    for (const candidate of candidates(name, conf)) {
      const answer = await query(servers, candidate, family)
      if (typeof answer !== 'string' || !UNANSWERED.has(answer)) known.noteAnswer()
      if (typeof answer !== 'string') return answer
      if (SERVER_UNRESPONSIVE.has(answer)) throw dnsFailure(answer, name, family)
      // ENODATA has precedence over ENOTFOUND; errors of servers are in between.
      if ((WEIGHT[answer] ?? 1) > (WEIGHT[worst] ?? 1)) worst = answer
    }
    throw dnsFailure(worst, name, family)
  }
}

/** The names to ask for, in order (resolv.conf(5), `search` and `ndots`). */
function* candidates(name: string, conf: ResolvConf): Generator<string> {
  if (name.endsWith('.')) {
    yield name.slice(0, -1)
    return
  }
  const dots = name.split('.').length - 1
  if (dots >= conf.ndots) yield name
  for (const domain of conf.search) {
    if (domain !== '' && name.length + domain.length < 253) yield `${name}.${domain}`
  }
  if (dots < conf.ndots) yield name
}

/** The addresses, or the code of the error. */
async function query(
  servers: StubResolver,
  name: string,
  family: Family,
): Promise<Addresses | string> {
  try {
    const asking = family === 'IPv4' ? servers.resolve4(name) : servers.resolve6(name)
    const addresses = await asking
    return addresses.length > 0 ? (addresses as Addresses) : 'ENODATA'
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? ''
  }
}

const WEIGHT: Record<string, number> = { ENOTFOUND: 0, EBADNAME: 0, ENODATA: 2 }
const SERVER_UNRESPONSIVE: ReadonlySet<string> = new Set(['ETIMEOUT', 'ECONNREFUSED', 'ECANCELLED'])
/** No usable answer, or no question sent. */
const UNANSWERED: ReadonlySet<string> = new Set([...SERVER_UNRESPONSIVE, 'EREFUSED', 'EBADNAME'])

const CODES: Record<string, FailureCode> = {
  ENOTFOUND: 'DNS_NOT_FOUND',
  EBADNAME: 'DNS_NOT_FOUND',
  ENODATA: 'DNS_NO_ADDRESS',
  ENOMEM: 'RESOURCES_EXHAUSTED',
  EAI_MEMORY: 'RESOURCES_EXHAUSTED',
  EMFILE: 'RESOURCES_EXHAUSTED',
  ENFILE: 'RESOURCES_EXHAUSTED',
}

function dnsFailure(reason: string, host: string, family: Family) {
  const code = CODES[reason] ?? 'DNS_SERVER_FAILED'
  const record = family === 'IPv4' ? 'A' : 'AAAA'
  const sentences: Partial<Record<FailureCode, string>> = {
    DNS_NOT_FOUND: `the name ${host} does not exist`,
    DNS_NO_ADDRESS: `the name ${host} has no ${family} address (${record} record)`,
    DNS_SERVER_FAILED: `the name servers gave no answer for ${host} (${reason})`,
  }
  return targetFailure(code, sentences[code] ?? `the name ${host} could not be looked up`, {
    host,
    family,
    reason,
  })
}
