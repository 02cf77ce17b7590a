// What the examples of the manual pages monitor, on loopback: each type finds a target that is as it should be.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import packet, { type Answer } from 'dns-packet'
import { rightAnswer } from './monitors/dns/hostile-name-server.ts'
import { startGrpcServer } from './monitors/grpc/grpc-server.ts'
import { saying, smtp } from './monitors/tcp-servers.ts'
import { startWebSocketServer } from './monitors/websocket/websocket-server.ts'
import { createAuthority } from './network/certificates.ts'
import { startHttpsServer, startRawServer } from './test-server.ts'

type Fields = Record<string, unknown>

/** The targets. */
export interface ExampleTargets extends AsyncDisposable {
  /** The authority of their certificates, PEM. */
  ca: string
  /** The monitor with the address of its target in place of its own. */
  aimed(monitor: Fields): Fields
}

/** Starts all of them on free ports. */
export async function startExampleTargets(): Promise<ExampleTargets> {
  const authority = createAuthority()
  const pair = authority.issue()
  const stack = new AsyncDisposableStack()
  const web = stack.use(await startHttpsServer(pair, answerWeb))
  const socket = stack.use(await startWebSocketServer(CHAT, pair))
  const mail = stack.use(await startRawServer(smtp(pair)))
  const cache = stack.use(await startRawServer(saying('+PONG\r\n')))
  const grpc = stack.use(await startGrpcServer())
  const dns = await startNameServer()
  stack.defer(dns.close)
  const tcpPorts: Record<string, number> = { 25: mail.port, 6379: cache.port }
  const at = ({ url }: Fields, origin: string) => ({
    url: String(url).replace(/^(\w+:\/\/[^/]*|\{\{\w+\}\})/, origin),
  })
  const changes: Record<string, (request: Fields) => Fields> = {
    URL: (request) => at(request, `https://${web.authority}`),
    API: (request) => at(request, `https://${web.authority}`),
    WEBSOCKET: (request) => at(request, `wss://${socket.authority}`),
    TCP: ({ port }) => ({ hostname: '127.0.0.1', port: tcpPorts[String(port)] ?? web.port }),
    DNS: () => ({ nameServer: '127.0.0.1', port: dns.port }),
    ICMP: () => ({ hostname: '127.0.0.1' }),
    TRACEROUTE: () => ({ url: '127.0.0.1' }),
    GRPC: () => ({ url: '127.0.0.1', port: grpc.port }),
    SSL: ({ sslConfig }) => {
      const { startTls } = sslConfig as { startTls?: string }
      const port = startTls === undefined ? web.port : mail.port
      return { sslConfig: { ...(sslConfig as Fields), hostname: 'localhost', port } }
    },
  }
  return {
    ca: authority.ca,
    aimed(monitor) {
      const request = monitor['request'] as Fields
      // A busy machine may be slower than the examples allow.
      const { degradedResponseTime: _, maxResponseTime: __, ...others } = monitor
      const assertions = ((request['assertions'] ?? []) as (string | Fields)[]).filter(
        (one) => !JSON.stringify(one).includes('_TIME'),
      )
      const aim = changes[String(monitor['type'])]
      return { ...others, request: { ...request, ...aim?.(request), assertions } }
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

const ORDERS = { status: 'ok', note: 'total: 42', items: [{ name: 'lamp', price: 20 }] }

const answerWeb: RequestListener = ({ method, url = '' }, response) => {
  if (url.startsWith('/api')) {
    response.writeHead(method === 'POST' ? 201 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(ORDERS))
  } else {
    response.writeHead(url === '/old' ? 410 : 200, { 'content-type': 'text/html' })
    response.end('<!doctype html><title>Shop</title>')
  }
}

const CHAT: Parameters<typeof startWebSocketServer>[0] = {
  headers({ headers }): Record<string, string> {
    const [first] = headers['sec-websocket-protocol']?.split(',') ?? []
    return first === undefined ? {} : { 'Sec-WebSocket-Protocol': first }
  },
  onMessage: (peer) => peer.send('{"type": "welcome", "users": 3}'),
}

/** A name server that has two mail exchangers for every name, and one address. */
async function startNameServer() {
  const socket = createSocket('udp4')
  socket.on('message', (query, peer) => {
    const [question] = packet.decode(query).questions ?? []
    const name = question?.name ?? '.'
    const exchange = (preference: number, host: string): Answer => {
      const data = { preference, exchange: host }
      return { type: 'MX', name, ttl: 300, data }
    }
    const exchanges = [exchange(10, 'mail.example.com'), exchange(20, 'mail2.example.com')]
    const answer =
      question?.type === 'MX' ? rightAnswer(query, { answers: exchanges }) : rightAnswer(query)
    socket.send(answer, peer.port, peer.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const close = async () => {
    socket.close()
    await once(socket, 'close')
  }
  return { port: socket.address().port, close }
}
