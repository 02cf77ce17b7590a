// Whose request it is: the address of the socket, or what proxies that we trust say about it.
import type { Context } from 'hono'
import { BlockList, isIP, isIPv6 } from 'node:net'
import { ipv6Groups } from '../../contract/dns/name.ts'

/** The address of a request's client; IPv6 addresses count by their /64 network. */
export type ClientAddress = (c: Context) => string

/**
 * Reads X-Forwarded-For only when the socket's other end is in `trustedProxies` (addresses or CIDR
 * networks), from the right, up to the first address that is no trusted proxy. Throws on a bad network.
 */
export function createClientAddress(trustedProxies: readonly string[]): ClientAddress {
  const trusted = networks(trustedProxies)
  return (c) => {
    const incoming = (c.env as { incoming?: { socket?: { remoteAddress?: string } } } | undefined)
      ?.incoming
    let address = plain(incoming?.socket?.remoteAddress ?? '')
    const forwarded = (c.req.header('x-forwarded-for') ?? '').split(',').map((one) => one.trim())
    while (isTrusted(trusted, address)) {
      const next = plain(forwarded.pop() ?? '')
      if (isIP(next) === 0) break
      address = next
    }
    return isIPv6(address) ? networkOf(address) : address
  }
}

function networks(list: readonly string[]): BlockList {
  const trusted = new BlockList()
  for (const one of list) {
    const [address = '', prefix, ...more] = one.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    // An empty prefix would be read as 0, and all the world be trusted.
    const isNetwork = prefix === undefined || (/^\d{1,3}$/.test(prefix) && more.length === 0)
    if (isIP(address) === 0 || !isNetwork) {
      throw new TypeError(`"${one}" is neither an address nor a network`)
    }
    trusted.addSubnet(
      address,
      prefix === undefined ? (family === 'ipv6' ? 128 : 32) : Number(prefix),
      family,
    )
  }
  return trusted
}

function isTrusted(trusted: BlockList, address: string): boolean {
  if (isIP(address) === 0) return false
  return trusted.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}

/** An IPv4 address that came over an IPv6 socket, as IPv4. */
function plain(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  return mapped?.[1] ?? address
}

function networkOf(address: string): string {
  const groups = ipv6Groups(address).slice(0, 4)
  return `${groups.map((group) => group.toString(16)).join(':')}::/64`
}
