// A minimal real name server on a UDP port of loopback: it answers from a table, with an error, or not at all, and
// records its queries.
import { createSocket, type RemoteInfo } from 'node:dgram'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'

/** Name → its addresses (none means no such record), the name of an error, or no answer. */
export type Zone = Record<string, string[] | 'SERVFAIL' | 'REFUSED' | 'silent'>

export interface DnsServer extends AsyncDisposable {
  /** `address:port`. */
  authority: string
  /** Names asked for, in order. */
  asked: string[]
}

const RCODES = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 }

/** Starts the server; names outside the zone are answered by its `*`, or do not exist. */
export async function startDnsServer(
  zone: Zone,
  { host = '127.0.0.1', port = 0 } = {},
): Promise<DnsServer> {
  const socket = createSocket('udp4')
  const asked: string[] = []
  socket.on('message', (query: Buffer, peer: RemoteInfo) => {
    const { name, end } = questionOf(query)
    asked.push(name)
    const type = query.readUInt16BE(end - 4)
    const entry = zone[name] ?? zone['*'] ?? 'NXDOMAIN'
    if (entry === 'silent') return
    const wanted = type === 28
    const addresses = Array.isArray(entry) ? entry.filter((one) => isIPv6(one) === wanted) : []
    const header = Buffer.alloc(12)
    query.copy(header, 0, 0, 2)
    header.writeUInt16BE(0x8180 | (Array.isArray(entry) ? 0 : RCODES[entry]), 2)
    header.writeUInt16BE(1, 4)
    header.writeUInt16BE(addresses.length, 6)
    const records = addresses.map((address) => record(address, type))
    socket.send(
      Buffer.concat([header, query.subarray(12, end), ...records]),
      peer.port,
      peer.address,
    )
  })
  socket.bind(port, host)
  await once(socket, 'listening')
  return {
    authority: `${host}:${socket.address().port}`,
    asked,
    async [Symbol.asyncDispose]() {
      socket.close()
      await once(socket, 'close')
    },
  }
}

function questionOf(query: Buffer): { name: string; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query[at] as number; length > 0; length = query[at] as number) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length).toLowerCase())
    at += length + 1
  }
  return { name: labels.join('.'), end: at + 5 }
}

function record(address: string, type: number): Buffer {
  const bytes = isIPv6(address) ? ipv6Bytes(address) : Buffer.from(address.split('.').map(Number))
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(type, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt32BE(60, 6)
  head.writeUInt16BE(bytes.length, 10)
  return Buffer.concat([head, bytes])
}

function ipv6Bytes(address: string): Buffer {
  const [front = '', back = ''] = address.split('::').map((half) =>
    half
      .split(':')
      .filter((part) => part !== '')
      .map((part) => part.padStart(4, '0'))
      .join(''),
  )
  return Buffer.from(front + '0'.repeat(32 - front.length - back.length) + back, 'hex')
}
