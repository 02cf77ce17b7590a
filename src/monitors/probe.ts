// Common part of the types of monitors that connect to addresses. It connects, speaks TLS, compares times with their
// thresholds, gives the verdict on a probe, and checks every address of a name.
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { failure, type Failure } from '../contract/failure.ts'
import type { Observation } from '../contract/observation.ts'
import { roundPhases } from '../contract/schema/duration.ts'
import { LIMITS } from '../contract/versions.ts'
import { peerPlace } from '../network/connect-errors.ts'
import type { Connection, Endpoint, Family, Handshake, Progress } from '../network/dial.ts'
import { failureOf, TargetFailure } from '../network/target-failure.ts'
import type { PeerFacts } from '../network/tls/facts.ts'
import type { Context } from './monitor.ts'

/** Thresholds in milliseconds. */
export interface Thresholds {
  degradedResponseTime: number
  maxResponseTime: number
}

/** The failure of a time above the maximum, else none. */
export function tooSlow(
  responseTimeMs: number,
  { maxResponseTime: maxMs }: Thresholds,
): [] | [Failure] {
  if (responseTimeMs <= maxMs) return []
  const tookMs = Math.round(responseTimeMs)
  const message = `the response took ${tookMs} ms; at most ${maxMs} ms are allowed`
  return [failure('RESPONSE_TIME_ABOVE_MAX', message, { responseTimeMs, maxMs })]
}

/** Whether the time is above what counts as healthy. */
export function isDegraded(responseTimeMs: number, thresholds: Thresholds): boolean {
  return responseTimeMs > thresholds.degradedResponseTime
}

/** Facts of a probe of one address; each type adds to them. */
export interface Probed {
  address?: string
  family?: Family
  phases: { dnsMs?: number; totalMs: number }
  failures: Failure[]
}

/**
 * The verdict on a probe: without the failures that `shouldFail` expects, and with one for a time above the maximum.
 * Without an answer there is no response time. Rounds the phases.
 */
export function verdictOn(
  monitor: Thresholds & { shouldFail: boolean },
  { phases, failures: all }: Probed,
  expected: ReadonlySet<string>,
  hasAnswered: boolean,
): Omit<Observation, 'observed'> {
  roundPhases(phases)
  const failures = monitor.shouldFail ? all.filter(({ code }) => !expected.has(code)) : all
  if (!hasAnswered) return { failures }
  const responseTimeMs = phases.totalMs
  return {
    failures: failures.length === 0 ? tooSlow(responseTimeMs, monitor) : failures,
    responseTimeMs,
    degraded: isDegraded(responseTimeMs, monitor),
  }
}

/** Phases of a connection in milliseconds; incomplete ones are left out. */
export interface ConnectionPhases {
  dnsMs?: number
  connectMs?: number
  /** Setting up the tunnel through the location's proxy. */
  proxyMs?: number
  tlsMs?: number
}

/** Facts of a connection. */
export interface ConnectionFacts {
  address?: string
  family?: Family
  tls?: PeerFacts
  phases: ConnectionPhases
}

/** A new connection; `where` names its peer, for messages. */
interface Reached extends Pick<Connection, 'forward'> {
  socket: Socket
  where: string
}

/** Connects and, with `tls`, speaks TLS; notes both in the facts. Rejects like the dialler and `speakTls`. */
export async function reach(
  endpoint: Endpoint,
  tls: (Pick<Handshake, 'settings' | 'alpn'> & { skipSSL: boolean }) | undefined,
  context: Context,
  progress: Progress,
  facts: ConnectionFacts,
): Promise<Reached> {
  const connection = await context.dial.connect(endpoint, progress, context.signal)
  const { socket, forward, address, family, dnsMs, connectMs, proxyMs } = connection
  facts.address = address
  facts.family = family
  facts.phases.dnsMs = dnsMs
  facts.phases.connectMs = connectMs
  if (proxyMs !== undefined) facts.phases.proxyMs = proxyMs
  const where = peerPlace(endpoint, connection)
  if (tls === undefined) return { socket, where, ...(forward && { forward }) }
  const handshake = { serverName: endpoint.host, where, ...tls }
  return { socket: await speakTls(socket, handshake, context, progress, facts), where }
}

/**
 * TLS on an open connection, noted in the facts. Rejects like the dialler, and with the failure of a certificate
 * that must verify and does not.
 */
export async function speakTls(
  plain: Socket,
  handshake: Handshake & { skipSSL: boolean },
  { dial, signal }: Context,
  progress: Progress,
  facts: Pick<ConnectionFacts, 'tls' | 'phases'>,
): Promise<TLSSocket> {
  const { socket, tlsMs, peer } = await dial.secure(plain, handshake, progress, signal)
  socket.once('close', () => plain.destroy())
  facts.phases.tlsMs = tlsMs
  facts.tls = peer
  if (peer.failure === undefined || handshake.skipSSL) return socket
  socket.destroy()
  throw new TargetFailure(peer.failure)
}

/** How a type checks one address. */
export interface AddressCheck<P extends Probed> {
  /** Times count from `startedAt`. */
  probe: (endpoint: Endpoint & { address: string }, startedAt: number) => Promise<P>
  observe: (probe: P | Probed) => Observation | Promise<Observation>
  /** Facts of one address in the list of addresses; they add to its phases and failures or replace them. */
  facts?: (probe: P, observation: Observation) => object
  /** Facts of all of them, for the observation. */
  summary?: (probes: readonly P[]) => object
}

/** Checks every address of the name. The slowest counts, and each failed one fails the check. */
export async function checkAddresses<P extends Probed>(
  endpoint: Endpoint,
  { dial, signal }: Context,
  { probe, observe, facts, summary }: AddressCheck<P>,
): Promise<Observation> {
  const startedAt = performance.now()
  let addresses: string[]
  try {
    addresses = await dial.resolve(endpoint.host, endpoint.family, signal)
  } catch (error) {
    const failures = [failureOf(error, { phase: 'dns' })]
    return observe({ phases: { totalMs: performance.now() - startedAt }, failures })
  }
  const dnsMs = performance.now() - startedAt
  const checks = await Promise.all(
    addresses.slice(0, LIMITS.addressesMax).map(async (address) => {
      const probed = await probe({ ...endpoint, address }, startedAt)
      probed.address ??= address
      probed.phases.dnsMs = dnsMs
      return { address: probed.address, probed, ...(await observe(probed)) }
    }),
  )
  const times = checks.flatMap(({ responseTimeMs }) => responseTimeMs ?? [])
  const undisclosed = checks.flatMap((one) => one.undisclosed ?? [])
  return {
    observed: {
      ...shownOf(checks).observed,
      addresses: checks.map(({ address, probed, ...observation }) => ({
        address,
        phases: probed.phases,
        failures: observation.failures,
        ...facts?.(probed, observation),
      })),
      ...summary?.(checks.map(({ probed }) => probed)),
      addressesLeftOut: addresses.length - checks.length,
    },
    failures: checks.flatMap(({ address, failures }) =>
      failures.map((one) => ({
        ...one,
        message: isNamed(address, one.message) ? one.message : `${address}: ${one.message}`,
        details: { ...one.details, address },
      })),
    ),
    ...(undisclosed.length > 0 && { undisclosed: { addresses: undisclosed } }),
    ...(times.length > 0 && {
      responseTimeMs: Math.max(...times),
      degraded: checks.some(({ degraded }) => degraded === true),
    }),
  }
}

/** Whether the message names the address, and not another one that begins alike. */
function isNamed(address: string, message: string): boolean {
  const at = message.indexOf(address)
  return at >= 0 && !/[\da-f.]/i.test(message.charAt(at + address.length))
}

/** The first failed one, else the slowest of the degraded ones, else the slowest. */
function shownOf<O extends Observation>(checks: readonly O[]): O {
  const failed = checks.find(({ failures }) => failures.length > 0)
  const degraded = checks.filter((one) => one.degraded === true)
  return (
    failed ??
    (degraded.length > 0 ? degraded : checks).reduce((one, other) =>
      (other.responseTimeMs ?? 0) > (one.responseTimeMs ?? 0) ? other : one,
    )
  )
}
