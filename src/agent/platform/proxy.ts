// The proxy between agent and platform: whether one is used, and connections through it. undici's ProxyAgent knows
// no networks in NO_PROXY, and its errors do not tell the proxy from the platform.
import { BlockList, isIP, type Socket } from 'node:net'
import { callbackify, promisify } from 'node:util'
import { decoded } from '../../contract/definition-secrets.ts'
import { askForTunnel } from '../../network/proxy/tunnel.ts'
import { proxyErrorFrom, type Route } from './link-error.ts'
import { buildConnector, type Connector } from './undici.ts'

/** The parts of a proxy's address. */
export interface PlatformProxy {
  host: string
  port: number
  secure: boolean
  /** Of `Proxy-Authorization`. */
  authorization: string | undefined
  /** `http://proxy.example.com:3128`, without credentials. */
  shown: string
}

/** The proxy on the way to `url`: `proxyUrl`, unless NO_PROXY names the host. */
export function proxyFor(
  url: URL,
  proxyUrl: string | undefined,
  noProxy: readonly string[],
): PlatformProxy | undefined {
  if (proxyUrl === undefined || isExempt(url, noProxy)) return undefined
  const proxy = new URL(proxyUrl)
  const secure = proxy.protocol === 'https:'
  const credentials = [proxy.username, proxy.password].map(decoded).join(':')
  return {
    host: bareHost(proxy),
    port: portOf(proxy),
    secure,
    authorization:
      credentials === ':' ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`,
    shown: `${proxy.protocol}//${proxy.host}`,
  }
}

/**
 * Whether NO_PROXY names the host of `url`. Known forms: `*`; `host` and `.host`, which both mean the host
 * and all below it; `*.host`, only those below it; each with `:port`; addresses and networks (`10.0.0.0/8`).
 */
export function isExempt(url: URL, noProxy: readonly string[]): boolean {
  const host = bareHost(url).toLowerCase().replace(/\.$/, '')
  return noProxy.some((entry) => fits(entry.trim().toLowerCase(), host, portOf(url)))
}

function fits(entry: string, host: string, port: number): boolean {
  if (entry === '*') return true
  const { name, onlyPort } = splitPort(entry)
  if (onlyPort !== undefined && onlyPort !== port) return false
  if (name.includes('/')) return isInNetwork(host, name)
  if (isIP(name) !== 0) return isInNetwork(host, `${name}/${isIP(name) === 4 ? 32 : 128}`)
  const below = name.replace(/^\*?\./, '')
  if (below === '') return false
  if (host.endsWith(`.${below}`)) return true
  return host === below && !name.startsWith('*')
}

function splitPort(entry: string): { name: string; onlyPort?: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(entry)
  if (match === null) return { name: entry }
  const name = match[1] ?? match[2] ?? ''
  return match[3] === undefined ? { name } : { name, onlyPort: Number(match[3]) }
}

function isInNetwork(host: string, network: string): boolean {
  const [address = '', bits = ''] = network.split('/')
  const [family, of] = [isIP(host), isIP(address)]
  if (family === 0 || of === 0 || !/^\d{1,3}$/.test(bits)) return false
  if (Number(bits) > (of === 4 ? 32 : 128)) return false
  const list = new BlockList()
  list.addSubnet(address, Number(bits), of === 4 ? 'ipv4' : 'ipv6')
  return list.check(host, family === 4 ? 'ipv4' : 'ipv6')
}

/** How connections are made: with other authorities than those of Node.js, and within which time. */
export interface ConnectOptions {
  ca: string | undefined
  connectMs: number
}

/** Connects to the platform itself. */
export function directConnector({ ca, connectMs: timeout }: ConnectOptions): Connector {
  return buildConnector({ allowH2: false, timeout, ...(ca !== undefined && { ca }) })
}

/** Connects to the proxy, for plain HTTP that it forwards. */
export function proxyConnector(proxy: PlatformProxy, options: ConnectOptions): Connector {
  const connect = directConnector(options)
  const { host: hostname, port, secure } = proxy
  const target = { hostname, port: String(port), protocol: secure ? 'https:' : 'http:' }
  // Its own name for TLS, which undici would take from the Host header; an address has none.
  const servername = isIP(hostname) === 0 ? hostname : ''
  return (_, callback) => connect({ ...target, host: hostname, servername }, callback)
}

/** Connects to an https:// platform through a tunnel of the proxy. */
export function tunnelConnector(
  proxy: PlatformProxy,
  route: Route,
  options: ConnectOptions,
): Connector {
  const toProxy = promisify(proxyConnector(proxy, options))
  const toPlatform = directConnector(options)
  const tunnel = async (target: Parameters<Connector>[0]): Promise<Socket> => {
    const signal = AbortSignal.timeout(options.connectMs)
    const socket = (await toProxy(target)) as Socket
    const to = { host: target.hostname, port: Number(target.port || 443) }
    await askForTunnel(socket, to, proxy.authorization, signal)
    return socket
  }
  const open = callbackify(tunnel)
  return (target, callback) =>
    open(target, (error, httpSocket) => {
      if (error === null) toPlatform({ ...target, httpSocket }, callback)
      else callback(proxyErrorFrom(error, route), null)
    })
}

/** The host of a URL without the brackets of IPv6. */
function bareHost(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '')
}

/** The port of a URL, given or by its protocol. */
export function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port)
  return url.protocol === 'https:' ? 443 : 80
}
