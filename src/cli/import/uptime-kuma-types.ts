// Types of monitors of Uptime Kuma, and the request that each makes.
import type { Fields } from '../../agent/monitors-file/shorthands.ts'
import { hostAndPort, textOf } from './values.ts'

const EHLO = [{ expect: '^220 ' }, { send: 'EHLO vedette\r\n' }, { expect: '^250 ' }]
const UPGRADE = [{ send: 'STARTTLS\r\n' }, { expect: '^220 ' }, { startTls: true }]

type Made = { type: string; request: Fields }

/** Type and request by the type of the source; a text is the reason why there is none. */
export const TYPES: Readonly<Record<string, (given: Fields) => Made | string>> = {
  http: web,
  keyword: web,
  'json-query': web,
  port({ hostname, port, smtpSecurity = '' }) {
    if (smtpSecurity === 'starttls')
      return 'the protocol of STARTTLS is not known; use an SSL monitor'
    const tls = smtpSecurity === 'secure' ? { tls: true } : {}
    return { type: 'TCP', request: { hostname, port, ...tls } }
  },
  ping: ({ hostname }) => ({ type: 'ICMP', request: { hostname, pingCount: 1 } }),
  dns({ hostname: query, dns_resolve_type: recordType, dns_resolve_server: server, port }) {
    const [nameServer, ...others] = textOf(server).split(',').filter(Boolean)
    if (others.length > 0) return 'a monitor asks one name server, or those of the system'
    const asked =
      nameServer === undefined ? {} : { nameServer: nameServer.trim(), port: port ?? 53 }
    return { type: 'DNS', request: { query, recordType, ...asked } }
  },
  smtp({ hostname, port, smtpSecurity }) {
    const upgrade = smtpSecurity === 'starttls' ? UPGRADE : []
    const tls = smtpSecurity === 'secure' ? { tls: true } : {}
    const request = { hostname, port: port ?? 25, ...tls, dialogue: [...EHLO, ...upgrade] }
    return { type: 'TCP', request }
  },
  'websocket-upgrade': ({ url }) => ({ type: 'WEBSOCKET', request: { url, ping: false } }),
  'grpc-keyword'(given) {
    const { host, port } = hostAndPort(textOf(given['grpcUrl']))
    const proto = textOf(given['grpcProtobuf'])
    const service = textOf(given['grpcServiceName'])
    const packageName = /^\s*package\s+([\w.]+)\s*;/m.exec(proto)?.[1]
    const isWhole = packageName === undefined || service.startsWith(`${packageName}.`)
    const grpcConfig = {
      tls: Boolean(given['grpcEnableTls']),
      method: `${isWhole ? service : `${packageName}.${service}`}/${textOf(given['grpcMethod'])}`,
      serviceDefinition: 'PROTO_FILE',
      protoContent: proto,
      message: given['grpcBody'] ?? '{}',
    }
    return { type: 'GRPC', request: { url: host, port, grpcConfig } }
  },
  push: () => 'receives its results; create a HEARTBEAT monitor on a platform with `vedette apply`',
  'real-browser': () => 'needs a script; write a BROWSER monitor',
}

function web({ url }: Fields): Made {
  return { type: 'API', request: { method: 'GET', url } }
}
