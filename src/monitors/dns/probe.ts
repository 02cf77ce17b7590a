// One DNS query from the lookup of its server to the answer, over any protocol, with its duration.
import { randomInt } from 'node:crypto'
import { dnsTypeName, dnsTypeNumber } from '../../contract/dns/parameters.ts'
import type { Failure } from '../../contract/failure.ts'
import { askByConnection, type DnsFound, type DnsPlan, type DnsRun } from './connection.ts'
import { inNaturalOrder, noteAnswer, noteServer, type DnsObserved } from './observed.ts'
import { withDeadline } from '../../network/deadline.ts'
import type { DnsMessage } from '../../network/dns/message.ts'
import { askOverUdp, type DnsServer, type UdpTally } from '../../network/dns/udp.ts'
import { familyOf, literalOf } from '../../network/ip-address.ts'
import { type Context } from '../monitor.ts'
import { failureOf, isFailure, TargetFailure } from '../../network/target-failure.ts'

/** Outcome of a query. */
export interface DnsProbe {
  observed: DnsObserved
  /** The whole answer. */
  message?: DnsMessage
  failure?: Failure
}

/**
 * Makes the planned query. Faults of the target are in `failure`. Rejects with the signal's reason when the run
 * is cancelled. Closes its sockets in any case.
 */
export async function probeDns(
  plan: DnsPlan,
  system: DnsRun['system'],
  context: Context,
): Promise<DnsProbe> {
  const startedAt = performance.now()
  const { port, request } = plan
  const { query, protocol } = request
  const recordType = dnsTypeName(dnsTypeNumber(request.recordType))
  const observed: DnsObserved = { query, recordType, port, protocol, phases: { totalMs: 0 } }
  const running: DnsRun = { plan, context, system, observed, progress: { phase: 'dns' } }
  const probe: DnsProbe = { observed }
  try {
    const peers = await peersOf(running)
    const isSystem = usesSystem(plan)
    const found = await (isSystem ? askSystem : askThem)(running, peers)
    const message = inNaturalOrder(found.message)
    noteAnswer(observed, message, found.bytes)
    if (isSystem && passesOver(message)) await rejectIfOurs(running, startedAt)
    probe.message = message
  } catch (error) {
    probe.failure = explained(failureOf(error, running.progress), observed.udp)
  }
  observed.phases.totalMs = performance.now() - startedAt
  return probe
}

function usesSystem({ request }: DnsPlan): boolean {
  return typeof request.nameServer !== 'string'
}

/** Servers to ask: addresses permitted by the network policy, or one to be dialled by its name. */
type Peers = readonly DnsServer[] | 'by name'

/** Connections are dialled by name: the location's proxy may resolve names that the agent cannot. */
async function peersOf({ plan, context, system, observed }: DnsRun): Promise<Peers> {
  const { nameServer, ipFamily, protocol } = plan.request
  const { signal, dial } = context
  if (typeof nameServer !== 'string') return permitted(system.servers, context)
  if (protocol !== 'UDP') return 'by name'
  const startedAt = performance.now()
  const [address = ''] = await dial.resolve(nameServer, ipFamily, signal)
  if (literalOf(nameServer) === undefined) observed.phases.dnsMs = performance.now() - startedAt
  return [{ address, port: plan.port }]
}

/** Servers permitted by the policy; rejects with the refusal of the first if none is. */
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

async function askSystem(running: DnsRun, peers: Peers): Promise<DnsFound> {
  const { nameServers } = running.system
  const found = await nameServers.ask(() => askThem(running, peers), running.context.signal)
  if (found.message.Status !== 'REFUSED') nameServers.noteAnswer()
  return found
}

/** Response codes of servers that refuse all queries or have no network; they show nothing about the query. */
async function rejectIfOurs({ system, context }: DnsRun, sinceMs: number): Promise<void> {
  const problem = await system.nameServers.problem(sinceMs, context.signal)
  if (problem !== undefined) throw new TargetFailure(problem)
}

async function askThem(running: DnsRun, peers: Peers): Promise<DnsFound> {
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

function ask(running: DnsRun, peers: Peers, template: Buffer): Promise<DnsFound> {
  const { protocol } = running.plan.request
  const query = Buffer.from(template)
  if (protocol !== 'DOH') query.writeUInt16BE(randomInt(65_536), 0)
  if (peers === 'by name') return askByConnection(running, undefined, query)
  if (protocol === 'UDP') return askByDatagrams(running, peers, query)
  return askByConnections(running, peers, query)
}

const PASSED_OVER: ReadonlySet<string> = new Set(['SERVFAIL', 'NOTIMP', 'REFUSED'])

/** Response codes after which the next server is asked, as system resolvers do. */
function passesOver({ Status }: DnsMessage): boolean {
  return PASSED_OVER.has(Status)
}

async function askByDatagrams(
  running: DnsRun,
  servers: readonly DnsServer[],
  query: Buffer,
): Promise<DnsFound> {
  const { plan, context, system, observed, progress } = running
  const attempts = plan.request.attempts ?? (usesSystem(plan) ? system.attempts : 2)
  // All attempts end before the deadline; with the default of 5 s hardly any would.
  const shareMs = plan.maxResponseTime / (servers.length * attempts)
  observed.udp ??= { sent: 0, ignored: 0, passedOver: [] }
  const sentAt = performance.now()
  progress.phase = 'firstByte'
  noteServer(observed, servers[0] as DnsServer)
  const { server, bytes, message } = await askOverUdp(
    { servers, query, attempts, tryMs: Math.min(system.timeoutMs, shareMs), passesOver },
    observed.udp,
    context.signal,
  )
  noteServer(observed, server)
  const tookMs = performance.now() - sentAt
  if (message !== undefined) {
    observed.phases.requestMs = tookMs
    return { message, bytes }
  }
  observed.truncated = true
  observed.phases.truncatedMs = tookMs
  return askByConnections(running, [server], query)
}

async function askByConnections(
  running: DnsRun,
  servers: readonly DnsServer[],
  query: Buffer,
): Promise<DnsFound> {
  const { context, plan, system } = running
  const shareMs = Math.min(system.timeoutMs, plan.maxResponseTime / servers.length)
  let poor: DnsFound | undefined
  let failed: unknown
  for (const [at, server] of servers.entries()) {
    const isLast = at === servers.length - 1
    const askOne = (signal: AbortSignal) =>
      askByConnection({ ...running, context: { ...context, signal } }, server, query)
    try {
      const found = await (isLast
        ? askOne(context.signal)
        : withDeadline(context.signal, shareMs, askOne))
      if (isLast || !passesOver(found.message)) return found
      poor ??= found
    } catch (error) {
      if (!isFailure(error) || context.signal.aborted) throw error
      failed ??= error
    }
  }
  if (poor === undefined) throw failed
  return poor
}

/** Adds the packets received instead of an answer to a timeout. */
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
