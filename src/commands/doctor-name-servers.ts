// Whether the system's name servers answer. Each is asked alone, for the platform's name, or else for what
// every name server knows of: the root.
import { Resolver } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import type { AgentConfig } from '../agent/config.ts'
import { parseResolvConf, RESOLV_CONF } from '../monitors/resolv-conf.ts'
import type { Finding } from './doctor-finding.ts'
import type { Mends } from './doctor-mends.ts'

/** What to ask whom. */
export interface NameServersOrder {
  config: Pick<AgentConfig, 'platformUrl'>
  mends: Mends
  signal: AbortSignal
  /** `address` or `address:port`, in place of those of resolv.conf. */
  servers?: readonly string[]
}

const TRY_MS = 2000
const TRIES = 2

/** What an error of c-ares says of a server that gave no answer; all others are answers. */
const SILENT: Readonly<Record<string, string>> = {
  ETIMEOUT: 'silent',
  ECONNREFUSED: 'refuses the connection',
  ECANCELLED: 'silent',
  EBADRESP: 'answers what is no answer',
  EREFUSED: 'refuses to answer',
}

/** Looks at each of the name servers. */
export async function probeNameServers(order: NameServersOrder): Promise<Finding[]> {
  const servers = order.servers ?? parseResolvConf(await resolvConf()).servers
  const name = nameIn(order.config.platformUrl)
  const asked = await Promise.all(servers.map((one) => ask(one, name, order.signal)))
  const mute = asked.filter(({ problem }) => problem !== undefined)
  const words = mute.map(({ server, problem }) => `${server} ${problem}`).join(', ')
  const facts = { servers: asked }
  if (mute.length === 0) {
    const says = asked.map(({ server, ms }) => `${server} (${ms} ms)`).join(', ')
    return [{ id: 'dns', standing: 'works', says, facts }]
  }
  const mend = order.mends.nameServers()
  if (mute.length === asked.length)
    return [{ id: 'dns', standing: 'broken', says: words, mend, facts }]
  return [{ id: 'dns', standing: 'warning', says: `${words}; the others answer`, mend, facts }]
}

function resolvConf(): Promise<string> {
  // Where there is none, the system asks this machine.
  return readFile(RESOLV_CONF, 'utf8').catch(() => '')
}

function nameIn(platformUrl: string | undefined): string | undefined {
  const host = URL.parse(platformUrl ?? '')?.hostname.replace(/^\[|\]$/g, '')
  return host === undefined || isIP(host) !== 0 || host === 'localhost' ? undefined : host
}

interface Asked {
  server: string
  ms: number
  problem?: string
}

async function ask(server: string, name: string | undefined, signal: AbortSignal): Promise<Asked> {
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES })
  resolver.setServers([isIP(server) === 6 ? `[${server}]` : server])
  const onAbort = () => resolver.cancel()
  signal.addEventListener('abort', onAbort, { once: true })
  const since = performance.now()
  const problem = await (
    name === undefined ? resolver.resolveNs('.') : resolver.resolve4(name)
  ).then(
    () => undefined,
    (error: NodeJS.ErrnoException) => SILENT[error.code ?? ''],
  )
  signal.removeEventListener('abort', onAbort)
  const ms = Math.round(performance.now() - since)
  return { server, ms, ...(problem !== undefined && { problem }) }
}
