// The location's proxy: tunnels by CONNECT for TLS and TCP, forwarding for plain HTTP. Targets of
// the proxy are checked against the network policy as far as we can resolve them.
import type { Socket } from 'node:net'
import type { Connection, Dialler, Progress } from '../dial.ts'
import { basic } from '../http/target.ts'
import { literalOf } from '../ip-address.ts'
import { DeadlineReached } from '../deadline.ts'
import type { NetworkPolicy } from '../network-policy.ts'
import { connectTo } from '../open-socket.ts'
import { createInspection } from './inspection.ts'
import { askForTunnel } from './tunnel.ts'
import type { Resolver } from '../dns/resolver.ts'
import { isFailure, TargetFailure, targetFailure } from '../target-failure.ts'
import { shakeHands } from '../tls/handshake.ts'

/** The problem of the text as `proxyUrl`, or undefined. Never shows the text: it may contain a password. */
export function proxyProblem(text: string): string | undefined {
  const url = URL.parse(text)
  if (url === null) return 'not a URL; write http://proxy.example:3128 or with user:password@'
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return 'cannot use such a proxy; use http:// or https://'
  }
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '') {
    return 'a proxy has no path; write http://proxy.example:3128'
  }
  try {
    decodeURIComponent(`${url.username}:${url.password}`)
  } catch {
    return 'a % in the credentials starts no valid escape; write a literal % as %25'
  }
  return undefined
}

interface Location {
  host: string
  port: number
  secure: boolean
  authorization: string | undefined
}

/** Connects to endpoints through the proxy of `proxyUrl`; throws a TypeError when that is not usable. */
export function createProxy(
  proxyUrl: string,
  { policy, resolver }: { policy: NetworkPolicy; resolver: Resolver },
): Dialler['connect'] {
  const location = locationOf(proxyUrl)
  const { authorization } = location
  const inspect = createInspection({ policy, resolver })
  return async (endpoint, progress, signal) => {
    await inspect(endpoint, signal)
    const connection = await reach(location, resolver, progress, signal)
    // A forward proxy resolves the name itself; a fixed address needs a tunnel.
    const isForward = endpoint.forward === true && endpoint.address === undefined
    if (isForward && !location.secure) return { ...connection, forward: { authorization } }
    progress.phase = 'proxy'
    const startedAt = performance.now()
    const socket = await speakTls(location, connection.socket, signal)
    const target = { host: endpoint.address ?? endpoint.host, port: endpoint.port }
    if (!isForward) await askForTunnel(socket, target, authorization, signal)
    const proxyMs = performance.now() - startedAt
    return { ...connection, socket, proxyMs, ...(isForward && { forward: { authorization } }) }
  }
}

function locationOf(proxyUrl: string): Location {
  const problem = proxyProblem(proxyUrl)
  if (problem !== undefined) throw new TypeError(`proxyUrl: ${problem}`)
  const url = new URL(proxyUrl)
  const secure = url.protocol === 'https:'
  const [username, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)]
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
    secure,
    authorization: username === '' && password === '' ? undefined : basic(username, password),
  }
}

/** Connects to the proxy itself. The operator chose it, so the policy does not apply to its address. */
async function reach(
  { host, port }: Location,
  resolver: Resolver,
  progress: Progress,
  signal: AbortSignal,
): Promise<Connection> {
  const destination = {
    literal: literalOf(host),
    lookUp: () => proxyAddress(resolver, host, signal),
    port,
  }
  try {
    return { ...(await connectTo(destination, progress, signal)), proxyHost: host }
  } catch (error) {
    throw proxyFault(error)
  }
}

async function proxyAddress(resolver: Resolver, host: string, signal: AbortSignal) {
  // The monitor's family applies to its target only; the proxy may be reached by either.
  const found = await resolver.resolve(host, 'IPv4', signal).catch((error: unknown) => {
    if (error instanceof TargetFailure) return resolver.resolve(host, 'IPv6', signal)
    throw error
  })
  return found[0]
}

async function speakTls(location: Location, socket: Socket, signal: AbortSignal): Promise<Socket> {
  if (!location.secure) return socket
  try {
    // The caller's phase stays `proxy`, so this handshake has a progress of its own.
    const handshake = { serverName: location.host, alpn: ['http/1.1'] }
    const secure = await shakeHands(socket, handshake, { phase: 'proxy' }, signal)
    if (secure.peer.failure === undefined) return secure.socket
    secure.socket.destroy()
    throw new TargetFailure(secure.peer.failure)
  } catch (error) {
    throw proxyFault(error)
  }
}

/** An error on the way to the proxy says nothing about the target. */
function proxyFault(error: unknown): unknown {
  if (!isFailure(error)) return error
  const unusable = (details: Record<string, unknown>) =>
    targetFailure(
      'PROXY_UNREACHABLE',
      `the location’s proxy cannot be used: ${error.message}`,
      details,
    )
  if (error instanceof DeadlineReached) return unusable({ deadlineMs: error.deadlineMs })
  const { code, details } = error.failure
  return code === 'RESOURCES_EXHAUSTED' ? error : unusable({ ...details, reason: code })
}
