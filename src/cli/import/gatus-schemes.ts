// Types of endpoints of gatus by the scheme of the URL, and the request that each makes.
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import { hostAndPort, recordTypeOf } from './values.ts'

/** Type and request by scheme; a text is the reason why there is none. */
export function typeAndRequest(endpoint: Fields, url: string): [string, Fields] | string {
  const [, scheme = '', rest = url] = /^([a-z0-9]+):\/\/(.*)$/.exec(url) ?? []
  const { host, port } = hostAndPort(rest.split('/')[0] ?? '')
  const place = { hostname: host, ...(port === undefined ? {} : { port }) }
  if (isFields(endpoint['dns'])) return dnsRequest(endpoint['dns'], place)
  switch (scheme) {
    case 'http':
    case 'https':
      return [
        'API',
        { method: 'GET', url, ...(endpoint['graphql'] === true ? { bodyType: 'GRAPHQL' } : {}) },
      ]
    case 'ws':
    case 'wss':
      return ['WEBSOCKET', { url, ping: false }]
    case 'tcp':
      return ['TCP', place]
    case 'tls':
      return readsBody(endpoint) ? ['TCP', { ...place, tls: true }] : ['SSL', { sslConfig: place }]
    case 'starttls':
      return ['SSL', { sslConfig: { ...place, startTls: 'SMTP' } }]
    case 'icmp':
      return ['ICMP', { hostname: host, pingCount: 1 }]
    case 'grpc':
    case 'grpcs':
      return ['GRPC', { url: host, port, grpcConfig: { mode: 'HEALTH', tls: scheme === 'grpcs' } }]
    case 'ssh':
      return sshRequest(endpoint, host, port ?? 22)
    default:
      return 'no type of monitor speaks this protocol'
  }
}

const readsBody = ({ body, conditions }: Fields) =>
  (typeof body === 'string' && body !== '') || JSON.stringify(conditions ?? []).includes('[BODY]')

function dnsRequest(dns: Fields, { hostname, port }: Fields): [string, Fields] | string {
  const unknown = Object.keys(dns).find((key) => !['query-type', 'query-name'].includes(key))
  if (unknown !== undefined) return `unknown option dns.${unknown}`
  const recordType = recordTypeOf(String(dns['query-type']))
  const server = { nameServer: hostname, ...(port === undefined ? {} : { port }) }
  return ['DNS', { query: dns['query-name'], recordType, ...server }]
}

/** Without credentials, gatus reads the server's greeting alone. */
function sshRequest({ ssh }: Fields, hostname: string, port: number): [string, Fields] | string {
  const { username = '', password = '', 'private-key': key = '' } = isFields(ssh) ? ssh : {}
  if ([username, password, key].some((one) => one !== ''))
    return 'monitors do not run commands by SSH'
  return ['TCP', { hostname, port, dialogue: [{ expect: '^SSH-' }] }]
}
