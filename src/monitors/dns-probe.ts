// One DNS query from the look-up of its server to the answer, over whichever protocol, with what it took.
import { randomInt } from 'node:crypto'
import type { Failure } from '../contract/failure.ts'
import { peerPlace, placeOf } from './connect-errors.ts'
import type { Connection, Endpoint, Family, Progress } from './dial.ts'
import { countsOf, shownMessage, type SectionCounts } from './dns-answer.ts'
import { askOverHttps, DOH_ALPN } from './dns-https.ts'
import { readAnswer, type DnsMessage } from './dns-message.ts'
import type { DnsPlan, DnsProtocol } from './dns-plan.ts'
import { askOnStream } from './dns-stream.ts'
import { askOverUdp, malformedAnswer, type DnsServer, type UdpTally } from './dns-udp.ts'
import { familyOf, literalOf } from './ip-address.ts'
import { DeadlineReached, type Context } from './monitor.ts'
import type { ResolvConf } from './resolv-conf.ts'
import { failureOf, isFailure, TargetFailure, targetFailure } from './target-failure.ts'
import type { PeerFacts } from './tls-facts.ts'

/** Milliseconds. */
export interface DnsPhases {
  /** Looking up the name of the server. */
  dnsMs?: number
  connectMs?: number
  proxyMs?: number
  tlsMs?: number
  /** Over UDP, until the answer came that was cut off. */
  truncatedMs?: number
  /** From the query to the whole answer. */
  requestMs?: number
  totalMs: number
}

/** The observation of a DNS monitor. */
export interface DnsObserved {
  query: string
  recordType: string
  /** The server that was asked, or the last one of the system's. */
  address?: string
  family?: Family
  port: number
  /** Over which the answer came; TCP also where UDP brought one that was cut off. */
  protocol: DnsProtocol
  /** The answer over UDP was cut off, and asked for again over TCP. */
  truncated?: true
  /** The server did not know EDNS, and was asked again without it. */
  withoutEdns?: true
  /** Datagrams of UDP. */
  udp?: UdpTally
  responseCode?: string
  counts?: SectionCounts
  /** Of the answer. */
  bytes?: number
  /** The document that JSON_ANSWER looks into; of a large one the beginning, and `leftOut`. */
  response?: DnsMessage & { leftOut?: number }
  phases: DnsPhases
  tls?: PeerFacts
}

/** What a query came to. */
export interface DnsProbe {
  observed: DnsObserved
  /** The whole answer. */
  message?: DnsMessage
  failure?: Failure
}

/** The system's name servers, where one more thing than resolv.conf knows is the port. */
export type SystemServers = Pick<ResolvConf, 'timeoutMs' | 'attempts'> & {
  servers: readonly DnsServer[]
}

interface Running {
  plan: DnsPlan
  context: Context
  system: SystemServers
  observed: DnsObserved
  progress: Progress
}

/** An answer and the query that it belongs to. */
interface Found {
  message: DnsMessage
  bytes: number
}

/**
 * Asks as planned. What goes wrong with the target is in `failure`; rejects with the signal's reason when the
 * run is cancelled. No socket is left in either case.
 */
export async function probeDns(
  plan: DnsPlan,
  query: string,
  system: SystemServers,
  context: Context,
): Promise<DnsProbe> {
  const startedAt = performance.now()
  const { recordType, port, protocol } = plan
  const observed: DnsObserved = { query, recordType, port, protocol, phases: { totalMs: 0 } }
  const running: Running = { plan, context, system, observed, progress: { phase: 'dns' } }
  const probe: DnsProbe = { observed }
  try {
    const found = await askThem(running, await peersOf(running))
    const { message } = found
    probe.message = message
    observed.responseCode = message.Status
    observed.counts = countsOf(message)
    observed.bytes = found.bytes
    observed.response = shownMessage(message)
  } catch (error) {
    probe.failure = explained(failureOf(error, running.progress), observed.udp)
  }
  observed.phases.totalMs = performance.now() - startedAt
  return probe
}

/** Whom to ask: servers with an address that the network policy has passed, or one that is dialled by its name. */
type Peers = readonly DnsServer[] | 'by name'

/** Connections are dialled by name: the location's proxy may know it where this agent does not. */
async function peersOf({ plan, context, system, observed }: Running): Promise<Peers> {
  const { nameServer, port, family, protocol } = plan
  const { signal, dial } = context
  if (nameServer === undefined) return permitted(system.servers, context)
  if (protocol !== 'UDP') return 'by name'
  const startedAt = performance.now()
  const [address = ''] = await dial.resolve(nameServer, family, signal)
  if (literalOf(nameServer) === undefined) observed.phases.dnsMs = performance.now() - startedAt
  return [{ address, port }]
}

/** Those that the policy allows; rejects with what forbids the first when it allows none. */
async function permitted(servers: readonly DnsServer[], { dial, signal }: Context) {
  const allowed: DnsServer[] = []
  let forbidden: unknown
  for (const server of servers) {
    try {
      await dial.resolve(server.address, familyOf(server.address), signal)
      allowed.push(server)
    } catch (error) {
      if (!isFailure(error)) throw error
      forbidden ??= error
    }
  }
  if (allowed.length === 0) throw forbidden
  return allowed
}

async function askThem(running: Running, peers: Peers): Promise<Found> {
  const { plan, observed } = running
  const found = await ask(running, peers, plan.query)
  if (plan.plainQuery === undefined || !refusesEdns(found.message)) return found
  observed.withoutEdns = true
  return ask(running, peers, plan.plainQuery)
}

/** RFC 6891, 7: a server that does not know EDNS says FORMERR, old ones NOTIMP, and sends none of its own. */
function refusesEdns({ Status, Edns }: DnsMessage): boolean {
  return Edns === undefined && (Status === 'FORMERR' || Status === 'NOTIMP')
}

function ask(running: Running, peers: Peers, template: Buffer): Promise<Found> {
  const { protocol } = running.plan
  const query = Buffer.from(template)
  if (protocol !== 'DOH') query.writeUInt16BE(randomInt(65_536), 0)
  if (peers === 'by name') return askByConnection(running, undefined, query)
  if (protocol === 'UDP') return askByDatagrams(running, peers, query)
  return askByConnections(running, peers, query)
}

const PASSED_OVER: ReadonlySet<string> = new Set(['SERVFAIL', 'NOTIMP', 'REFUSED'])

/** As resolvers of the system do: another server may know what this one could not or would not tell. */
function passesOver({ Status }: DnsMessage): boolean {
  return PASSED_OVER.has(Status)
}

async function askByDatagrams(
  running: Running,
  servers: readonly DnsServer[],
  query: Buffer,
): Promise<Found> {
  const { plan, context, system, observed, progress } = running
  const attempts = plan.attempts ?? (plan.nameServer === undefined ? system.attempts : 2)
  // All tries take place before the deadline; with the usual 5 s hardly any would.
  const shareMs = plan.maxResponseTime / (servers.length * attempts)
  observed.udp ??= { sent: 0, ignored: 0, passedOver: [] }
  const sentAt = performance.now()
  progress.phase = 'firstByte'
  note(observed, servers[0] as DnsServer)
  const { server, bytes, message } = await askOverUdp(
    { servers, query, attempts, tryMs: Math.min(system.timeoutMs, shareMs), passesOver },
    observed.udp,
    context.signal,
  )
  note(observed, server)
  const tookMs = performance.now() - sentAt
  if (message !== undefined) {
    observed.phases.requestMs = tookMs
    return { message, bytes }
  }
  observed.truncated = true
  observed.phases.truncatedMs = tookMs
  return askByConnections(running, [server], query)
}

function note(observed: DnsObserved, { address, port }: DnsServer): void {
  observed.address = address
  observed.family = familyOf(address)
  observed.port = port
}

async function askByConnections(
  running: Running,
  servers: readonly DnsServer[],
  query: Buffer,
): Promise<Found> {
  let poor: Found | undefined
  let failed: unknown
  for (const [at, server] of servers.entries()) {
    const isLast = at === servers.length - 1
    const share = isLast ? undefined : shareOf(running, servers.length)
    const context = share === undefined ? running.context : { ...running.context, ...share }
    try {
      const found = await askByConnection({ ...running, context }, server, query)
      if (isLast || !passesOver(found.message)) return found
      poor ??= found
    } catch (error) {
      if (!isFailure(error) || running.context.signal.aborted) throw error
      failed ??= error
    } finally {
      share?.end()
    }
  }
  if (poor === undefined) throw failed
  return poor
}

/** A part of the time for one of several servers; `end` must be called. */
function shareOf({ context, plan, system }: Running, servers: number) {
  const { signal } = context
  const controller = new AbortController()
  const ms = Math.min(system.timeoutMs, plan.maxResponseTime / servers)
  const timer = setTimeout(() => controller.abort(new DeadlineReached(ms)), ms)
  const onAbort = () => controller.abort(signal.reason)
  signal.addEventListener('abort', onAbort)
  return {
    signal: controller.signal,
    end() {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    },
  }
}

/** Asks one server on a connection of its own; the one of the definition, by its name, where none is given. */
async function askByConnection(
  running: Running,
  server: DnsServer | undefined,
  query: Buffer,
): Promise<Found> {
  const { plan, context, observed, progress } = running
  const { signal, dial } = context
  const port = server?.port ?? plan.port
  const host = plan.nameServer ?? server?.address ?? ''
  if (server !== undefined) note(observed, server)
  observed.protocol = plan.protocol === 'UDP' ? 'TCP' : plan.protocol
  const endpoint: Endpoint = { host, port, family: plan.family, address: server?.address }
  const connection = await dial.connect(endpoint, progress, signal)
  if (server === undefined) {
    note(observed, { address: connection.address, port })
    if (literalOf(host) === undefined) observed.phases.dnsMs = connection.dnsMs
  }
  const { connectMs, proxyMs } = connection
  observed.phases.connectMs = connectMs
  if (proxyMs !== undefined) observed.phases.proxyMs = proxyMs
  const where = peerPlace({ host, port }, connection)
  try {
    const socket = await secured(running, connection, where)
    const startedAt = performance.now()
    const order = { where, query, authority: authorityOf(host, port), path: plan.dohPath }
    const bytes =
      'secure' in socket
        ? await askOverHttps({ socket: socket.secure, ...order }, progress, signal)
        : await askOnStream({ socket: socket.plain, ...order }, progress, signal)
    observed.phases.requestMs = performance.now() - startedAt
    return { message: answerIn(bytes, query, where), bytes: bytes.length }
  } finally {
    connection.socket.destroy()
  }
}

function authorityOf(host: string, port: number): string {
  const place = placeOf(literalOf(host) ?? host, port)
  return port === 443 ? place.replace(/:443$/, '') : place
}

/** Speaks TLS where it belongs to the protocol; rejects when the certificate does not verify and has to. */
async function secured(running: Running, { socket }: Connection, where: string) {
  const { plan, context, observed, progress } = running
  const { protocol } = plan
  if (protocol !== 'DOT' && protocol !== 'DOH') return { plain: socket }
  const handshake = {
    serverName: plan.nameServer ?? '',
    settings: plan.tls,
    where,
    alpn: protocol === 'DOH' ? DOH_ALPN : ['dot'],
  }
  const secure = await context.dial.secure(socket, handshake, progress, context.signal)
  secure.socket.once('close', () => socket.destroy())
  observed.phases.tlsMs = secure.tlsMs
  observed.tls = secure.peer
  if (secure.peer.failure !== undefined && !plan.skipSSL) {
    secure.socket.destroy()
    throw new TargetFailure(secure.peer.failure)
  }
  return protocol === 'DOH' ? { secure: secure.socket } : { plain: secure.socket }
}

/** The answer, on a connection, where nothing else may come. */
function answerIn(bytes: Buffer, query: Buffer, where: string): DnsMessage {
  const reading = readAnswer(bytes, query)
  switch (reading.kind) {
    case 'answer':
      return reading.message
    case 'malformed':
      throw malformedAnswer(where, reading.reason)
    case 'truncated':
      throw targetFailure('DNS_TRUNCATED', `the answer of ${where} is cut off, over TCP as well`, {
        where,
      })
    case 'other':
    default:
      throw targetFailure(
        'DNS_MISMATCH',
        `what ${where} sent is no answer to the query: ${reading.reason}`,
        { where, reason: reading.reason },
      )
  }
}

/** A time-out says what came instead of an answer. */
function explained(failed: Failure, udp: UdpTally | undefined): Failure {
  if (failed.code !== 'TIMEOUT_FIRST_BYTE' || udp === undefined) return failed
  const { sent, ignored, ignoredReason } = udp
  const details = { ...failed.details, sent, ignored }
  const message = `${failed.message} of an answer, after ${sent} ${sent === 1 ? 'query' : 'queries'}`
  if (ignored === 0) return { ...failed, message, details }
  const what = ignored === 1 ? 'a datagram was' : `${ignored} datagrams were`
  return {
    ...failed,
    message: `${message}; ${what} ignored, the last because ${ignoredReason}`,
    details: { ...details, ignoredReason },
  }
}
