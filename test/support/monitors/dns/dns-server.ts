// A minimal real name server on a UDP port of loopback: it answers from a table, with an error, or not at all, and
// records its queries.
import { createSocket, type RemoteInfo } from 'node:dgram'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'
import packet, { type Answer } from 'dns-packet'
import { NameServers } from '../../../../src/network/dns/name-servers.ts'
import { rightAnswer } from './hostile-name-server.ts'

/** Name → its addresses (none means no such record), the name of an error, or no answer. */
export type Zone = Record<string, string[] | 'SERVFAIL' | 'REFUSED' | 'silent'>

export interface DnsServer extends AsyncDisposable {
  /** `address:port`. */
  authority: string
  /** It alone, as name servers of a resolver that quickly finds them unresponsive. */
  nameServers: NameServers
  /** Names asked for, in order. */
  asked: string[]
}

/** Ten times faster than an agent. */
export const QUICK = { rootAfterMs: 50, rootTryMs: 50, turnMs: 20 }

const RCODES = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 }

/** Starts the server; names outside the zone are answered by its `*`, or do not exist. */
export async function startDnsServer(
  zone: Zone,
  { host = '127.0.0.1', port = 0 } = {},
): Promise<DnsServer> {
  const socket = createSocket('udp4')
  const asked: string[] = []
  socket.on('message', (query: Buffer, peer: RemoteInfo) => {
    const [question] = packet.decode(query).questions ?? []
    const asIs = question?.name ?? '.'
    const name = asIs === '.' ? '' : asIs.toLowerCase()
    asked.push(name)
    const entry = zone[name] ?? zone['*'] ?? 'NXDOMAIN'
    if (entry === 'silent') return
    const wanted = (address: string) => question?.type === (isIPv6(address) ? 'AAAA' : 'A')
    const answer = Array.isArray(entry)
      ? { answers: entry.filter(wanted).map((data) => recordOf(asIs, data)) }
      : { answers: [], rcode: RCODES[entry] }
    socket.send(rightAnswer(query, answer), peer.port, peer.address)
  })
  socket.bind(port, host)
  await once(socket, 'listening')
  const server = { address: host, port: socket.address().port }
  return {
    authority: `${host}:${server.port}`,
    nameServers: new NameServers(() => ({ servers: [server] }), QUICK),
    asked,
    async [Symbol.asyncDispose]() {
      socket.close()
      await once(socket, 'close')
    },
  }
}

function recordOf(name: string, data: string): Answer {
  return { type: isIPv6(data) ? 'AAAA' : 'A', name, ttl: 60, data }
}
