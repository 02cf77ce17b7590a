// Whether the system's name servers answer. Each is asked alone, for the platform's name as the system completes
// it, or else for what every name server knows of: the root.
import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import type { AgentConfig } from '../../agent/config.ts'
import { DNS_PORTS } from '../../contract/dns/ports.ts'
import { parseResolvConf, RESOLV_CONF, type ResolvConf } from '../../network/dns/resolv-conf.ts'
import type { Finding } from './finding.ts'
import type { Fixes } from './fixes.ts'

/** What to ask whom. */
export interface NameServersOrder {
  config: Pick<AgentConfig, 'platformUrl'>
  fixes: Fixes
  signal: AbortSignal
  /** In place of those of resolv.conf; a server is `address` or `address:port`. */
  resolv?: Pick<ResolvConf, 'servers' | 'search' | 'ndots'>
}

const TRY_MS = 2000
const TRIES = 2

const REFUSED = 'EREFUSED'
/** What c-ares says as well where there is no way to the server at all. */
const NOBODY = 'ECONNREFUSED'

/** What an error of c-ares says of a server that gave no answer; all others are answers. */
const SILENT: Readonly<Record<string, string>> = {
  ETIMEOUT: 'silent',
  [NOBODY]: 'refuses the connection',
  ECANCELLED: 'silent',
  EBADRESP: 'answers what is no answer',
  [REFUSED]: 'refuses to answer',
}

/** Looks at each of the name servers. */
export async function probeNameServers(order: NameServersOrder): Promise<Finding[]> {
  const resolv = order.resolv ?? parseResolvConf(await resolvConf())
  const questions = questionsFor(nameIn(order.config.platformUrl), resolv)
  const asked = await Promise.all(resolv.servers.map((one) => ask(one, questions, order.signal)))
  const mute = asked.filter(({ problem }) => problem !== undefined)
  const words = mute.map(({ server, problem }) => `${server} ${problem}`).join(', ')
  const facts = { servers: asked }
  if (mute.length === 0) {
    const says = asked.map(({ server, ms }) => `${server} (${ms} ms)`).join(', ')
    return [{ id: 'dns', standing: 'works', says, facts }]
  }
  const isOff = mute.every(({ problem }) => problem === NO_WAY)
  const fix = isOff ? order.fixes.network() : order.fixes.nameServers()
  if (mute.length === asked.length)
    return [{ id: 'dns', standing: 'broken', says: words, fix, facts }]
  return [{ id: 'dns', standing: 'warning', says: `${words}; the others answer`, fix, facts }]
}

function resolvConf(): Promise<string> {
  // Where there is none, the system asks this machine.
  return readFile(RESOLV_CONF, 'utf8').catch(() => '')
}

function nameIn(platformUrl: string | undefined): string | undefined {
  const host = URL.parse(platformUrl ?? '')?.hostname.replace(/^\[|\]$/g, '')
  return host === undefined || isIP(host) !== 0 || host === 'localhost' ? undefined : host
}

interface Question {
  name: string
  type: 'A' | 'NS'
}

/**
 * What to ask until a server does not refuse it: one without the internet answers for its own domains alone, as
 * a cluster's does. `svc.namespace` is such a name only with the domains that the system searches.
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

interface Asked {
  server: string
  ms: number
  problem?: string
}

async function ask(
  server: string,
  questions: readonly Question[],
  signal: AbortSignal,
): Promise<Asked> {
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
  const isOff = code === NOBODY && !(await hasWayTo(server))
  const problem = isOff ? NO_WAY : SILENT[code ?? '']
  return { server, ms, ...(problem !== undefined && { problem }) }
}

const NO_WAY = 'is on no network of ours'

/** Whether the kernel knows a way; nothing is sent. */
function hasWayTo(server: string): Promise<boolean> {
  const address = isIP(server) === 0 ? server.replace(/^\[?(.*?)\]?:\d+$/, '$1') : server
  const socket = createSocket(isIP(address) === 6 ? 'udp6' : 'udp4')
  return new Promise<boolean>((resolve) => {
    socket.once('error', () => resolve(false))
    socket.once('connect', () => resolve(true))
    socket.connect(DNS_PORTS.UDP, address)
  }).finally(() => socket.close())
}
