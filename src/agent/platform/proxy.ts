// The proxy between agent and platform: whether one is used, and connections through it. By hand, since
// what Node.js reads from the environment itself knows neither NAME_FILE nor networks in NO_PROXY.
import { Agent as HttpsAgent, type AgentOptions } from 'node:https'
import { BlockList, connect, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Duplex } from 'node:stream'
import { callbackify } from 'node:util'
import { askForTunnel } from '../../network/proxy/tunnel.ts'
import { LinkError, proxyErrorFrom, type Route } from './link-error.ts'

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

/** What a connection through a proxy needs besides the proxy. */
export interface TunnelOptions extends AgentOptions {
  proxy: PlatformProxy
  route: Route
  connectMs: number
}

/** Keeps connections to an https:// platform, each through a tunnel of the proxy. */
export class TunnelAgent extends HttpsAgent {
  readonly #tunnel: TunnelOptions

  constructor(options: TunnelOptions) {
    const { proxy: _, route: __, connectMs: ___, ...rest } = options
    super(rest)
    this.#tunnel = options
  }

  override createConnection(
    options: Parameters<HttpsAgent['createConnection']>[0],
    callback?: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    const target = { host: String(options.host), port: Number(options.port) }
    const tunnelled = callbackify(async () => {
      const socket = await openTunnel(this.#tunnel, target)
      return super.createConnection({ ...options, socket } as never) as Duplex
    })
    tunnelled(callback as (error: Error | null, socket: Duplex) => void)
    return undefined
  }
}

async function openTunnel(
  { proxy, route, connectMs, ca }: TunnelOptions,
  target: { host: string; port: number },
): Promise<Socket> {
  const message = `the proxy ${proxy.shown} to the platform ${route.platform} does not answer in time`
  const signal = AbortSignal.timeout(connectMs)
  try {
    const socket = await reach(proxy, ca, signal)
    await askForTunnel(socket, target, proxy.authorization, signal)
    return socket
  } catch (error) {
    throw signal.aborted ? new LinkError('TIMEOUT', message) : proxyErrorFrom(error, route)
  }
}

function reach(
  { host, port, secure }: PlatformProxy,
  ca: AgentOptions['ca'],
  signal: AbortSignal,
): Promise<Socket> {
  const servername = isIP(host) === 0 ? { servername: host } : {}
  const socket = secure
    ? connectTls({ host, port, ...servername, ...(ca === undefined ? {} : { ca }) })
    : connect({ host, port })
  return new Promise((resolve, reject) => {
    const settle = () => {
      signal.removeEventListener('abort', onAbort)
      socket.off('error', onError)
    }
    const onError = (error: Error) => {
      settle()
      reject(error)
    }
    const onAbort = () => {
      settle()
      socket.destroy()
      reject(signal.reason as Error)
    }
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      settle()
      // Between two steps there is no other listener, and an error without one ends the process.
      socket.on('error', () => {})
      resolve(socket)
    })
    socket.on('error', onError)
    signal.addEventListener('abort', onAbort)
  })
}

/** The host of a URL without the brackets of IPv6. */
export function bareHost(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '')
}

/** The port of a URL, given or by its protocol. */
export function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port)
  return url.protocol === 'https:' ? 443 : 80
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
