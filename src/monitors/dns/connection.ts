// One DNS query on its own connection: dials, starts TLS if the protocol has it, queries, closes.
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { encodeDnsName } from '../../contract/dns/name.ts'
import { DNS_CLASSES, DNS_PORTS, dnsTypeNumber } from '../../contract/dns/parameters.ts'
import { type DnsCode, type DnsMonitor, dnsQueryName } from './definition.ts'
import { connectionFailure, peerPlace, placeOf } from '../../network/connect-errors.ts'
import type { Connection, Endpoint, Progress } from '../../network/dial.ts'
import { untilAborted } from '../../network/deadline.ts'
import { askOverHttps, DOH_ALPN } from './https.ts'
import { encodeQuery, readAnswer, type DnsMessage } from '../../network/dns/message.ts'
import { noteServer, type DnsObserved } from './observed.ts'
import type { NameServers, SystemServers } from '../../network/dns/name-servers.ts'
import { malformedAnswer, type DnsServer } from '../../network/dns/udp.ts'
import { literalOf } from '../../network/ip-address.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'
import type { Context } from '../monitor.ts'
import { speakTls } from '../probe.ts'

/** A definition, ready to be run. */
export type DnsPlan = ReturnType<typeof makeDnsPlan>

/** Common plan of all attempts of a monitor. */
export function makeDnsPlan({ request, maxResponseTime }: DnsMonitor) {
  // The schema has refused a name that cannot be encoded.
  const name = encodeDnsName(dnsQueryName(request)) as Buffer
  const type = dnsTypeNumber(request.recordType)
  const question = { ...request, name, type, class: DNS_CLASSES[request.recordClass] }
  // A definition that uses EDNS must not get an answer without it.
  const canDoWithout = request.ednsBytes > 0 && !request.dnssecOk && !request.nsid
  return {
    request,
    maxResponseTime,
    port: request.port ?? DNS_PORTS[request.protocol],
    /** The queries, each with id 0. The one without EDNS is for servers that do not know it. */
    query: encodeQuery(question),
    plainQuery: canDoWithout ? encodeQuery({ ...question, ednsBytes: 0 }) : undefined,
  }
}

/** A running query. */
export interface DnsRun {
  plan: DnsPlan
  context: Context
  system: SystemServers & { nameServers: NameServers }
  observed: DnsObserved
  progress: Progress
}

/** An answer and its size. */
export interface DnsFound {
  message: DnsMessage
  bytes: number
}

/**
 * Queries one server, by default the definition's, by its name. Rejects with TargetFailure
 * (DNS_…, CONNECT_…, TLS_…, PROXY_…), or the signal's reason. No socket is left in any case.
 */
export async function askByConnection(
  running: DnsRun,
  server: DnsServer | undefined,
  query: Buffer,
): Promise<DnsFound> {
  const { plan, context, observed, progress } = running
  const { signal, dial } = context
  const { nameServer, protocol, ipFamily: family } = plan.request
  const port = server?.port ?? plan.port
  const host = nameServer ?? server?.address ?? ''
  if (server !== undefined) noteServer(observed, server)
  observed.protocol = protocol === 'UDP' ? 'TCP' : protocol
  const endpoint: Endpoint = { host, port, family, address: server?.address }
  const connection = await dial.connect(endpoint, progress, signal)
  if (server === undefined) {
    noteServer(observed, { address: connection.address, port })
    if (literalOf(host) === undefined) observed.phases.dnsMs = connection.dnsMs
  }
  const { connectMs, proxyMs } = connection
  observed.phases.connectMs = connectMs
  if (proxyMs !== undefined) observed.phases.proxyMs = proxyMs
  const where = peerPlace({ host, port }, connection)
  try {
    const socket = await secured(running, connection, where)
    const startedAt = performance.now()
    const order = { where, query, authority: authorityOf(host, port), path: plan.request.dohPath }
    const bytes =
      protocol === 'DOH'
        ? await askOverHttps({ socket: socket as TLSSocket, ...order }, progress, signal)
        : await askOnStream(socket, query, where, progress, signal)
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

/** Starts TLS if the protocol has it; rejects when a certificate that must verify does not. */
async function secured(running: DnsRun, { socket }: Connection, where: string): Promise<Socket> {
  const { plan, context, observed, progress } = running
  const { protocol, nameServer, tls: settings, skipSSL } = plan.request
  if (protocol !== 'DOT' && protocol !== 'DOH') return socket
  const alpn = protocol === 'DOH' ? DOH_ALPN : ['dot']
  const handshake = { serverName: nameServer ?? '', settings, skipSSL, where, alpn }
  return speakTls(socket, handshake, context, progress, observed)
}

/**
 * Sends the query and reads one message, each behind two bytes of its length (RFC 1035, 4.2.2; RFC 7858). The caller
 * destroys the socket.
 */
function askOnStream(
  socket: Socket,
  query: Buffer,
  where: string,
  progress: Progress,
  signal: AbortSignal,
): Promise<Buffer> {
  // Events, since an iterator over the socket costs half as much as the query.
  const answer = new Promise<Buffer>((resolve, reject) => {
    let received: Buffer = Buffer.alloc(0)
    const onEnd = () => {
      const reason = received.length === 0 ? 'without an answer' : 'within its answer'
      const message = `${where} closed the connection ${reason}`
      reject(targetFailure('CONNECTION_CLOSED', message, { where }))
    }
    socket.on('end', onEnd).on('close', onEnd)
    socket.on('error', (error) => reject(new TargetFailure(connectionFailure(error, where))))
    socket.on('data', (chunk: Buffer) => {
      progress.phase = 'download'
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
      if (received.length < 2) return
      const end = 2 + received.readUInt16BE(0)
      if (received.length < end) return
      socket.off('end', onEnd).off('close', onEnd)
      resolve(received.subarray(2, end))
    })
  })
  progress.phase = 'firstByte'
  const framed = Buffer.allocUnsafe(2 + query.length)
  framed.writeUInt16BE(query.length)
  framed.set(query, 2)
  socket.write(framed)
  return untilAborted(answer, signal)
}

/** The answer, on a connection on which nothing else may arrive. */
function answerIn(bytes: Buffer, query: Buffer, where: string): DnsMessage {
  const reading = readAnswer(bytes, query)
  switch (reading.kind) {
    case 'answer':
      return reading.message
    case 'malformed':
      throw malformedAnswer(where, reading.reason)
    case 'truncated': {
      const message = `the answer of ${where} is cut off, over TCP as well`
      throw targetFailure<DnsCode>('DNS_TRUNCATED', message, { where })
    }
    case 'other':
    default: {
      const { reason } = reading
      const message = `${where} sent an answer that does not match the query: ${reason}`
      throw targetFailure<DnsCode>('DNS_MISMATCH', message, { where, reason })
    }
  }
}
