// Probes the system's name servers one by one, with the platform's name and the search domains, or else with the
// root, which every name server knows.
import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import type { AgentConfig } from '../../agent/config.ts'
import { DNS_PORTS } from '../../contract/dns/parameters.ts'
import { parseResolvConf, RESOLV_CONF, type ResolvConf } from '../../network/dns/resolv-conf.ts'
import type { Finding } from './finding.ts'

export interface NameServersOptions {
  config: Pick<AgentConfig, 'platformUrl'>
  signal: AbortSignal
  /** Replaces resolv.conf; a server is `address` or `address:port`. */
  resolv?: Pick<ResolvConf, 'servers' | 'search' | 'ndots'>
  /** Monitored hosts and URLs, whose names a server is asked for that refuses the other questions. */
  monitoredHosts?: () => Promise<string[]>
}

/** Monitored hosts that a server is asked for. */
const HOSTS_MAX = 3
const TRY_MS = 2000
const TRIES = 2

const REFUSED = 'EREFUSED'
/** Code of c-ares for a closed port, and also for a server without a route. */
const CONNECTION_REFUSED = 'ECONNREFUSED'

/** Problems by the error code of c-ares; all other errors are answers. */
const PROBLEMS: Readonly<Record<string, string>> = {
  ETIMEOUT: 'silent',
  [CONNECTION_REFUSED]: 'refuses the connection',
  ECANCELLED: 'silent',
  EBADRESP: 'sends invalid answers',
  [REFUSED]: 'refuses to answer',
}

/** Probes each of the name servers. */
export async function probeNameServers(options: NameServersOptions): Promise<Finding[]> {
  const resolv = options.resolv ?? parseResolvConf(await resolvConf())
  const questions = questionsFor(nameIn(options.config.platformUrl), resolv)
  const asked = await askAll(resolv.servers, questions, options)
  const failing = asked.filter(({ problem }) => problem !== undefined)
  const problems = failing.map(({ server, problem }) => `${server} ${problem}`).join(', ')
  const facts = { servers: asked }
  if (failing.length === 0) {
    const says = asked.map(({ server, ms }) => `${server} (${ms} ms)`).join(', ')
    return [{ id: 'dns', standing: 'works', says, facts }]
  }
  const isOff = failing.every(({ problem }) => problem === NO_ROUTE)
  const fix = isOff ? NETWORK_FIX : SERVERS_FIX
  if (failing.length === asked.length)
    return [{ id: 'dns', standing: 'broken', says: problems, fix, facts }]
  return [{ id: 'dns', standing: 'warning', says: `${problems}; the others answer`, fix, facts }]
}

const NETWORK_FIX =
  'connect this machine to them  (docker run --network, or a route: ip route add default via <router>)'
const SERVERS_FIX =
  'set other name servers  (docker run --dns, dnsConfig of the pod, or /etc/resolv.conf)'

function resolvConf(): Promise<string> {
  // Without the file, the system queries a server on this machine.
  return readFile(RESOLV_CONF, 'utf8').catch(() => '')
}

/** The host name in a URL, or alone; undefined for IP addresses and what a variable stands for. */
function nameIn(address = ''): string | undefined {
  const host = URL.parse(address)?.hostname ?? address
  const isName = /^[\w.-]+$/.test(host) && isIP(host) === 0
  return isName && host !== 'localhost' ? host : undefined
}

interface Question {
  name: string
  type: 'A' | 'NS'
}

/**
 * Questions to try until a server does not refuse one: a server without internet access, as in a cluster, answers
 * for its own domains alone. `svc.namespace` belongs to these only with the search domains of the system.
 */
function questionsFor(
  name: string | undefined,
  { search, ndots }: Pick<ResolvConf, 'search' | 'ndots'>,
): Question[] {
  if (name === undefined)
    return ['.', ...search.filter(Boolean)].map((one) => ({ name: one, type: 'NS' }))
  const longer = name.endsWith('.') ? [] : search.map((domain) => `${name}.${domain}`)
  const isLong = name.split('.').length > ndots
  const names = isLong ? [name, ...longer] : [...longer, name]
  return names.map((one) => ({ name: one, type: 'A' }))
}

/** An authoritative server refuses all names but those of its own zones. */
async function askAll(
  servers: readonly string[],
  questions: readonly Question[],
  { signal, monitoredHosts }: NameServersOptions,
): Promise<ServerState[]> {
  const asked = await Promise.all(servers.map((one) => ask(one, questions, signal)))
  const isRefused = ({ problem }: ServerState) => problem === PROBLEMS[REFUSED]
  const hosts = asked.some(isRefused) ? ((await monitoredHosts?.()) ?? []) : []
  const names = new Set(hosts.flatMap((one) => nameIn(one) ?? []))
  if (names.size === 0) return asked
  const own = [...names].slice(0, HOSTS_MAX).map((name): Question => ({ name, type: 'A' }))
  const again = (one: ServerState) =>
    isRefused(one) ? ask(one.server, own, signal) : Promise.resolve(one)
  return Promise.all(asked.map(again))
}

interface ServerState {
  server: string
  ms: number
  problem?: string
}

async function ask(
  server: string,
  questions: readonly Question[],
  signal: AbortSignal,
): Promise<ServerState> {
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES })
  resolver.setServers([isIP(server) === 6 ? `[${server}]` : server])
  const onAbort = () => resolver.cancel()
  signal.addEventListener('abort', onAbort, { once: true })
  const since = performance.now()
  let code: string | undefined
  for (const { name, type } of questions) {
    code = await resolver.resolve(name, type).then(
      () => undefined,
      (error: NodeJS.ErrnoException) => error.code,
    )
    if (code !== REFUSED) break
  }
  signal.removeEventListener('abort', onAbort)
  const ms = Math.round(performance.now() - since)
  const isOff = code === CONNECTION_REFUSED && !(await hasRouteTo(server))
  const problem = isOff ? NO_ROUTE : PROBLEMS[code ?? '']
  return { server, ms, ...(problem !== undefined && { problem }) }
}

const NO_ROUTE = 'has no route from this machine'

/** Whether the kernel has a route; nothing is sent. */
function hasRouteTo(server: string): Promise<boolean> {
  const address = isIP(server) === 0 ? server.replace(/^\[?(.*?)\]?:\d+$/, '$1') : server
  const socket = createSocket(isIP(address) === 6 ? 'udp6' : 'udp4')
  return new Promise<boolean>((resolve) => {
    socket.once('error', () => resolve(false))
    socket.once('connect', () => resolve(true))
    socket.connect(DNS_PORTS.UDP, address)
  }).finally(() => socket.close())
}
