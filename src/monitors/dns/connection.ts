// One DNS query on its own connection: dials, starts TLS if the protocol has it, queries, closes.
import type { DnsCode } from './definition.ts'
import { peerPlace, placeOf } from '../../network/connect-errors.ts'
import type { Connection, Endpoint } from '../../network/dial.ts'
import { askOverHttps, DOH_ALPN } from './https.ts'
import { readAnswer, type DnsMessage } from '../../network/dns/message.ts'
import { noteServer, type DnsFound, type DnsRun } from './observed.ts'
import { askOnStream } from './stream.ts'
import { malformedAnswer, type DnsServer } from '../../network/dns/udp.ts'
import { literalOf } from '../../network/ip-address.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'

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
  const port = server?.port ?? plan.port
  const host = plan.nameServer ?? server?.address ?? ''
  if (server !== undefined) noteServer(observed, server)
  observed.protocol = plan.protocol === 'UDP' ? 'TCP' : plan.protocol
  const endpoint: Endpoint = { host, port, family: plan.family, address: server?.address }
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

/** Starts TLS if the protocol has it; rejects when a certificate that must verify does not. */
async function secured(running: DnsRun, { socket }: Connection, where: string) {
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

/** The answer, on a connection on which nothing else may arrive. */
function answerIn(bytes: Buffer, query: Buffer, where: string): DnsMessage {
  const reading = readAnswer(bytes, query)
  switch (reading.kind) {
    case 'answer':
      return reading.message
    case 'malformed':
      throw malformedAnswer(where, reading.reason)
    case 'truncated':
      throw targetFailure<DnsCode>(
        'DNS_TRUNCATED',
        `the answer of ${where} is cut off, over TCP as well`,
        {
          where,
        },
      )
    case 'other':
    default:
      throw targetFailure<DnsCode>(
        'DNS_MISMATCH',
        `what ${where} sent is no answer to the query: ${reading.reason}`,
        { where, reason: reading.reason },
      )
  }
}
