// Probes the connection to the platform with one call of the agents' API that registers no agent. The answer or its
// error shows the state of proxy, TLS, API key and clock.
import { randomUUID, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { AgentConfig } from '../../agent/config.ts'
import { LinkError } from '../../agent/platform/link-error.ts'
import { type LinkAnswer, PlatformLink } from '../../agent/platform/link.ts'
import { proxyFor } from '../../agent/platform/proxy.ts'
import { refusalOf } from '../../agent/platform/sync/call.ts'
import { jsonOf } from '../../contract/exact-json.ts'
import { PresenceAnswer } from '../../contract/protocol/agent-protocol.ts'
import { absent, type Finding, PROBED } from './finding.ts'

const DEADLINE_MS = 8000
const CONNECT_MS = 6000

type PlatformConfig = Pick<
  AgentConfig,
  'monitorsFile' | 'apiKey' | 'platformUrl' | 'platformProxyUrl' | 'noProxy'
>

/** Probes platform, proxy, TLS and clock. */
export async function probePlatform(
  config: PlatformConfig,
  signal: AbortSignal,
): Promise<Finding[]> {
  const authority = await aboutAuthorities()
  const { monitorsFile, apiKey, platformUrl } = config
  if (monitorsFile !== undefined || apiKey === undefined || platformUrl === undefined) {
    const tls = authority.problem === undefined ? [] : [badAuthorities(authority.problem)]
    const isFile = monitorsFile !== undefined
    const why = isFile ? 'not used: MONITORS_FILE names the monitors' : 'not asked: see settings'
    return [absent('platform', why), ...tls]
  }
  const url = new URL(platformUrl)
  const proxy = proxyFor(url, config.platformProxyUrl, config.noProxy)
  const facts: ConnectionFacts = {
    url,
    proxy: proxy?.shown,
    authority,
    hasProxy: config.platformProxyUrl !== undefined,
  }
  try {
    const answer = await ask({ ...config, apiKey, platformUrl }, signal)
    return [aboutAnswer(answer, url), proxyWorks(facts), tlsWorks(facts), clockFinding(answer)]
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    return aboutError(error, facts)
  }
}

async function ask(
  config: PlatformConfig & { apiKey: string; platformUrl: string },
  signal: AbortSignal,
): Promise<LinkAnswer> {
  const { apiKey, platformUrl, platformProxyUrl: proxyUrl, noProxy } = config
  const link = new PlatformLink({ platformUrl, apiKey, proxyUrl, noProxy, connectMs: CONNECT_MS })
  try {
    // With the id of an unknown agent the platform checks the key and registers no agent.
    const presence = { agentId: randomUUID(), instance: randomUUID() }
    return await link.request({
      method: 'POST',
      path: '/agent/v1/presence',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(presence)),
      deadlineMs: DEADLINE_MS,
      signal,
    })
  } finally {
    link.close()
  }
}

function aboutAnswer(answer: LinkAnswer, { origin }: URL): Finding {
  const { status } = answer
  const ms = Math.round(answer.answeredAtMs - answer.sentAtMs)
  const facts = { url: origin, status, ms }
  const isPresence = PresenceAnswer.safeParse(jsonOf(answer.body.toString())).success
  if (status === 200 && isPresence) {
    const says = `${origin} accepts API_KEY (${ms} ms)`
    return { id: 'platform', standing: 'works', says, facts }
  }
  if (status === 429) {
    const says = `${origin} limits the rate of requests (429)`
    return { id: 'platform', standing: 'warning', says, fix: 'try again in a minute', facts }
  }
  const refusal = status === 200 ? undefined : refusalOf(answer)
  const message =
    refusal?.kind === 'failed' ? refusal.problem.message : 'API_KEY was revoked on the platform'
  const says =
    refusal === undefined ? `the server at ${origin} is not a Vedette platform` : saidIn(message)
  return { id: 'platform', standing: 'broken', says, fix: STATUS_FIXES[status] ?? URL_FIX, facts }
}

const URL_FIX = 'set PLATFORM_URL="https://<the platform>"'

const STATUS_FIXES: Readonly<Record<number, string>> = {
  401: 'set API_KEY=pl_…  (POST /v1/private-locations/<id>/keys on the platform creates one)',
  426: 'use the image of the platform’s version',
}

/** A message without its advice, which follows a semicolon. */
const saidIn = (message: string) => message.split('; ', 1)[0] as string
const adviceIn = (message: string) => message.split('; ').slice(1).join('; ') || undefined

function aboutError(error: LinkError, facts: ConnectionFacts): Finding[] {
  const { message } = error
  const cause = (error.cause as NodeJS.ErrnoException | undefined)?.code
  const codes = { code: error.code, ...(cause !== undefined && { cause }) }
  const clock = absent('clock', 'not compared: the platform did not answer')
  const found = (id: Finding['id'], fix: string, more: object): Finding => ({
    id,
    standing: 'broken',
    says: saidIn(message),
    fix: adviceIn(message) ?? fix,
    facts: { ...more, ...codes },
  })
  const notReached = (id: Finding['id']): Finding => {
    const says = `not reached: see ${PROBED[id]}`
    return { id: 'platform', standing: 'broken', says }
  }
  if (error.code === 'PROXY' || message.startsWith('the proxy ')) {
    const fix = 'set HTTPS_PROXY="http://<user>:<password>@<host>:<port>"'
    return [notReached('proxy'), found('proxy', fix, { proxy: facts.proxy }), clock]
  }
  if (error.code === 'TLS') {
    return [notReached('tls'), proxyWorks(facts), found('tls', URL_FIX, {}), clock]
  }
  const { host, origin } = facts.url
  const fix = `${URL_FIX}  (or let this machine reach ${host}, by HTTPS_PROXY where there is a proxy)`
  const platform = found('platform', fix, { url: origin })
  return [platform, ...(facts.proxy === undefined ? [proxyWorks(facts)] : []), clock]
}

interface ConnectionFacts {
  url: URL
  /** The proxy in use, without credentials. */
  proxy: string | undefined
  /** A proxy is set, in use or not. */
  hasProxy: boolean
  authority: Authorities
}

function proxyWorks({ proxy, hasProxy }: ConnectionFacts): Finding {
  if (proxy !== undefined)
    return { id: 'proxy', standing: 'works', says: `the platform is reached through ${proxy}` }
  return absent('proxy', hasProxy ? 'not used: NO_PROXY names the platform’s host' : 'none is set')
}

function tlsWorks({ url, authority }: ConnectionFacts): Finding {
  if (authority.problem !== undefined) return badAuthorities(authority.problem)
  if (url.protocol !== 'https:') return absent('tls', 'not used: PLATFORM_URL begins with http://')
  const also =
    authority.count === undefined ? '' : `; ${authority.count} more by NODE_EXTRA_CA_CERTS`
  const says = `the certificate of ${url.host} is trusted by Node.js’ authorities${also}`
  return { id: 'tls', standing: 'works', says }
}

function badAuthorities(problem: string): Finding {
  const says = `NODE_EXTRA_CA_CERTS ${problem}`
  const fix = 'set NODE_EXTRA_CA_CERTS to a file with the authority (PEM)'
  return { id: 'tls', standing: 'broken', says, fix }
}

/** The content of NODE_EXTRA_CA_CERTS. */
interface Authorities {
  count?: number
  problem?: string
}

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/** Checks the file: Node.js skips an invalid one with a warning that few people see. */
async function aboutAuthorities(): Promise<Authorities> {
  const file = process.env['NODE_EXTRA_CA_CERTS']
  if (file === undefined || file === '') return {}
  try {
    const found = (await readFile(file, 'latin1')).match(CERTIFICATES) ?? []
    if (found.length === 0) return { problem: 'contains no certificate (PEM)' }
    for (const one of found) void new X509Certificate(one)
    return { count: found.length }
  } catch (error) {
    return { problem: `cannot be used: ${(error as Error).message}` }
  }
}

/** A larger offset affects certificates and logs; slots follow the platform's clock anyway. */
const OFF_MS_MAX = 5000

/**
 * Compares this machine's clock with the platform's, by the Date of an answer, which has a resolution of 1 s. The
 * offset lies between two bounds; the one nearer to zero counts.
 */
function clockFinding({ headers, sentAtMs, answeredAtMs }: LinkAnswer): Finding {
  const date = Date.parse(headers.date ?? '')
  if (Number.isNaN(date)) {
    return absent('clock', 'not compared: the answer has no Date')
  }
  const wallAt = (monotonicMs: number) => Date.now() - (performance.now() - monotonicMs)
  // Bounds of the platform's clock minus this machine's.
  const [least, most] = [date - wallAt(answeredAtMs), date + 1000 - wallAt(sentAtMs)]
  const offMs = least > 0 ? least : Math.min(0, most)
  const facts = { leastMs: Math.round(least), mostMs: Math.round(most) }
  const within = Math.ceil(Math.max(Math.abs(least), Math.abs(most)) / 1000)
  if (Math.abs(offMs) <= OFF_MS_MAX) {
    const says = `within ${within} s of the platform’s`
    return { id: 'clock', standing: 'works', says, facts }
  }
  const side = offMs > 0 ? 'behind' : 'ahead of'
  const says = `${Math.round(Math.abs(offMs) / 1000)} s ${side} the platform’s`
  const fix = 'timedatectl set-ntp true  (on the host: containers have its clock)'
  return { id: 'clock', standing: 'warning', says, fix, facts }
}
