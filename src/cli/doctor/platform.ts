// The way to the platform and what it says: one call of the agents' API that takes no agent in, from which proxy,
// TLS, key and clock are told.
import { randomUUID, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { AgentConfig } from '../../agent/config.ts'
import { LinkError } from '../../agent/platform/link-error.ts'
import { createPlatformLink, type LinkAnswer } from '../../agent/platform/link.ts'
import { proxyFor } from '../../agent/platform/proxy.ts'
import { refusalOf } from '../../agent/platform/sync/call.ts'
import { PresenceAnswer } from '../../contract/protocol/agent-protocol.ts'
import type { Finding } from './finding.ts'
import { clockFinding } from './clock.ts'
import type { Fixes } from './fixes.ts'

const DEADLINE_MS = 8000
const CONNECT_MS = 6000

type PlatformConfig = Pick<
  AgentConfig,
  'monitorsFile' | 'apiKey' | 'platformUrl' | 'platformProxyUrl' | 'noProxy'
>

/** Looks at platform, proxy, TLS and clock. `env`: where NODE_EXTRA_CA_CERTS stands. */
export async function probePlatform(
  config: PlatformConfig,
  fixes: Fixes,
  signal: AbortSignal,
  authorityFile = process.env['NODE_EXTRA_CA_CERTS'],
): Promise<Finding[]> {
  const authority = await aboutAuthorities(authorityFile)
  const { monitorsFile, apiKey, platformUrl } = config
  if (monitorsFile !== undefined || apiKey === undefined || platformUrl === undefined) {
    const tls = authority.problem === undefined ? [] : [badAuthorities(authority.problem, fixes)]
    const isFile = monitorsFile !== undefined
    const why = isFile ? 'not used: MONITORS_FILE names the monitors' : 'not asked: see settings'
    return [unused('platform', why), ...tls]
  }
  const url = new URL(platformUrl)
  const proxy = proxyFor(url, config.platformProxyUrl, config.noProxy)
  const facts: WayFacts = {
    url,
    proxy: proxy?.shown,
    authority,
    hasProxy: config.platformProxyUrl !== undefined,
  }
  try {
    const answer = await ask({ ...config, apiKey, platformUrl }, signal)
    return [
      aboutAnswer(answer, url, fixes),
      proxyWorks(facts),
      tlsWorks(facts, fixes),
      clockFinding(answer),
    ]
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    return aboutError(error, facts, fixes)
  }
}

async function ask(
  config: PlatformConfig & { apiKey: string; platformUrl: string },
  signal: AbortSignal,
): Promise<LinkAnswer> {
  const { apiKey, platformUrl, platformProxyUrl: proxyUrl, noProxy } = config
  const link = createPlatformLink({ platformUrl, apiKey, proxyUrl, noProxy, connectMs: CONNECT_MS })
  try {
    // Of an agent that nobody knows: the platform looks at the key, and takes nobody in.
    const said = { agentId: randomUUID(), instance: randomUUID() }
    return await link.request({
      method: 'POST',
      path: '/agent/v1/presence',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(said)),
      deadlineMs: DEADLINE_MS,
      signal,
    })
  } finally {
    link.close()
  }
}

function aboutAnswer(answer: LinkAnswer, { origin }: URL, fixes: Fixes): Finding {
  const { status } = answer
  const ms = Math.round(answer.answeredAtMs - answer.sentAtMs)
  const facts = { url: origin, status, ms }
  if (status === 200 && isPresence(answer.body)) {
    const says = `${origin} accepts API_KEY (${ms} ms)`
    return { id: 'platform', standing: 'works', says, facts }
  }
  if (status === 429) {
    const says = `${origin} is there, and asked for too often just now (429)`
    return { id: 'platform', standing: 'warning', says, fix: 'try again in a minute', facts }
  }
  if (status === 200) {
    const says = `what answers at ${origin} is no platform`
    return { id: 'platform', standing: 'broken', says, fix: platformFix(fixes), facts }
  }
  const refusal = refusalOf(answer)
  const says =
    refusal.kind === 'failed'
      ? withoutAdvice(refusal.problem.message)
      : 'API_KEY was revoked on the platform'
  return { id: 'platform', standing: 'broken', says, fix: statusFix(status, fixes), facts }
}

/** Sentences go on with advice, which stands in the fix here. */
function withoutAdvice(message: string): string {
  return message.split('; ')[0] as string
}

function isPresence(body: Buffer): boolean {
  try {
    return PresenceAnswer.safeParse(JSON.parse(body.toString())).success
  } catch {
    return false
  }
}

const platformFix = (fixes: Fixes) => fixes.variable('PLATFORM_URL', 'https://<the platform>')

function statusFix(status: number, fixes: Fixes): string {
  if (status === 401) {
    const where = 'POST /v1/private-locations/<id>/keys on the platform makes one'
    return `${fixes.variable('API_KEY', 'pl_…')}  (${where})`
  }
  if (status === 426) return `take the image of the platform’s version`
  if (status >= 500) return 'look into the log of the platform, and of what stands before it'
  return platformFix(fixes)
}

interface WayFacts {
  url: URL
  /** The proxy on the way, without credentials. */
  proxy: string | undefined
  /** One is set, whether or not it stands on the way. */
  hasProxy: boolean
  authority: Authorities
}

function aboutError(error: LinkError, facts: WayFacts, fixes: Fixes): Finding[] {
  const { proxy, url } = facts
  const says = withoutAdvice(error.message)
  const code = (error.cause as NodeJS.ErrnoException | undefined)?.code
  const told = { code: error.code, ...(code !== undefined && { cause: code }) }
  const clock = unused('clock', 'not compared: the platform did not answer')
  const isProxys = error.message.startsWith('the proxy ')
  if (error.code === 'PROXY' || isProxys) {
    const fix = error.code === 'TLS' ? fixes.authority() : proxyFix(error, fixes)
    return [
      { id: 'platform', standing: 'broken', says: 'not reached: see proxy' },
      { id: 'proxy', standing: 'broken', says, fix, facts: { proxy, ...told } },
      clock,
    ]
  }
  const platform: Finding = {
    id: 'platform',
    standing: 'broken',
    says,
    facts: { url: url.origin, ...told },
  }
  if (error.code === 'TLS') {
    const tls = { id: 'tls', standing: 'broken', says, fix: tlsFix(error, url, fixes) } as const
    return [{ ...platform, says: 'not reached: see TLS' }, proxyWorks(facts), tls, clock]
  }
  platform.fix = error.code === 'REDIRECTED' ? platformFix(fixes) : wayFix(url, says, fixes)
  return [platform, ...(proxy === undefined ? [proxyWorks(facts)] : []), clock]
}

function proxyFix(error: LinkError, fixes: Fixes): string {
  const address = error.message.includes('(407)')
    ? 'http://<user>:<password>@<host>:<port>'
    : 'http://<host>:<port>'
  return fixes.variable('HTTPS_PROXY', address)
}

function tlsFix(error: LinkError, url: URL, fixes: Fixes): string {
  const { message } = error
  if (message.includes('NODE_EXTRA_CA_CERTS')) return fixes.authority()
  if (message.includes('does not speak TLS')) {
    return fixes.variable('PLATFORM_URL', `http://${url.host}`)
  }
  if (message.includes('other names')) return platformFix(fixes)
  return 'renew the platform’s certificate, or set this machine’s clock'
}

function wayFix({ hostname, port, protocol }: URL, says: string, fixes: Fixes): string {
  if (says.includes('cannot be resolved')) {
    return `${fixes.nameServers()}  (or a PLATFORM_URL that they know)`
  }
  const portWords = port === '' ? (protocol === 'https:' ? '443' : '80') : port
  const way = `let this machine reach ${hostname} port ${portWords}, by HTTPS_PROXY where there is a proxy`
  return `${platformFix(fixes)}  (or ${way})`
}

function proxyWorks({ proxy, hasProxy }: WayFacts): Finding {
  if (proxy !== undefined)
    return { id: 'proxy', standing: 'works', says: `${proxy} leads to the platform` }
  return unused('proxy', hasProxy ? 'not used: NO_PROXY names the platform’s host' : 'none is set')
}

function tlsWorks({ url, authority }: WayFacts, fixes: Fixes): Finding {
  if (authority.problem !== undefined) return badAuthorities(authority.problem, fixes)
  if (url.protocol !== 'https:') return unused('tls', 'not used: PLATFORM_URL begins with http://')
  const also =
    authority.count === undefined ? '' : `; ${authority.count} more by NODE_EXTRA_CA_CERTS`
  const says = `the certificate of ${url.host} is trusted by Node.js’ authorities${also}`
  return { id: 'tls', standing: 'works', says }
}

function badAuthorities(problem: string, fixes: Fixes): Finding {
  const says = `NODE_EXTRA_CA_CERTS ${problem}`
  return { id: 'tls', standing: 'broken', says, fix: fixes.authority() }
}

function unused(id: Finding['id'], says: string): Finding {
  return { id, standing: 'absent', says }
}

/** What NODE_EXTRA_CA_CERTS holds. */
interface Authorities {
  count?: number
  problem?: string
}

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/** Node.js leaves out a file that it does not understand, with a warning that few people see. */
async function aboutAuthorities(file: string | undefined): Promise<Authorities> {
  if (file === undefined || file === '') return {}
  try {
    const found = (await readFile(file, 'latin1')).match(CERTIFICATES) ?? []
    if (found.length === 0) return { problem: 'holds no certificate (PEM)' }
    for (const one of found) void new X509Certificate(one)
    return { count: found.length }
  } catch (error) {
    return { problem: `cannot be used: ${(error as Error).message}` }
  }
}
